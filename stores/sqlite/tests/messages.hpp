#pragma once

#include <string>
#include <utility>

#include "oncebox/message.hpp"

namespace oncebox::sqlite {

/// What a shop sends about an order.
inline Message message(const std::string& id, std::string payload = "{}") {
  return {.key = {"shop", id}, .topic = "order.created", .payload = std::move(payload)};
}

}  // namespace oncebox::sqlite
