#include "memory_policies.hpp"

namespace oncebox::memory {

std::vector<TopicRule> MemoryPolicies::do_rules(QueueKind queue) { return of(queue).rules(); }

TopicPolicy MemoryPolicies::do_update(QueueKind queue, const TopicPattern& pattern,
                                      const TopicPolicyChange& change,
                                      const PolicyOptions& /*options*/) {
  TopicPolicy after;
  of(queue).change_rules(queue, [&](std::vector<TopicRule> rules) {
    after = policy_after(rules, pattern, change);
    std::erase_if(rules, [&](const TopicRule& rule) { return rule.pattern == pattern; });
    if (!after.empty()) rules.push_back({pattern, after});
    return rules;
  });
  return after;
}

bool MemoryPolicies::do_remove(QueueKind queue, const TopicPattern& pattern,
                               const PolicyOptions& /*options*/) {
  bool removed = false;
  of(queue).change_rules(queue, [&](std::vector<TopicRule> rules) {
    removed = std::erase_if(rules, [&](const TopicRule& r) { return r.pattern == pattern; }) > 0;
    return rules;
  });
  return removed;
}

}  // namespace oncebox::memory
