#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/topic_policy.hpp"

/// The rules for topics as JSON:
/// `{"topic": "order.*", "maxAttempts"?: 5, "backoffSeconds"?: 1, "delaysSeconds"?: [1, 60],
///   "maxDelaySeconds"?: 60, "jitter"?: "Full", "giveUpAfterSeconds"?: …, "maxDeliveries"?: …,
///   "maxConcurrency"?: 2, "rate"?: {"count": 100, "perSeconds"?: 1, "burst"?: 20}, "paused"?:
///   true}`.
namespace oncebox::wire {

/// What is to change in a rule, and why: a field that is null is cleared, one that is not there is
/// left as it is.
struct PolicyCall {
  TopicPattern topic;
  TopicPolicyChange change = {};
  std::string reason = {};
};
[[nodiscard]] PolicyCall read_policy_call(std::string_view json);
[[nodiscard]] std::string write_policy_call(const PolicyCall& call);

/// `{"policies": [rule, …]}`.
[[nodiscard]] std::string write_policies(std::span<const TopicRule> rules);
[[nodiscard]] std::vector<TopicRule> read_policies(std::string_view json);

/// A rule as it is now.
[[nodiscard]] std::string write_policy(const TopicRule& rule);
[[nodiscard]] TopicRule read_policy(std::string_view json);

}  // namespace oncebox::wire
