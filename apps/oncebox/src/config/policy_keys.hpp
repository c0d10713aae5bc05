#pragma once

#include <vector>

#include "config/config_keys.hpp"

/// The keys of the rules for topics: [retry], for all of them, and [[topics]].
namespace oncebox::app {

using TopicKey = Key<server::TopicOptions>;

[[nodiscard]] std::vector<ConfigKey> retry_keys();
[[nodiscard]] const std::vector<TopicKey>& topic_keys();

}  // namespace oncebox::app
