#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/names.hpp"
#include "oncebox/topic_limits.hpp"

/// Values as people write them, on the command line and in the configuration. Everything here
/// throws `invalid_argument` for text that is no such value.
namespace oncebox::app {

/// "250ms", "30s", "5m", "12h", "7d", and sums of them without spaces: "1m30s". A bare "0" is zero.
[[nodiscard]] Duration parse_duration(std::string_view text);
/// The shortest text that `parse_duration` reads back.
[[nodiscard]] std::string format_duration(Duration duration);

/// "65536", "64KiB", "8MiB", "1GiB".
[[nodiscard]] std::size_t parse_bytes(std::string_view text);
[[nodiscard]] std::string format_bytes(std::size_t bytes);

/// A whole number without sign.
[[nodiscard]] std::size_t parse_count(std::string_view text);
[[nodiscard]] int parse_int(std::string_view text);
/// A number without exponent: "0.5".
[[nodiscard]] double parse_decimal(std::string_view text);

/// "100/1s": so many in so much time; "100/1s burst 20".
[[nodiscard]] RateLimit parse_rate(std::string_view text);
[[nodiscard]] std::string format_rate(const RateLimit& rate);

/// "true" or "false".
[[nodiscard]] bool parse_switch(std::string_view text);

/// A time in RFC 3339, or a duration that counts back from `now`.
[[nodiscard]] TimePoint parse_past(std::string_view text, TimePoint now);
/// The same, with durations counted forward.
[[nodiscard]] TimePoint parse_future(std::string_view text, TimePoint now);

struct NameAndValue {
  std::string name;
  std::string value;
};
/// "NAME=VALUE"; the name is not empty.
[[nodiscard]] NameAndValue parse_pair(std::string_view text);

/// " (did you mean X?)", or an empty text.
[[nodiscard]] std::string suggestion(std::string_view name, const std::vector<std::string>& known);

// Where the value of an option goes. The target must outlive the command.
[[nodiscard]] TakeValue into(std::string& target);
[[nodiscard]] TakeValue into(std::vector<std::string>& target);
[[nodiscard]] TakeValue into(bool& target);
[[nodiscard]] TakeValue into(std::size_t& target);
[[nodiscard]] TakeValue into(int& target);
[[nodiscard]] TakeValue into(double& target);
[[nodiscard]] TakeValue into(Duration& target);

template <class Value>
[[nodiscard]] TakeValue into(std::optional<Value>& target) {
  return [&target](const std::string& text) {
    Value value{};
    into(value)(text);
    target = std::move(value);
  };
}

template <class Tag>
[[nodiscard]] TakeValue into(std::optional<Name<Tag>>& target) {
  return [&target](const std::string& text) { target = Name<Tag>(text); };
}

/// One of a few words, each of which stands for a value.
template <class Value>
struct Choice {
  std::string_view word;
  Value value;
};

template <class Value, std::size_t count>
[[nodiscard]] TakeValue into(Value& target, const Choice<Value> (&choices)[count]) {
  return [&target, &choices](const std::string& text) {
    // The parser has refused every other word.
    for (const Choice<Value>& choice : choices) {
      if (choice.word == text) target = choice.value;
    }
  };
}

template <class Value, std::size_t count>
[[nodiscard]] std::vector<std::string> words_of(const Choice<Value> (&choices)[count]) {
  std::vector<std::string> words;
  for (const Choice<Value>& choice : choices) words.emplace_back(choice.word);
  return words;
}

}  // namespace oncebox::app
