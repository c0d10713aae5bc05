#include "oncebox/sql/policy_json.hpp"

#include <array>
#include <boost/json.hpp>
#include <utility>

#include "oncebox/error.hpp"

namespace oncebox::sql {

namespace json = boost::json;

namespace {

constexpr std::array<std::pair<Jitter, std::string_view>, 3> kJitters{
    {{Jitter::none, "none"}, {Jitter::equal, "equal"}, {Jitter::full, "full"}}};

[[noreturn]] void refuse() {
  throw Error(ErrorCode::corrupt, "the stored policy of a topic is not one that Oncebox wrote");
}

std::string_view to_word(Jitter jitter) {
  for (const auto& [value, word] : kJitters) {
    if (value == jitter) return word;
  }
  refuse();
}

Jitter jitter_of(std::string_view word) {
  for (const auto& [value, known] : kJitters) {
    if (known == word) return value;
  }
  refuse();
}

void put(json::object& object, std::string_view name, const std::optional<Duration>& value) {
  if (value) object[name] = std::int64_t{value->count()};
}

template <class Number>
void put(json::object& object, std::string_view name, const std::optional<Number>& value) {
  if (value) object[name] = *value;
}

std::int64_t number(const json::value& value) {
  const std::int64_t* const found = value.if_int64();
  if (found == nullptr) refuse();
  return *found;
}

std::optional<Duration> duration(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr) return std::nullopt;
  return Duration{number(*value)};
}

std::optional<int> count(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr) return std::nullopt;
  return static_cast<int>(number(*value));
}

std::optional<std::size_t> size(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr) return std::nullopt;
  return static_cast<std::size_t>(number(*value));
}

TopicLimits limits_in(const json::object& object) {
  TopicLimits limits{.max_concurrency = size(object, "max_concurrency")};
  const std::optional<std::size_t> calls = size(object, "rate_count");
  const std::optional<Duration> per = duration(object, "rate_per_ms");
  if (calls.has_value() != per.has_value()) refuse();
  if (calls) limits.rate = {*calls, *per, size(object, "rate_burst")};
  return limits;
}

}  // namespace

std::string to_json(const TopicPolicy& policy) {
  json::object object;
  put(object, "max_attempts", policy.max_attempts);
  put(object, "backoff_ms", policy.backoff);
  if (!policy.delays.empty()) {
    json::array delays;
    for (const Duration delay : policy.delays) delays.emplace_back(std::int64_t{delay.count()});
    object["delays_ms"] = std::move(delays);
  }
  put(object, "max_delay_ms", policy.max_delay);
  if (policy.jitter) object["jitter"] = to_word(*policy.jitter);
  put(object, "give_up_after_ms", policy.give_up_after);
  put(object, "max_deliveries", policy.max_deliveries);
  const TopicLimits& limits = policy.limits;
  put(object, "max_concurrency", limits.max_concurrency);
  if (limits.rate) {
    object["rate_count"] = limits.rate->count;
    object["rate_per_ms"] = std::int64_t{limits.rate->per.count()};
    put(object, "rate_burst", limits.rate->burst);
  }
  if (policy.paused) object["paused"] = *policy.paused;
  return json::serialize(object);
}

TopicPolicy policy_from_json(std::string_view text) {
  json::error_code error;
  const json::value value = json::parse(text, error);
  const json::object* const object = error ? nullptr : value.if_object();
  if (object == nullptr) refuse();
  TopicPolicy policy{.max_attempts = count(*object, "max_attempts"),
                     .backoff = duration(*object, "backoff_ms"),
                     .max_delay = duration(*object, "max_delay_ms"),
                     .give_up_after = duration(*object, "give_up_after_ms"),
                     .max_deliveries = count(*object, "max_deliveries"),
                     .limits = limits_in(*object)};
  if (const json::value* const delays = object->if_contains("delays_ms")) {
    if (!delays->is_array()) refuse();
    for (const json::value& delay : delays->get_array()) {
      policy.delays.emplace_back(number(delay));
    }
  }
  if (const json::value* const jitter = object->if_contains("jitter")) {
    if (!jitter->is_string()) refuse();
    policy.jitter = jitter_of(jitter->get_string());
  }
  if (const json::value* const paused = object->if_contains("paused")) {
    if (!paused->is_bool()) refuse();
    policy.paused = paused->get_bool();
  }
  return policy;
}

std::vector<TopicRule> rules_of(std::span<const StoredRule> stored) {
  std::vector<TopicRule> rules;
  rules.reserve(stored.size());
  for (const StoredRule& one : stored) rules.push_back(one.rule);
  return rules;
}

std::vector<LimitUse> spent_of(const TopicPolicies& policies, std::span<const StoredRule> stored) {
  std::vector<LimitUse> uses;
  for (const LimitedTopics& limited : policies.limits()) {
    LimitUse& use = uses.emplace_back();
    for (const StoredRule& one : stored) {
      if (one.rule.pattern == limited.pattern) use.spent_until_ns = one.spent_until_ns;
    }
  }
  return uses;
}

}  // namespace oncebox::sql
