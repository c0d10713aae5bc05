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

TopicRule read_rule(const ObjectReader& fields, Direction direction) {
  TopicPolicy policy{.max_attempts = fields.get<int>("maxAttempts"),
                     .backoff = fields.get<Duration>("backoffSeconds"),
                     .max_delay = fields.get<Duration>("maxDelaySeconds"),
                     .give_up_after = fields.get<Duration>("giveUpAfterSeconds"),
                     .max_deliveries = fields.get<int>("maxDeliveries"),
                     .paused = fields.get<bool>("paused")};
  if (const std::optional<JsonValue> delays = fields.find("delaysSeconds")) {
    delays->for_each_item(TopicPolicy::kMaxDelays, [&](const JsonValue& value) {
      policy.delays.push_back(value.as<Duration>());
    });
  }
  if (const std::optional<JsonValue> jitter = fields.find("jitter")) {
    policy.jitter = read_word<Jitter>(*jitter);
  }
  policy.limits.max_concurrency = fields.get<std::size_t>("maxConcurrency");
  if (const std::optional<JsonValue> rate = fields.find("rate")) {
    policy.limits.rate = read_rate(*rate, direction);
  }
  return {read_pattern(fields.require("topic"), direction), std::move(policy)};
}

void write_fields(JsonWriter& writer, const TopicRule& rule) {
  const TopicPolicy& policy = rule.policy;
  write_pattern(writer.key("topic"), rule.pattern);
  writer.field("maxAttempts", policy.max_attempts).field("backoffSeconds", policy.backoff);
  if (!policy.delays.empty()) {
    writer.key("delaysSeconds").begin_array();
    for (const Duration delay : policy.delays) writer.value(delay);
    writer.end_array();
  }
  writer.field("maxDelaySeconds", policy.max_delay);
  if (policy.jitter) writer.field("jitter", word_of(*policy.jitter));
  writer.field("giveUpAfterSeconds", policy.give_up_after)
      .field("maxDeliveries", policy.max_deliveries)
      .field("maxConcurrency", policy.limits.max_concurrency);
  if (const std::optional<RateLimit>& rate = policy.limits.rate) {
    writer.key("rate").begin_object();
    writer.field("count", rate->count).field("perSeconds", rate->per).field("burst", rate->burst);
    writer.end_object();
  }
  writer.field("paused", policy.paused);
}

}  // namespace

PolicyCall read_policy_call(std::string_view json) {
  return read_object(json, kCallFields, Direction::request, [](const ObjectReader& fields) {
    return PolicyCall{.rule = read_rule(fields, Direction::request),
                      .reason = fields.get_or("reason", std::string())};
  });
}

std::string write_policy_call(const PolicyCall& call) {
  JsonWriter writer;
  writer.begin_object();
  write_fields(writer, call.rule);
  if (!call.reason.empty()) writer.field("reason", call.reason);
  return std::move(writer.end_object()).take();
}

std::string write_policies(std::span<const TopicRule> rules) {
  return write_batch("policies", rules, [](JsonWriter& writer, const TopicRule& rule) {
    writer.begin_object();
    write_fields(writer, rule);
    writer.end_object();
  });
}

std::vector<TopicRule> read_policies(std::string_view json) {
  return read_object(json, kPoliciesField, Direction::answer, [](const ObjectReader& fields) {
    return read_array<TopicRule>(fields.require("policies"), [](const JsonValue& value) {
      return read_rule(ObjectReader(value, kRuleFields, Direction::answer), Direction::answer);
    });
  });
}

std::string write_policy(const TopicRule& rule) { return write_policy_call({rule}); }

TopicRule read_policy(std::string_view json) {
  return read_object(json, kRuleFields, Direction::answer, [](const ObjectReader& fields) {
    return read_rule(fields, Direction::answer);
  });
}

}  // namespace oncebox::wire
