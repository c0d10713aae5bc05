#include "config/policy_keys.hpp"

#include <utility>

#include "choices.hpp"
#include "config/key_types.hpp"
#include "policy_values.hpp"

namespace oncebox::app {
namespace {

using server::TopicOptions;
using PolicyKey = Key<TopicPolicyChange>;

/// What a key says about itself.
struct KeyText {
  std::string path;
  std::string text;
  std::string initial;  ///< what holds when it is left unsaid, for the default file
  std::string_view cleared = kDefault;
};

/// `read(value)` answers what the field is set to, `write(value)` how the file has it.
template <class T, class Read, class Write>
PolicyKey field_key(const KeyText& key, Place<TopicPolicyChange, FieldChange<T>> place, Read read,
                    Write write) {
  return {
      key.path, key.text,
      [place, read, cleared = key.cleared](TopicPolicyChange& change, const ConfigValue& value) {
        const std::string* const text = text_in(value);
        FieldChange<T> field = std::nullopt;
        if (text == nullptr || !clears_field(*text, cleared)) field = read(value);
        place(change) = std::move(field);
      },
      [place, write, key](const TopicPolicyChange& change) -> std::string {
        const FieldChange<T>& field = look(place, change);
        if (field.clears()) return toml_text(key.cleared);
        return field.value() ? write(*field.value()) : key.initial;
      }};
}

template <class Number>
PolicyKey count_field(const KeyText& key, Place<TopicPolicyChange, FieldChange<Number>> place) {
  const auto read = [](const ConfigValue& value) {
    const std::size_t count = count_of(value);
    if (!std::in_range<Number>(count)) refuse_type("a smaller number");
    return static_cast<Number>(count);
  };
  return field_key<Number>(key, place, read, [](Number count) { return fmt::to_string(count); });
}

PolicyKey duration_field(const KeyText& key,
                         Place<TopicPolicyChange, FieldChange<Duration>> place) {
  return field_key<Duration>(key, place, duration_of, [](Duration duration) {
    return toml_text(format_duration(duration));
  });
}

PolicyKey delays_key() {
  const auto read = [](const ConfigValue& value) {
    std::vector<Duration> delays;
    for (const std::string& text : texts_of(value)) delays.push_back(parse_duration(text));
    return delays;
  };
  const auto write = [](const std::vector<Duration>& delays) {
    std::vector<std::string> texts;
    for (const Duration delay : delays) texts.push_back(format_duration(delay));
    return toml_list(texts);
  };
  return field_key<std::vector<Duration>>(
      {"delays",
       "The delay after the first failure, the second, and so on; the last one repeats. In place "
       "of a backoff.",
       "[]"},
      [](TopicPolicyChange& c) -> auto& { return c.delays; }, read, write);
}

PolicyKey jitter_key() {
  return field_key<Jitter>(
      {"jitter",
       fmt::format("How much of a delay is left to chance. One of {}.",
                   fmt::join(words_of(kJitters), ", ")),
       toml_text("none")},
      [](TopicPolicyChange& c) -> auto& { return c.jitter; },
      [](const ConfigValue& value) { return choice_of(kJitters, text_of(value)); },
      [](Jitter jitter) { return toml_text(word_for(kJitters, jitter)); });
}

PolicyKey give_up_key() {
  return field_key<Duration>(
      {"give_up_after",
       "A message is not given up before it is so old, however often it has failed; \"never\" "
       "counts attempts alone.",
       toml_text(kNever)},
      [](TopicPolicyChange& c) -> auto& { return c.give_up_after; },
      [](const ConfigValue& value) {
        const std::string* const text = text_in(value);
        return text != nullptr ? parse_age(*text) : duration_of(value);
      },
      [](Duration age) { return toml_text(format_age(age)); });
}

PolicyKey rate_key() {
  return field_key<RateLimit>(
      {"rate",
       "How many messages are handed out in some time, to all workers together: \"100/1s\", or "
       "\"100/1s burst 20\".",
       toml_text(kUnlimited), kUnlimited},
      [](TopicPolicyChange& c) -> auto& { return c.limits.rate; },
      [](const ConfigValue& value) { return parse_rate(text_of(value)); },
      [](const RateLimit& rate) { return toml_text(format_rate(rate)); });
}

/// The keys of a policy, wherever it stands.
std::vector<PolicyKey> policy_keys() {
  return {
      count_field<int>({"max_attempts", "Failed attempts after which a message is dead.", "10"},
                       [](TopicPolicyChange& c) -> auto& { return c.max_attempts; }),
      duration_field({"backoff",
                      "The base of the delay after a failure: twice this after the first, four "
                      "times after the second, and so on.",
                      toml_text("1s")},
                     [](TopicPolicyChange& c) -> auto& { return c.backoff; }),
      delays_key(),
      duration_field({"max_delay", "The longest delay.", toml_text("1m")},
                     [](TopicPolicyChange& c) -> auto& { return c.max_delay; }),
      jitter_key(),
      give_up_key(),
      count_field<int>({"max_deliveries",
                        "Failed and lapsed deliveries after which a message whose worker died is "
                        "dead; usually twice the attempts.",
                        "20"},
                       [](TopicPolicyChange& c) -> auto& { return c.max_deliveries; }),
      count_field<std::size_t>(
          {"max_concurrency", "How many messages are leased at once, by all workers together.",
           toml_text(kUnlimited), kUnlimited},
          [](TopicPolicyChange& c) -> auto& { return c.limits.max_concurrency; }),
      rate_key(),
  };
}

/// The same key for another target, of which the policy is a part.
template <class Target>
Key<Target> moved(const PolicyKey& key, const std::string& section,
                  Place<Target, TopicPolicyChange> place) {
  return {section + "." + key.path, key.text,
          [key, place](Target& target, const ConfigValue& value) { key.set(place(target), value); },
          [key, place](const Target& target) { return key.written(look(place, target)); }};
}

}  // namespace

std::vector<ConfigKey> retry_keys() {
  std::vector<ConfigKey> keys;
  for (const PolicyKey& key : policy_keys()) {
    keys.push_back(moved<Config>(key, "retry", [](Config& c) -> auto& { return c.server.retry; }));
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
           topic.change.paused = flag_of(value);
         },
         [](const TopicOptions& topic) {
           return topic.change.paused.value().value_or(false) ? "true" : "false";
         }},
    };
    for (const PolicyKey& key : policy_keys()) {
      all.push_back(
          moved<TopicOptions>(key, "topics", [](TopicOptions& t) -> auto& { return t.change; }));
    }
    return all;
  }();
  return keys;
}

