#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "json_reader.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "words.hpp"

/// The query of a URL, read and written.
namespace oncebox::wire {

/// Words with commas between.
template <class Enum>
[[nodiscard]] std::vector<Enum> parse_words(std::string_view words, const Place& place) {
  std::vector<Enum> values;
  for (std::size_t begin = 0; begin <= words.size();) {
    const std::size_t end = std::min(words.find(',', begin), words.size());
    values.push_back(parse_word<Enum>(words.substr(begin, end - begin), place));
    begin = end + 1;
  }
  return values;
}

inline std::size_t parse_limit(const std::string& value, const Place& place) {
  std::size_t limit = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), limit);
  if (error != std::errc() || end != value.data() + value.size()) {
    place.fail("a whole number was expected");
  }
  return limit;
}

/// The parameters of one query. Each may be there once.
class Query {
 public:
  Query(std::span<const QueryParameter> parameters, std::span<const std::string_view> known)
      : parameters_(parameters) {
    for (const QueryParameter& parameter : parameters) {
      const Place place(root_, parameter.name);
      const auto same_name = [&](const auto& other) { return other.name == parameter.name; };
      if (std::find(known.begin(), known.end(), parameter.name) == known.end()) {
        place.fail("this parameter is not known" + hint(parameter.name, known));
      }
      if (std::count_if(parameters.begin(), parameters.end(), same_name) > 1) {
        place.fail("this parameter is there twice");
      }
    }
  }

  [[nodiscard]] const std::string* find(std::string_view name) const {
    for (const QueryParameter& parameter : parameters_) {
      if (parameter.name == name) return &parameter.value;
    }
    return nullptr;
  }

  /// `parse(value, place)` answers the value; its errors get the name.
  template <class Parse>
  auto get(std::string_view name, Parse parse) const
      -> std::optional<std::invoke_result_t<Parse, const std::string&, const Place&>> {
    const std::string* const value = find(name);
    if (value == nullptr) return std::nullopt;
    return parse(*value, Place(root_, name));
  }

  template <class Type>
  [[nodiscard]] std::optional<Type> name(std::string_view parameter) const {
    return get(parameter, [](const std::string& value, const Place& place) {
      return reading_at(place, [&] { return Type(value); });
    });
  }

  [[nodiscard]] std::optional<TimePoint> time(std::string_view parameter) const {
    return get(parameter, [](const std::string& value, const Place& place) {
      return reading_at(place, [&] { return parse_rfc3339(value); });
    });
  }

 private:
  const Place root_;
  const std::span<const QueryParameter> parameters_;
};

/// Writes a query.
class QueryText {
 public:
  void add(std::string_view name, std::string_view value) {
    if (!text_.empty()) text_ += '&';
    text_ += name;
    text_ += '=';
    text_ += percent_encode(value);
  }
  template <class Tag>
  void add(std::string_view name, const std::optional<Name<Tag>>& value) {
    if (value) add(name, value->str());
  }
  void add(std::string_view name, const std::optional<TimePoint>& value) {
    if (value) add(name, format_rfc3339(*value));
  }
  /// Words with commas between; nothing when there is none.
  template <class Enum>
  void add_words(std::string_view name, const std::vector<Enum>& values) {
    std::string words;
    for (const Enum value : values) {
      if (!words.empty()) words += ',';
      words += word_of(value);
    }
    if (!words.empty()) add(name, words);
  }
  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace oncebox::wire
