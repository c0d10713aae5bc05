#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/driver/claim_allowance.hpp"
#include "oncebox/topic_policy.hpp"

namespace oncebox::sql {

/// A policy as a JSON object of what it says, durations in milliseconds, so that a person can read
/// the column.
[[nodiscard]] std::string to_json(const TopicPolicy& policy);

/// Reads what `to_json` wrote. Throws `corrupt` when the text is anything else.
[[nodiscard]] TopicPolicy policy_from_json(std::string_view text);

/// A rule, and what of its limited rate is used up (see `LimitUse`).
struct StoredRule {
  TopicRule rule;
  std::int64_t spent_until_ns = 0;
};

/// `SELECT pattern, is_exact, policy, spent_until`.
template <class Row>
StoredRule read_stored_rule(const Row& row) {
  const std::string pattern(row.text(0));
  const bool is_exact = row.int32(1) != 0;
  return {{is_exact ? TopicPattern(Topic(pattern)) : TopicPattern(pattern),
           policy_from_json(row.text(2))},
          row.int64(3)};
}

[[nodiscard]] std::vector<TopicRule> rules_of(std::span<const StoredRule> stored);

/// One for each limit of the policies, which were made of these rules.
[[nodiscard]] std::vector<LimitUse> spent_of(const TopicPolicies& policies,
                                             std::span<const StoredRule> stored);

}  // namespace oncebox::sql