const std::vector<PublishKey>& publish_keys() {
  using server::PublishEndpoint;
  using TextOfEndpoint = Place<PublishEndpoint, std::string>;
  using TextsOfEndpoint = Place<PublishEndpoint, std::vector<std::string>>;
  static const std::vector<PublishKey> keys = [] {
    std::vector<PublishKey> all{
        text_key("publish.name", "What the endpoint is known by: letters, digits, -, _ and .",
                 TextOfEndpoint([](PublishEndpoint& e) -> auto& { return e.name; })),
        text_key("publish.store", "Of this store alone; empty means of every store.",
                 TextOfEndpoint([](PublishEndpoint& e) -> auto& { return e.store; })),
        text_key("publish.url",
                 "Where its messages go: https://... for a signed webhook, "
                 "oncebox+https://HOST/v1 for another Oncebox.",
                 TextOfEndpoint([](PublishEndpoint& e) -> auto& { return e.url; })),
        texts_key("publish.topics", "A message goes there when one of these matches its topic.",
                  TextsOfEndpoint([](PublishEndpoint& e) -> auto& { return e.topics; })),
        texts_key("publish.secrets",
                  "What a webhook is signed with, each of them; the first is the token for another "
                  "Oncebox: \"env:NAME\", \"file:PATH\" or \"literal:TEXT\".",
                  TextsOfEndpoint([](PublishEndpoint& e) -> auto& { return e.secrets; })),
        texts_key("publish.headers", "Of every request: \"Name: value\".",
                  TextsOfEndpoint([](PublishEndpoint& e) -> auto& { return e.headers; })),
        optional_duration_key("publish.timeout", "Of one attempt.", "30s",
                              Place<PublishEndpoint, std::optional<Duration>>(
                                  [](PublishEndpoint& e) -> auto& { return e.timeout; })),
        flag_key("publish.allow_private",
                 "Addresses of this machine and of private networks may be called.",
                 Place<PublishEndpoint, bool>(
                     [](PublishEndpoint& e) -> auto& { return e.allow_private; })),
        duration_key("publish.disable_after",
                     "It is disabled when every delivery has failed for so long; 0s means never.",
                     Place<PublishEndpoint, Duration>(
                         [](PublishEndpoint& e) -> auto& { return e.disable_after; })),
    };
    for (const PolicyKey& key : policy_keys()) {
      all.push_back(moved<PublishEndpoint>(key, "publish",
                                           [](PublishEndpoint& e) -> auto& { return e.policy; }));
    }
    return all;
  }();
  return keys;
}

}  // namespace oncebox::app
