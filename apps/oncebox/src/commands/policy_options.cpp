#include "commands/policy_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "choices.hpp"
#include "policy_values.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

/// `parse` reads every text that does not clear the field.
template <class T, class Parse>
TakeValue into_field(FieldChange<T>& field, Parse parse, std::string_view cleared = kDefault) {
  return [&field, parse, cleared](const std::string& text) {
    field =
        clears_field(text, cleared) ? FieldChange<T>(std::nullopt) : FieldChange<T>(parse(text));
  };
}

Jitter parse_jitter(const std::string& text) {
  Jitter jitter{};
  into(jitter, kJitters)(text);
  return jitter;
}

std::vector<std::string> jitter_words() {
  std::vector<std::string> words = words_of(kJitters);
  words.emplace_back(kDefault);
  return words;
}

TakeValue into_delays(FieldChange<std::vector<Duration>>& delays) {
  return [&delays](const std::string& text) {
    if (clears_field(text)) {
      delays = std::nullopt;
      return;
    }
    std::vector<Duration> all = delays.value().value_or(std::vector<Duration>());
    all.push_back(parse_duration(text));
    delays = std::move(all);
  };
}

}  // namespace

std::vector<Option> retry_options(TopicPolicyChange& change) {
  return {{.names = "--max-attempts",
           .value = "N",
           .text = "failed attempts after which a message is dead",
           .take = into_field(change.max_attempts, parse_int)},
          {.names = "--backoff",
           .value = "DURATION",
           .text = "the base of delays that double: twice this after the first failure",
           .take = into_field(change.backoff, parse_duration)},
          {.names = "--delay",
           .value = "DURATION",
           .text = "the delay after the first failure, the second and so on, in place of a backoff",
           .take = into_delays(change.delays),
           .occurs = Occurs::repeatedly},
          {.names = "--max-delay",
           .value = "DURATION",
           .text = "the longest delay",
           .take = into_field(change.max_delay, parse_duration)},
          {.names = "--jitter",
           .value = "KIND",
           .text = "how much of a delay is left to chance",
           .take = into_field(change.jitter, parse_jitter),
           .choices = jitter_words()},
          {.names = "--give-up-after",
           .value = "DURATION",
           .text = "no message is given up before it is so old; never counts attempts alone",
           .take = into_field(change.give_up_after, parse_age)},
          {.names = "--max-deliveries",
           .value = "N",
           .text = "failed and lapsed deliveries after which a message whose worker died is dead",
           .take = into_field(change.max_deliveries, parse_int)}};
}

std::vector<Option> limit_options(TopicPolicyChange& change) {
  return {{.names = "--max-concurrency",
           .value = "N",
           .text = "messages that are leased at once, by all workers together",
           .take = into_field(change.limits.max_concurrency, parse_count, kUnlimited)},
          {.names = "--rate",
           .value = "RATE",
           .text = "messages that are handed out in some time, such as 100/1s or '5/1m burst 1'",
           .take = into_field(change.limits.rate, parse_rate, kUnlimited)}};
}

std::string delays_of(const TopicPolicy& policy) {
  std::vector<std::string> parts;
  if (policy.backoff) parts.push_back("backoff " + format_duration(*policy.backoff));
  for (const Duration delay : policy.delays) parts.push_back(format_duration(delay));
  if (policy.max_delay) parts.push_back("up to " + format_duration(*policy.max_delay));
  for (const Choice<Jitter>& jitter : kJitters) {
    if (jitter.value == policy.jitter) parts.push_back(fmt::format("jitter {}", jitter.word));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace oncebox::app
