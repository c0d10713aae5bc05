#include "config/policy_keys.hpp"

#include <utility>

#include "choices.hpp"
#include "config/key_types.hpp"

namespace oncebox::app {
namespace {

using server::TopicOptions;
using PolicyKey = Key<TopicPolicy>;

template <class Member>
using PolicyPlace = Place<TopicPolicy, Member>;

PolicyKey delays_key() {
  return {
      "delays",
      "The delay after the first failure, the second, and so on; the last one repeats. In place "
      "of a backoff.",
      [](TopicPolicy& policy, const ConfigValue& value) {
        policy.delays.clear();
        for (const std::string& text : texts_of(value)) {
          policy.delays.push_back(parse_duration(text));
        }
      },
      [](const TopicPolicy& policy) {
        std::vector<std::string> texts;
        for (const Duration delay : policy.delays) texts.push_back(format_duration(delay));
        return toml_list(texts);
      }};
}

PolicyKey jitter_key() {
  return {"jitter",
          fmt::format("How much of a delay is left to chance. One of {}.",
                      fmt::join(words_of(kJitters), ", ")),
          [](TopicPolicy& policy, const ConfigValue& value) {
            policy.jitter = choice_of(kJitters, text_of(value));
          },
          [](const TopicPolicy& policy) {
            return toml_text(word_for(kJitters, policy.jitter.value_or(Jitter::none)));
          }};
}

PolicyKey rate_key() {
  return {"rate",
          "How many messages are handed out in some time, to all workers together: \"100/1s\", or "
          "\"100/1s burst 20\".",
          [](TopicPolicy& policy, const ConfigValue& value) {
            policy.limits.rate.reset();
            if (!is_unlimited(value)) policy.limits.rate = parse_rate(text_of(value));
          },
          [](const TopicPolicy& policy) {
            const std::optional<RateLimit>& rate = policy.limits.rate;
            return toml_text(rate ? format_rate(*rate) : kUnlimited);
          }};
}

/// The keys of a policy, wherever it stands.
std::vector<PolicyKey> policy_keys() {
  return {
      optional_count_key(
          "max_attempts", "Failed attempts after which a message is dead.", "10",
          PolicyPlace<std::optional<int>>([](TopicPolicy& p) -> auto& { return p.max_attempts; })),
      optional_duration_key("backoff",
                            "The base of the delay after a failure: twice this after the first, "
                            "four times after the second, and so on.",
                            "1s", PolicyPlace<std::optional<Duration>>([](TopicPolicy& p) -> auto& {
                              return p.backoff;
                            })),
      delays_key(),
      optional_duration_key("max_delay", "The longest delay.", "1m",
                            PolicyPlace<std::optional<Duration>>(
                                [](TopicPolicy& p) -> auto& { return p.max_delay; })),
      jitter_key(),
      optional_duration_key("give_up_after",
                            "A message is not given up before it is so old, however often it has "
                            "failed; \"never\" counts attempts alone.",
                            "never",
                            PolicyPlace<std::optional<Duration>>(
                                [](TopicPolicy& p) -> auto& { return p.give_up_after; })),
      optional_count_key("max_deliveries",
                         "Failed and lapsed deliveries after which a message whose worker died is "
                         "dead; usually twice the attempts.",
                         "20", PolicyPlace<std::optional<int>>([](TopicPolicy& p) -> auto& {
                           return p.max_deliveries;
                         })),
      optional_count_key("max_concurrency",
                         "How many messages are leased at once, by all workers together.",
                         toml_text(kUnlimited),
                         PolicyPlace<std::optional<std::size_t>>(
                             [](TopicPolicy& p) -> auto& { return p.limits.max_concurrency; })),
      rate_key(),
  };
}

/// The same key for another target, of which the policy is a part.
template <class Target>
Key<Target> moved(const PolicyKey& key, const std::string& section,
                  Place<Target, TopicPolicy> place) {
  return {section + "." + key.path, key.text,
          [key, place](Target& target, const ConfigValue& value) { key.set(place(target), value); },
          [key, place](const Target& target) { return key.written(look(place, target)); }};
}

}  // namespace

std::vector<ConfigKey> retry_keys() {
  std::vector<ConfigKey> keys;
  for (const PolicyKey& key : policy_keys()) {
    keys.push_back(
        moved<Config>(key, "retry", [](Config& c) -> TopicPolicy& { return c.server.retry; }));
  }
  return keys;
}

const std::vector<TopicKey>& topic_keys() {
  static const std::vector<TopicKey> keys = [] {
    std::vector<TopicKey> all{
        text_key(
            "topics.topic", "The topic, or a pattern such as \"order.*\".",
            Place<TopicOptions, std::string>([](TopicOptions& t) -> auto& { return t.topic; })),
        choice_key(
            "topics.queue", "Which queue it is about.", kQueues,
            Place<TopicOptions, QueueKind>([](TopicOptions& t) -> auto& { return t.queue; })),
        {"topics.paused", "Not handed out until it is resumed.",
         [](TopicOptions& topic, const ConfigValue& value) {
           topic.policy.paused = flag_of(value);
         },
         [](const TopicOptions& topic) {
           return topic.policy.paused.value_or(false) ? "true" : "false";
         }},
    };
    for (const PolicyKey& key : policy_keys()) {
      all.push_back(moved<TopicOptions>(key, "topics",
                                        [](TopicOptions& t) -> TopicPolicy& { return t.policy; }));
    }
    return all;
  }();
  return keys;
}

}  // namespace oncebox::app
