#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config_keys.hpp"
#include "oncebox/error.hpp"
#include "values.hpp"

/// How values of the configuration are read, and keys by the type of the member that they set.
namespace oncebox::app {

// Values ------------------------------------------------------------------------------------------

[[noreturn]] inline void refuse_type(std::string_view wanted) {
  throw Error(ErrorCode::invalid_argument, fmt::format("this must be {}", wanted));
}

/// The text of a string, or nothing when the value is none.
inline const std::string* text_in(const ConfigValue& value) {
  if (const auto* free = std::get_if<FreeText>(&value)) return &free->text;
  return std::get_if<std::string>(&value);
}

inline std::string text_of(const ConfigValue& value) {
  const std::string* text = text_in(value);
  if (text == nullptr) refuse_type("a text in quotes");
  return *text;
}

inline bool flag_of(const ConfigValue& value) {
  if (const auto* free = std::get_if<FreeText>(&value)) return parse_switch(free->text);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  refuse_type("true or false");
}

inline std::size_t count_of(const ConfigValue& value) {
  if (const auto* free = std::get_if<FreeText>(&value)) return parse_count(free->text);
  const auto* number = std::get_if<std::int64_t>(&value);
  if (number == nullptr || *number < 0) refuse_type("a whole number, not negative");
  return static_cast<std::size_t>(*number);
}

inline std::size_t bytes_of(const ConfigValue& value) {
  if (const std::string* text = text_in(value)) return parse_bytes(*text);
  return count_of(value);
}

inline Duration duration_of(const ConfigValue& value) {
  const std::string* text = text_in(value);
  if (text == nullptr) refuse_type("a duration in quotes, such as \"30s\"");
  return parse_duration(*text);
}

/// Lists in the environment are separated by white space.
inline std::vector<std::string> texts_of(const ConfigValue& value) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) return *texts;
  const auto* free = std::get_if<FreeText>(&value);
  if (free == nullptr) refuse_type("a list of texts, such as [\"a\", \"b\"]");
  std::vector<std::string> texts;
  std::string word;
  for (const char character : free->text + " ") {
    if (std::isspace(static_cast<unsigned char>(character)) == 0) {
      word += character;
    } else if (!word.empty()) {
      texts.push_back(std::exchange(word, {}));
    }
  }
  return texts;
}

inline std::string toml_list(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(toml_text(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

// Keys, by the type of the member that they set ---------------------------------------------------

template <class Target, class Member>
using Place = Member& (*)(Target&);

template <class Target, class Member>
const Member& look(Place<Target, Member> place, const Target& target) {
  return place(const_cast<Target&>(target));
}

template <class Target>
Key<Target> text_key(std::string path, std::string text, Place<Target, std::string> place) {
  return {std::move(path), std::move(text),
          [place](Target& target, const ConfigValue& value) { place(target) = text_of(value); },
          [place](const Target& target) { return toml_text(look(place, target)); }};
}

template <class Target>
Key<Target> optional_text_key(std::string path, std::string text,
                              Place<Target, std::optional<std::string>> place) {
  return {std::move(path), std::move(text),
          [place](Target& target, const ConfigValue& value) { place(target) = text_of(value); },
          [place](const Target& target) { return toml_text(look(place, target).value_or("")); }};
}

template <class Target>
Key<Target> path_key(std::string path, std::string text,
                     Place<Target, std::filesystem::path> place) {
  return {std::move(path), std::move(text),
          [place](Target& target, const ConfigValue& value) { place(target) = text_of(value); },
          [place](const Target& target) { return toml_text(look(place, target).string()); }};
}

template <class Target>
Key<Target> flag_key(std::string path, std::string text, Place<Target, bool> place) {
  return {std::move(path), std::move(text),
          [place](Target& target, const ConfigValue& value) { place(target) = flag_of(value); },
          [place](const Target& target) { return look(place, target) ? "true" : "false"; }};
}

template <class Target>
Key<Target> count_key(std::string path, std::string text, Place<Target, std::size_t> place) {
  return {std::move(path), std::move(text),
          [place](Target& target, const ConfigValue& value) { place(target) = count_of(value); },
          [place](const Target& target) { return fmt::format("{}", look(place, target)); }};
}

template <class Target>
Key<Target> bytes_key(std::string path, std::string text, Place<Target, std::size_t> place) {
  return {std::move(path), std::move(text),
          [place](Target& target, const ConfigValue& value) { place(target) = bytes_of(value); },
          [place](const Target& target) { return toml_text(format_bytes(look(place, target))); }};
}

template <class Target>
Key<Target> duration_key(std::string path, std::string text, Place<Target, Duration> place) {
  return {
      std::move(path), std::move(text),
      [place](Target& target, const ConfigValue& value) { place(target) = duration_of(value); },
      [place](const Target& target) { return toml_text(format_duration(look(place, target))); }};
}

template <class Target>
Key<Target> texts_key(std::string path, std::string text,
                      Place<Target, std::vector<std::string>> place) {
  return {std::move(path), std::move(text),
          [place](Target& target, const ConfigValue& value) { place(target) = texts_of(value); },
          [place](const Target& target) { return toml_list(look(place, target)); }};
}

template <class Value, std::size_t count>
Value choice_of(const Choice<Value> (&choices)[count], const std::string& word) {
  for (const Choice<Value>& choice : choices) {
    if (choice.word == word) return choice.value;
  }
  const std::vector<std::string> words = words_of(choices);
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("\"{}\" is none of {}{}", word, fmt::join(words, ", "), suggestion(word, words)));
}

template <class Value, std::size_t count>
std::string_view word_for(const Choice<Value> (&choices)[count], Value value) {
  for (const Choice<Value>& choice : choices) {
    if (choice.value == value) return choice.word;
  }
  return {};
}

template <class Target, class Value, std::size_t count>
Key<Target> choice_key(std::string path, std::string text, const Choice<Value> (&choices)[count],
                       Place<Target, Value> place) {
  return {std::move(path), fmt::format("{} One of {}.", text, fmt::join(words_of(choices), ", ")),
          [place, &choices](Target& target, const ConfigValue& value) {
            place(target) = choice_of(choices, text_of(value));
          },
          [place, &choices](const Target& target) {
            return toml_text(word_for(choices, look(place, target)));
          }};
}

/// What may be left unsaid; `initial` is what then holds, for the default file.
template <class Target>
Key<Target> optional_duration_key(std::string path, std::string text, std::string initial,
                                  Place<Target, std::optional<Duration>> place) {
  return {std::move(path), std::move(text),
          [place](Target& target, const ConfigValue& value) {
            const std::string* const word = text_in(value);
            const bool never = word != nullptr && *word == "never";
            place(target) = never ? std::nullopt : std::optional(duration_of(value));
          },
          [place, initial = std::move(initial)](const Target& target) {
            const auto& duration = look(place, target);
            return toml_text(duration ? format_duration(*duration) : initial);
          }};
}

}  // namespace oncebox::app
