#pragma once

#include <string>
#include <string_view>

#include "oncebox/topic_policy.hpp"

namespace oncebox::sql {

/// A policy as a JSON object of what it says, durations in milliseconds, so that a person can read
/// the column.
[[nodiscard]] std::string to_json(const TopicPolicy& policy);

/// Reads what `to_json` wrote. Throws `corrupt` when the text is anything else.
[[nodiscard]] TopicPolicy policy_from_json(std::string_view text);

/// `SELECT pattern, is_exact, policy`.
template <class Row>
TopicRule read_topic_rule(const Row& row) {
  const std::string pattern(row.text(0));
  const bool is_exact = row.int32(1) != 0;
  return {is_exact ? TopicPattern(Topic(pattern)) : TopicPattern(pattern),
          policy_from_json(row.text(2))};
}

}  // namespace oncebox::sql
