#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "memory_queue.hpp"
#include "oncebox/transaction.hpp"
#include "staged_messages.hpp"

namespace oncebox::memory {

/// Gathers what is to happen at once, and then does it under the locks of all queues. No lock is
/// held meanwhile, so a handler may take its time and read the store.
class MemoryTransaction final : public Transaction {
 public:
  explicit MemoryTransaction(const MemoryQueues& queues);

  void on_commit(std::function<void()> apply);

  struct Acknowledgement {
    QueueKind queue = QueueKind::inbox;
    Delivery delivery;
  };

  /// Does everything when it answers `settled`, otherwise nothing. An answer without value: an
  /// outcome that was told no longer holds. The transaction is over, also when it throws.
  [[nodiscard]] std::optional<SettleOutcome> commit(const std::optional<Acknowledgement>& ended);
  void roll_back() noexcept { is_over_ = true; }

 private:
  std::vector<EnqueueOutcome> do_enqueue(QueueKind queue, std::span<const Message> messages,
                                         const EnqueueOptions& options) override;
  void require_open() const;
  [[nodiscard]] StagedMessages& staged(QueueKind queue) noexcept;
  void apply_effects() noexcept;

  MemoryQueue& inbox_;
  MemoryQueue& outbox_;
  MemoryQueue& deliveries_;
  StagedMessages to_inbox_{inbox_};
  StagedMessages to_outbox_{outbox_};
  StagedMessages to_deliveries_{deliveries_};
  std::vector<std::function<void()>> effects_;
  bool is_over_ = false;
};

}  // namespace oncebox::memory
