#pragma once

#include "memory_queue.hpp"
#include "oncebox/topic_policy.hpp"

namespace oncebox::memory {

/// The rules of both queues. Each queue keeps its own, under its lock.
class MemoryPolicies final : public PolicyStore {
 public:
  /// Both are borrowed.
  MemoryPolicies(MemoryQueue& inbox, MemoryQueue& outbox) : inbox_(inbox), outbox_(outbox) {}

 private:
  std::vector<TopicRule> do_rules(QueueKind queue) override;
  TopicPolicy do_update(QueueKind queue, const TopicPattern& pattern,
                        const TopicPolicyChange& change, const PolicyOptions& options) override;
  bool do_remove(QueueKind queue, const TopicPattern& pattern,
                 const PolicyOptions& options) override;

  [[nodiscard]] MemoryQueue& of(QueueKind queue) noexcept {
    return queue == QueueKind::inbox ? inbox_ : outbox_;
  }

  MemoryQueue& inbox_;
  MemoryQueue& outbox_;
};

}  // namespace oncebox::memory
