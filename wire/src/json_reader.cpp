#include "json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "oncebox/internal/nearest_name.hpp"

namespace oncebox::wire {

namespace {

constexpr std::size_t kMaxQuotedBytes = 64;

bool is_number(std::string_view json) {
  return json.front() == '-' || (json.front() >= '0' && json.front() <= '9');
}

// Numbers such as 1e400 have no double: nothing.
std::optional<double> parse_double(std::string_view json) {
  double number = 0;
  const auto [end, error] = std::from_chars(json.data(), json.data() + json.size(), number);
  if (error != std::errc() || end != json.data() + json.size()) return std::nullopt;
  return number;
}

template <class Integer>
std::optional<Integer> parse_integer(std::string_view json) {
  Integer number = 0;
  const auto [end, error] = std::from_chars(json.data(), json.data() + json.size(), number);
  if (error == std::errc() && end == json.data() + json.size()) return number;
  // Some languages write whole numbers as 5.0 or 5e3; below this doubles are exact.
  constexpr double kExact = 9'007'199'254'740'992.0;
  const std::optional<double> written = parse_double(json);
  if (!written || std::trunc(*written) != *written || std::abs(*written) >= kExact ||
      (std::is_unsigned_v<Integer> && *written < 0)) {
    return std::nullopt;
  }
  return static_cast<Integer>(*written);
}

}  // namespace

std::string Place::text() const {
  if (parent_ == nullptr) return {};
  std::string text = parent_->text();
  if (name_.data() == nullptr) return text + fmt::format("[{}]", index_);
  if (!text.empty()) text += '.';
  return text + clip_text(name_, kMaxQuotedBytes);
}

void Place::fail(std::string_view why, ErrorCode code) const {
  const std::string where = text();
  throw Error(code, where.empty() ? std::string(why) : fmt::format("{}: {}", where, why));
}

std::string JsonValue::text() const {
  if (!is_string()) place_.fail("a string was expected");
  return unescape(json_);
}

bool JsonValue::boolean() const {
  if (json_ != "true" && json_ != "false") place_.fail("true or false was expected");
  return json_ == "true";
}

Duration JsonValue::duration() const {
  if (!is_number(json_)) place_.fail("a number of seconds was expected");
  // More than any limit of ours, and small enough to be exact in milliseconds.
  constexpr double kMaxSeconds = 1e12;
  const std::optional<double> seconds = parse_double(json_);
  if (!seconds || *seconds < 0 || *seconds > kMaxSeconds) {
    place_.fail("the number of seconds is negative or too large", ErrorCode::out_of_range);
  }
  return Duration(static_cast<Duration::rep>(std::llround(*seconds * 1000)));
}

double JsonValue::number() const {
  const std::optional<double> number = is_number(json_) ? parse_double(json_) : std::nullopt;
  if (!number) place_.fail("a number was expected");
  return *number;
}

std::int64_t JsonValue::integer(std::int64_t min, std::int64_t max) const {
  if (!is_number(json_)) place_.fail("a whole number was expected");
  const std::optional<std::int64_t> number = parse_integer<std::int64_t>(json_);
  if (!number || *number < min || *number > max) {
    place_.fail(fmt::format("a whole number from {} to {} was expected", min, max),
                ErrorCode::out_of_range);
  }
  return *number;
}

std::uint64_t JsonValue::unsigned_integer() const {
  if (!is_number(json_)) place_.fail("a whole number was expected");
  const std::optional<std::uint64_t> number = parse_integer<std::uint64_t>(json_);
  if (!number) {
    place_.fail("a whole number of at least 0 was expected", ErrorCode::out_of_range);
  }
  return *number;
}

ContentHash parse_hash(std::string_view text) {
  const std::size_t colon = text.find(':');
  std::string digest;
  bool good = colon != std::string_view::npos && (text.size() - colon) % 2 == 1;
  for (std::size_t place = colon + 1; good && place < text.size(); place += 2) {
    unsigned byte = 0;
    const char* const end = text.data() + place + 2;
    const auto [parsed, error] = std::from_chars(text.data() + place, end, byte, 16);
    good = error == std::errc() && parsed == end;
    digest += static_cast<char>(byte);
  }
  if (!good) {
    throw Error(ErrorCode::invalid_argument,
                "a hash is written as its algorithm, a colon and hexadecimal digits: sha256:1f4a…");
  }
  return ContentHash(std::string(text.substr(0, colon)), std::move(digest));
}

ObjectReader::ObjectReader(const JsonValue& value, std::span<const std::string_view> known,
                           Direction direction)
    : place_(value.place()), known_(known) {
  if (known.size() > kMaxFields) throw Error(ErrorCode::internal, "too many known fields");
  if (!value.is_object()) place_.fail("an object was expected");
  for_each_member(value.json(), [&](std::string_view name, std::string_view member) {
    take_member(name, member, direction);
  });
}

void ObjectReader::take_member(std::string_view quoted_name, std::string_view value,
                               Direction direction) {
  std::string_view name = quoted_name.substr(1, quoted_name.size() - 2);
  std::string unescaped;
  if (name.find('\\') != std::string_view::npos) {
    unescaped = unescape(quoted_name);
    name = unescaped;
  }
  const auto found = std::find(known_.begin(), known_.end(), name);
  if (found == known_.end()) {
    if (direction == Direction::answer) return;
    Place(place_, name).fail("this field is not known" + hint(name, known_));
  }
  std::string_view& taken = values_[static_cast<std::size_t>(found - known_.begin())];
  if (taken.data() != nullptr) {
    if (direction == Direction::answer) return;
    Place(place_, name).fail("this field is there twice");
  }
  taken = value;
}

std::optional<JsonValue> ObjectReader::find_even_null(std::string_view name) const {
  const auto found = std::find(known_.begin(), known_.end(), name);
  if (found == known_.end()) {
    throw Error(ErrorCode::internal, fmt::format("{} is not among the known fields", name));
  }
  const std::string_view value = values_[static_cast<std::size_t>(found - known_.begin())];
  if (value.data() == nullptr) return std::nullopt;
  return JsonValue(value, Place(place_, *found));
}

std::optional<JsonValue> ObjectReader::find(std::string_view name) const {
  std::optional<JsonValue> value = find_even_null(name);
  if (value && value->is_null()) value.reset();
  return value;
}

JsonValue ObjectReader::require(std::string_view name) const {
  const std::optional<JsonValue> value = find(name);
  if (!value) Place(place_, name).fail("this field is missing");
  return *value;
}

std::string hint(std::string_view word, std::span<const std::string_view> words) {
  if (const std::optional<std::string_view> near = nearest_name(word, words)) {
    return fmt::format("; did you mean {}?", *near);
  }
  return fmt::format("; known are {}", fmt::join(words, ", "));
}

}  // namespace oncebox::wire
