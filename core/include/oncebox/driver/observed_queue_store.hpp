#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/queue_store.hpp"

namespace oncebox {

/// A queue store that tells a logger and an observer what passes through it, and otherwise behaves
/// as the one below. Logging and metrics are written here once, for every backend.
///
/// Levels: observations and claims at debug, enqueues and reaps at info, hash mismatches and buried
/// messages at warning, failing calls at error. Every line carries the store's name. No line
/// carries a payload, a header value or an error text of a handler.
class ObservedQueueStore final : public QueueStore, private TransactionalQueue {
 public:
  /// Everything is borrowed and must outlive this object. `store_name` appears in each line.
  ObservedQueueStore(QueueStore& below, std::string store_name, Logger& logger, Observer& observer,
                     const Clock& clock);

  /// Enqueues with the commit of a transaction instead, and tells of it in the same way: of what
  /// was offered, whether it commits or not.
  std::vector<EnqueueOutcome> enqueue_with(Transaction& transaction, QueueKind queue,
                                           std::span<const Message> messages,
                                           const EnqueueOptions& options = {});

  [[nodiscard]] TransactionalQueue* transactional() noexcept override {
    return below_.transactional() != nullptr ? this : nullptr;
  }

 private:
  std::vector<EnqueueOutcome> do_enqueue(std::span<const Message> messages,
                                         const EnqueueOptions& options) override;
  std::vector<ObserveOutcome> do_observe(std::span<const Observation> observations) override;
  std::vector<MarkOutcome> do_mark(std::span<const Mark> marks) override;
  ClaimResult do_claim(const ClaimRequest& request) override;
  std::vector<SettleOutcome> do_settle(std::span<const Settlement> settlements) override;
  std::vector<ExtendOutcome> do_extend(std::span<const LeaseExtension> extensions) override;
  ReapResult do_reap(const ReapRequest& request) override;
  std::optional<TimePoint> do_next_due(const TopicSelection& topics) override;
  void do_listen(std::weak_ptr<WorkListener> listener) override;
  void do_offer(const std::shared_ptr<ClaimOffer>& offer) override;
  SettleOutcome acknowledge_with(const Delivery& delivery, const Work& work) override;
  std::vector<std::optional<MessageRecord>> do_find(std::span<const MessageKey> keys) override;
  void do_require_outside_transaction() const override { below_.require_outside_transaction(); }

  void observe_enqueue(std::span<const Message> messages, std::span<const EnqueueOutcome> outcomes);
  void observe_settlement(const Settlement& settlement, const SettleOutcome& outcome);
  void observe_claim(std::span<const ClaimedMessage> claimed, const ClaimRequest& request);
  void observe_reap(const ReapResult& result);

  template <class Call>
  auto timed(std::string_view name, std::size_t items, Call call);

  QueueStore& below_;
  std::string store_name_;
  Logger& logger_;
  Observer& observer_;
  const Clock& clock_;
};

}  // namespace oncebox
