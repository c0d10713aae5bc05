#pragma once

#include <string>
#include <vector>

#include "command.hpp"
#include "oncebox/topic_policy.hpp"

/// Rules for topics on the command line.
namespace oncebox::app {

/// How often and when a message is tried again. The change is borrowed.
[[nodiscard]] std::vector<Option> retry_options(TopicPolicyChange& change);
/// How many run at once, and how fast they are handed out.
[[nodiscard]] std::vector<Option> limit_options(TopicPolicyChange& change);

/// The delays of a rule, for people.
[[nodiscard]] std::string delays_of(const TopicPolicy& policy);

}  // namespace oncebox::app
