#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "json_text.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/content_hash.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/names.hpp"
#include "oncebox/topic_pattern.hpp"
#include "oncebox/uuid.hpp"

/// Reads our own types out of JSON text. Every error says where: "items[2].delaySeconds: …".
namespace oncebox::wire {

/// A request is refused for what nobody knows in it. An answer may come from a newer server.
enum class Direction { request, answer };

inline constexpr std::size_t kMaxRequestNesting = 32;
/// Everything that a request brought in fits into an answer.
inline constexpr std::size_t kMaxAnswerNesting = 64;
/// Of a payload that is written as JSON: an array of messages around it is still a good request.
inline constexpr std::size_t kMaxPayloadNesting = kMaxRequestNesting - 2;

[[nodiscard]] constexpr std::size_t max_nesting(Direction direction) noexcept {
  return direction == Direction::request ? kMaxRequestNesting : kMaxAnswerNesting;
}

/// Where a value stands in the text. The parent must outlive it.
class Place {
 public:
  constexpr Place() = default;
  constexpr Place(const Place& parent, std::string_view name) : parent_(&parent), name_(name) {}
  constexpr Place(const Place& parent, std::size_t index) : parent_(&parent), index_(index) {}

  [[nodiscard]] std::string text() const;
  [[noreturn]] void fail(std::string_view why, ErrorCode code = ErrorCode::invalid_argument) const;

 private:
  const Place* parent_ = nullptr;
  std::string_view name_ = {};
  std::size_t index_ = 0;
};

/// Calls `read`; an error that it throws gets the place before its text.
template <class Read>
auto reading_at(const Place& place, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    place.fail(error.what(), error.code());
  }
}

/// A value of a text that was checked by `require_json`.
class JsonValue {
 public:
  JsonValue(std::string_view json, const Place& place) : json_(json), place_(place) {}

  [[nodiscard]] std::string_view json() const noexcept { return json_; }
  [[nodiscard]] const Place& place() const noexcept { return place_; }

  [[nodiscard]] bool is_null() const noexcept { return json_.front() == 'n'; }
  [[nodiscard]] bool is_string() const noexcept { return json_.front() == '"'; }
  [[nodiscard]] bool is_object() const noexcept { return json_.front() == '{'; }

  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool boolean() const;
  /// In seconds; fractions are kept to the millisecond.
  [[nodiscard]] Duration duration() const;
  [[nodiscard]] std::int64_t integer(std::int64_t min, std::int64_t max) const;
  [[nodiscard]] std::uint64_t unsigned_integer() const;
  [[nodiscard]] double number() const;

  /// Any of our types that has one JSON form.
  template <class Type>
  [[nodiscard]] Type as() const;

  /// Calls `read(JsonValue item)` for each item of an array.
  template <class Read>
  void for_each_item(std::size_t max_items, Read read) const;

 private:
  std::string_view json_;
  Place place_;
};

[[nodiscard]] ContentHash parse_hash(std::string_view text);

template <class Type>
struct IsName : std::false_type {};
template <class Tag>
struct IsName<Name<Tag>> : std::true_type {};
template <class Type>
struct IsUuidId : std::false_type {};
template <class Tag>
struct IsUuidId<UuidId<Tag>> : std::true_type {};

template <class Type>
Type JsonValue::as() const {
  if constexpr (std::is_same_v<Type, std::string>) {
    return text();
  } else if constexpr (std::is_same_v<Type, bool>) {
    return boolean();
  } else if constexpr (std::is_same_v<Type, Duration>) {
    return duration();
  } else if constexpr (std::is_same_v<Type, std::uint64_t>) {
    return unsigned_integer();
  } else if constexpr (std::is_same_v<Type, double>) {
    return number();
  } else if constexpr (std::is_integral_v<Type>) {
    return static_cast<Type>(
        integer(std::numeric_limits<Type>::min(), std::numeric_limits<Type>::max()));
  } else {
    std::string content = text();
    return reading_at(place_, [&content]() -> Type {
      if constexpr (std::is_same_v<Type, TimePoint>) {
        return parse_rfc3339(content);
      } else if constexpr (std::is_same_v<Type, ContentHash>) {
        return parse_hash(content);
      } else if constexpr (IsUuidId<Type>::value) {
        return Type::parse(content);
      } else {
        static_assert(IsName<Type>::value || std::is_same_v<Type, TopicPattern>);
        return Type(std::move(content));
      }
    });
  }
}

