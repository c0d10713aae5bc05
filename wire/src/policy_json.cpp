#include "oncebox/wire/policy_json.hpp"

#include <utility>

#include "batch_json.hpp"
#include "topics_json.hpp"
#include "words.hpp"

namespace oncebox::wire {

namespace {

constexpr std::array<std::string_view, 11> kRuleFields = {
    "topic",  "maxAttempts",        "backoffSeconds", "delaysSeconds",  "maxDelaySeconds",
    "jitter", "giveUpAfterSeconds", "maxDeliveries",  "maxConcurrency", "rate",
    "paused"};
constexpr auto kCallFields = joined(kRuleFields, std::array<std::string_view, 1>{"reason"});
constexpr std::array<std::string_view, 3> kRateFields = {"count", "perSeconds", "burst"};
constexpr std::array<std::string_view, 1> kPoliciesField = {"policies"};

RateLimit read_rate(const JsonValue& value, Direction direction) {
  const ObjectReader fields(value, kRateFields, direction);
  RateLimit rate{.count = fields.require("count").as<std::size_t>()};
  rate.per = fields.get_or("perSeconds", rate.per);
  rate.burst = fields.get<std::size_t>("burst");
  return rate;
}

/// Null clears a field; one that is not there is left as it is.
template <class T, class Read>
FieldChange<T> read_change(const ObjectReader& fields, std::string_view name, Read read) {
  const std::optional<JsonValue> value = fields.find_even_null(name);
  if (!value) return {};
  if (value->is_null()) return std::nullopt;
  return read(*value);
}

template <class T>
FieldChange<T> read_change(const ObjectReader& fields, std::string_view name) {
  return read_change<T>(fields, name, [](const JsonValue& value) { return value.as<T>(); });
}

std::vector<Duration> read_delays(const JsonValue& array) {
  std::vector<Duration> delays;
  array.for_each_item(TopicPolicy::kMaxDelays,
                      [&](const JsonValue& value) { delays.push_back(value.as<Duration>()); });
  return delays;
}

TopicPolicyChange read_changes(const ObjectReader& fields, Direction direction) {
  return {.max_attempts = read_change<int>(fields, "maxAttempts"),
          .backoff = read_change<Duration>(fields, "backoffSeconds"),
          .delays = read_change<std::vector<Duration>>(fields, "delaysSeconds", read_delays),
          .max_delay = read_change<Duration>(fields, "maxDelaySeconds"),
          .jitter = read_change<Jitter>(fields, "jitter", read_word<Jitter>),
          .give_up_after = read_change<Duration>(fields, "giveUpAfterSeconds"),
          .max_deliveries = read_change<int>(fields, "maxDeliveries"),
          .limits = {.max_concurrency = read_change<std::size_t>(fields, "maxConcurrency"),
                     .rate = read_change<RateLimit>(
                         fields, "rate",
                         [&](const JsonValue& value) { return read_rate(value, direction); })},
          .paused = read_change<bool>(fields, "paused")};
}

TopicRule read_rule(const ObjectReader& fields) {
  TopicRule rule{read_pattern(fields.require("topic"), Direction::answer), {}};
  rule.policy.apply(read_changes(fields, Direction::answer));
  return rule;
}

void write_value(JsonWriter& writer, const std::vector<Duration>& delays) {
  writer.begin_array();
  for (const Duration delay : delays) writer.value(delay);
  writer.end_array();
}

void write_value(JsonWriter& writer, Jitter jitter) { writer.value(word_of(jitter)); }

void write_value(JsonWriter& writer, const RateLimit& rate) {
  writer.begin_object();
  writer.field("count", rate.count).field("perSeconds", rate.per).field("burst", rate.burst);
  writer.end_object();
}

template <class T>
void write_value(JsonWriter& writer, const T& value) {
  writer.value(value);
}

template <class T>
void write_change(JsonWriter& writer, std::string_view name, const FieldChange<T>& change) {
  if (change.leaves()) return;
  writer.key(name);
  if (change.clears()) {
    writer.null();
  } else {
    write_value(writer, *change.value());
  }
}

void write_fields(JsonWriter& writer, const TopicPattern& topic, const TopicPolicyChange& change) {
  write_pattern(writer.key("topic"), topic);
  write_change(writer, "maxAttempts", change.max_attempts);
  write_change(writer, "backoffSeconds", change.backoff);
  write_change(writer, "delaysSeconds", change.delays);
  write_change(writer, "maxDelaySeconds", change.max_delay);
  write_change(writer, "jitter", change.jitter);
  write_change(writer, "giveUpAfterSeconds", change.give_up_after);
  write_change(writer, "maxDeliveries", change.max_deliveries);
  write_change(writer, "maxConcurrency", change.limits.max_concurrency);
  write_change(writer, "rate", change.limits.rate);
  write_change(writer, "paused", change.paused);
}

}  // namespace

PolicyCall read_policy_call(std::string_view json) {
  return read_object(json, kCallFields, Direction::request, [](const ObjectReader& fields) {
    return PolicyCall{.topic = read_pattern(fields.require("topic"), Direction::request),
                      .change = read_changes(fields, Direction::request),
                      .reason = fields.get_or("reason", std::string())};
  });
}

std::string write_policy_call(const PolicyCall& call) {
  JsonWriter writer;
  writer.begin_object();
  write_fields(writer, call.topic, call.change);
  if (!call.reason.empty()) writer.field("reason", call.reason);
  return std::move(writer.end_object()).take();
}

std::string write_policies(std::span<const TopicRule> rules) {
  return write_batch("policies", rules, [](JsonWriter& writer, const TopicRule& rule) {
    writer.begin_object();
    write_fields(writer, rule.pattern, rule.policy.as_change());
    writer.end_object();
  });
}

std::vector<TopicRule> read_policies(std::string_view json) {
  return read_object(json, kPoliciesField, Direction::answer, [](const ObjectReader& fields) {
    return read_array<TopicRule>(fields.require("policies"), [](const JsonValue& value) {
      return read_rule(ObjectReader(value, kRuleFields, Direction::answer));
    });
  });
}

std::string write_policy(const TopicRule& rule) {
  return write_policy_call({rule.pattern, rule.policy.as_change()});
}

TopicRule read_policy(std::string_view json) {
  return read_object(json, kRuleFields, Direction::answer, read_rule);
}

}  // namespace oncebox::wire
