#pragma once

#include <vector>

#include "config/config_keys.hpp"

/// The keys of the rules for topics: [retry], for all of them, [[topics]], and [[publish]].
namespace oncebox::app {

using TopicKey = Key<server::TopicOptions>;
using PublishKey = Key<server::PublishEndpoint>;

[[nodiscard]] std::vector<ConfigKey> retry_keys();
[[nodiscard]] const std::vector<TopicKey>& topic_keys();
[[nodiscard]] const std::vector<PublishKey>& publish_keys();

}  // namespace oncebox::app
