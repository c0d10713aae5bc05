#include "oncebox/sql/endpoint_json.hpp"

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <utility>

#include "oncebox/error.hpp"

namespace oncebox::sql {

namespace json = boost::json;

namespace {

[[noreturn]] void refuse_endpoint() {
  throw Error(ErrorCode::corrupt, "a stored endpoint is not one that Oncebox wrote");
}

std::int64_t since_epoch(TimePoint time) { return time.time_since_epoch().count(); }

template <class Read>
auto read_stored_object(std::string_view text, Read read) {
  json::error_code error;
  const json::value value = json::parse(text, error);
  const json::object* const object = error ? nullptr : value.if_object();
  if (object == nullptr) refuse_endpoint();
  try {
    return read(*object);
  } catch (const boost::system::system_error&) {
    refuse_endpoint();
  }
}

json::array patterns_to_json(const std::vector<TopicPattern>& patterns) {
  json::array array;
  for (const TopicPattern& pattern : patterns) {
    // What is not exact may well look so.
    array.push_back({{"pattern", pattern.str()}, {"exact", pattern.is_exact()}});
  }
  return array;
}

std::vector<TopicPattern> patterns_from_json(const json::array& array) {
  std::vector<TopicPattern> patterns;
  for (const json::value& value : array) {
    const std::string text(value.at("pattern").as_string());
    patterns.push_back(value.at("exact").as_bool() ? TopicPattern(Topic(text))
                                                   : TopicPattern(text));
  }
  return patterns;
}

}  // namespace

std::string to_json(const Endpoint& endpoint) {
  json::object object{{"url", endpoint.url},
                      {"topics", patterns_to_json(endpoint.topics)},
                      {"allow_private", endpoint.allow_private},
                      {"disable_after_ms", std::int64_t{endpoint.disable_after.count()}}};
  if (endpoint.secrets) {
    object["secrets"] = json::array(endpoint.secrets->begin(), endpoint.secrets->end());
  }
  json::object headers;
  for (const auto& [name, value] : endpoint.headers) headers[name] = value;
  object["headers"] = std::move(headers);
  if (endpoint.timeout) object["timeout_ms"] = std::int64_t{endpoint.timeout->count()};
  return json::serialize(object);
}

Endpoint endpoint_from_json(std::string_view name, std::string_view text) {
  return read_stored_object(text, [&](const json::object& object) {
    Endpoint endpoint{.name = name,
                      .url = std::string(object.at("url").as_string()),
                      .topics = patterns_from_json(object.at("topics").as_array()),
                      .allow_private = object.at("allow_private").as_bool(),
                      .disable_after = Duration{object.at("disable_after_ms").as_int64()}};
    if (const json::value* const secrets = object.if_contains("secrets")) {
      endpoint.secrets.emplace();
      for (const json::value& secret : secrets->as_array()) {
        endpoint.secrets->emplace_back(secret.as_string());
      }
    }
    for (const auto& [header, value] : object.at("headers").as_object()) {
      endpoint.headers.set(header, std::string_view(value.as_string()));
    }
    if (const json::value* const timeout = object.if_contains("timeout_ms")) {
      endpoint.timeout = Duration{timeout->as_int64()};
    }
    return endpoint;
  });
}

std::string to_json(const EndpointStatus& status) {
  json::object object;
  if (status.failing_since) object["failing_since"] = since_epoch(*status.failing_since);
  if (status.last_failure) object["last_failure"] = since_epoch(*status.last_failure);
  if (status.disabled) {
    object["disabled_at"] = since_epoch(status.disabled->at);
    object["disabled_because"] = status.disabled->reason;
  }
  return json::serialize(object);
}

EndpointStatus endpoint_status_from_json(std::string_view text) {
  return read_stored_object(text, [](const json::object& object) {
    EndpointStatus status;
    if (const json::value* const since = object.if_contains("failing_since")) {
      status.failing_since = TimePoint{Duration{since->as_int64()}};
    }
    if (const json::value* const last = object.if_contains("last_failure")) {
      status.last_failure = TimePoint{Duration{last->as_int64()}};
    }
    if (const json::value* const at = object.if_contains("disabled_at")) {
      status.disabled = {TimePoint{Duration{at->as_int64()}},
                         std::string(object.at("disabled_because").as_string())};
    }
    return status;
  });
}

}  // namespace oncebox::sql
