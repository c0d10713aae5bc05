#pragma once

#include "memory_queue.hpp"
#include "oncebox/topic_policy.hpp"

namespace oncebox::memory {

/// The rules of all queues. Each queue keeps its own, under its lock.
class MemoryPolicies final : public PolicyStore {
 public:
  /// Everything is borrowed.
  MemoryPolicies(MemoryQueue& inbox, MemoryQueue& outbox, MemoryQueue& deliveries)
      : inbox_(inbox), outbox_(outbox), deliveries_(deliveries) {}

 private:
  std::vector<TopicRule> do_rules(QueueKind queue) override;
  TopicPolicy do_update(QueueKind queue, const TopicPattern& pattern,
                        const TopicPolicyChange& change, const PolicyOptions& options) override;
  bool do_remove(QueueKind queue, const TopicPattern& pattern,
                 const PolicyOptions& options) override;

  [[nodiscard]] MemoryQueue& of(QueueKind queue) noexcept {
    switch (queue) {
      case QueueKind::inbox:
        return inbox_;
      case QueueKind::outbox:
        return outbox_;
      case QueueKind::deliveries:
        break;
    }
    return deliveries_;
  }

  MemoryQueue& inbox_;
  MemoryQueue& outbox_;
  MemoryQueue& deliveries_;
};

}  // namespace oncebox::memory
