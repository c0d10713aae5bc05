#pragma once

#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "values.hpp"

/// How the fields of a rule for topics are written, on the command line and in the configuration.
namespace oncebox::app {

/// Clears a field: it is as the next wider rule has it, in the end as the queue does by itself.
inline constexpr std::string_view kDefault = "default";
/// For limits, which are not inherited, the word for the same.
inline constexpr std::string_view kUnlimited = "unlimited";
/// An age that ends no attempts: they end by their number alone.
inline constexpr std::string_view kNever = "never";

[[nodiscard]] inline Duration parse_age(std::string_view text) {
  return text == kNever ? Duration::zero() : parse_duration(text);
}

[[nodiscard]] inline std::string format_age(Duration age) {
  return age == Duration::zero() ? std::string(kNever) : format_duration(age);
}

/// Whether a text clears a field, for which there may be another word than "default".
[[nodiscard]] inline bool clears_field(std::string_view text, std::string_view word = kDefault) {
  return text == kDefault || text == word;
}

}  // namespace oncebox::app