/// The members of one object. A member that is null counts as left out.
class ObjectReader {
 public:
  static constexpr std::size_t kMaxFields = 40;

  /// Throws unless it is an object. In a request a member that is not among the known ones, or that
  /// is there twice, is an error; in an answer the first counts. `known` and the text must outlive
  /// this object, and this object what it hands out.
  ObjectReader(const JsonValue& value, std::span<const std::string_view> known,
               Direction direction);
  ObjectReader(const ObjectReader&) = delete;
  ObjectReader& operator=(const ObjectReader&) = delete;

  /// Nothing when the member is not there; null is a value here.
  [[nodiscard]] std::optional<JsonValue> find_even_null(std::string_view name) const;
  [[nodiscard]] std::optional<JsonValue> find(std::string_view name) const;
  [[nodiscard]] JsonValue require(std::string_view name) const;

  template <class Type>
  [[nodiscard]] std::optional<Type> get(std::string_view name) const {
    const std::optional<JsonValue> value = find(name);
    if (!value) return std::nullopt;
    return value->as<Type>();
  }
  template <class Type>
  [[nodiscard]] Type get_or(std::string_view name, Type fallback) const {
    const std::optional<JsonValue> value = find(name);
    return value ? value->as<Type>() : fallback;
  }
  template <class Type>
  [[nodiscard]] Type require_as(std::string_view name) const {
    return require(name).as<Type>();
  }

  [[nodiscard]] const Place& place() const noexcept { return place_; }

 private:
  void take_member(std::string_view quoted_name, std::string_view value, Direction direction);

  const Place place_;
  const std::span<const std::string_view> known_;
  std::array<std::string_view, kMaxFields> values_{};  // by the place of the name in `known_`
};

/// Calls `read(std::string_view quoted_name, std::string_view value)` for each member.
template <class Read>
void for_each_member(std::string_view object, Read read) {
  std::size_t place = skip_space(object, 1);
  while (object[place] != '}') {
    const std::size_t name_end = skip_value(object, place);
    const std::string_view name = object.substr(place, name_end - place);
    place = skip_space(object, name_end);   // the colon
    place = skip_space(object, place + 1);  // the value
    const std::size_t end = skip_value(object, place);
    read(name, object.substr(place, end - place));
    place = skip_space(object, end);
    if (object[place] == ',') place = skip_space(object, place + 1);
  }
}

template <class Read>
void JsonValue::for_each_item(std::size_t max_items, Read read) const {
  if (json_.front() != '[') place_.fail("an array was expected");
  std::size_t place = skip_space(json_, 1);
  for (std::size_t index = 0; json_[place] != ']'; ++index) {
    if (index == max_items) {
      place_.fail("there are more than " + std::to_string(max_items) +
                  " items; send fewer at once");
    }
    const std::size_t end = skip_value(json_, place);
    read(JsonValue(json_.substr(place, end - place), Place(place_, index)));
    place = skip_space(json_, end);
    if (json_[place] == ',') place = skip_space(json_, place + 1);
  }
}

/// Checks a whole text and hands its value to `read`.
template <class Read>
auto read_json(std::string_view text, Direction direction, Read read) {
  require_json(text, max_nesting(direction));
  while (is_json_space(text.back())) text.remove_suffix(1);
  return read(JsonValue(text.substr(skip_space(text, 0)), Place()));
}

/// The same for a text that is an object with these members. A request without a body is an empty
/// object: what it must have is then missing by name.
template <class Read>
auto read_object(std::string_view text, std::span<const std::string_view> known,
                 Direction direction, Read read) {
  if (text.empty() && direction == Direction::request) text = "{}";
  return read_json(text, direction, [&](const JsonValue& value) {
    return read(ObjectReader(value, known, direction));
  });
}

/// "; did you mean topic?", or which words are known.
[[nodiscard]] std::string hint(std::string_view word, std::span<const std::string_view> words);

template <std::size_t... Sizes>
constexpr auto joined(const std::array<std::string_view, Sizes>&... lists) {
  std::array<std::string_view, (Sizes + ...)> all{};
  std::size_t place = 0;
  const auto append = [&](const auto& list) {
    for (const std::string_view name : list) all[place++] = name;
  };
  (append(lists), ...);
  return all;
}

}  // namespace oncebox::wire
