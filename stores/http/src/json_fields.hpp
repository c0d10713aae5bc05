#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "oncebox/store.hpp"

/// Fields of what the service tells about its stores. What is missing or of another type counts as
/// empty: a later version may say things in another way.
namespace oncebox::http {

[[nodiscard]] inline HealthStatus health_named(std::string_view word) {
  if (word == "Healthy") return HealthStatus::healthy;
  if (word == "Degraded") return HealthStatus::degraded;
  return HealthStatus::unavailable;
}

[[nodiscard]] inline bool is_true(const boost::json::object& object, std::string_view name) {
  const boost::json::value* const value = object.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

[[nodiscard]] inline std::string text_of(const boost::json::object& object, std::string_view name) {
  const boost::json::value* const value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

[[nodiscard]] inline Health health_of(const boost::json::object& object) {
  return {.status = health_named(text_of(object, "health")), .detail = text_of(object, "detail")};
}

}  // namespace oncebox::http
