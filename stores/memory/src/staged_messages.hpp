#pragma once

#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

#include "memory_queue.hpp"

namespace oncebox::memory {

/// The messages that a transaction will put into one queue. Nobody sees them there, but those that
/// come later in the transaction do.
class StagedMessages {
 public:
  /// The queue is borrowed.
  explicit StagedMessages(MemoryQueue& queue) : queue_(queue) {}

  [[nodiscard]] std::size_t size() const noexcept { return staged_.size(); }

  /// Answers what `QueueStore::enqueue` would after everything that was staged before. When it
  /// throws, nothing was staged.
  std::vector<EnqueueOutcome> enqueue(std::span<const Message> messages,
                                      const EnqueueOptions& options);

  /// Puts all of them into the queue. False when an outcome is not the one that was told, because
  /// other calls came between: then the batch is to be taken back.
  [[nodiscard]] bool put_into(MemoryQueue::IntakeBatch& batch) const;

  [[nodiscard]] bool brings_work() const noexcept;

 private:
  struct Staged {
    Message message;
    EnqueueOptions options;
    EnqueueOutcome told;
  };

  [[nodiscard]] std::vector<std::size_t> earlier_of(std::span<const Message> messages) const;
  [[nodiscard]] std::vector<EnqueueOutcome> foresee(std::span<const Message> messages,
                                                    const EnqueueOptions& options);
  void stage(std::span<const Message> messages, const EnqueueOptions& options,
             std::span<const EnqueueOutcome> told);

  MemoryQueue& queue_;
  std::vector<Staged> staged_;
  /// Which of them touch the message of a key.
  std::unordered_multimap<MessageKey, std::size_t> by_key_;
};

}  // namespace oncebox::memory
