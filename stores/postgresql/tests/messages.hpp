#pragma once

#include <string>

#include "oncebox/message.hpp"

namespace oncebox::postgresql {

/// What a shop sends about an order.
inline MessageKey key(const std::string& id) { return {"shop", id}; }
inline Message message(const std::string& id, const char* topic = "order.created") {
  return {.key = key(id), .topic = topic, .payload = "{}"};
}

}  // namespace oncebox::postgresql
