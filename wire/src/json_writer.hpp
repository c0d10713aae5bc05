#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/names.hpp"
#include "oncebox/uuid.hpp"

/// Writes JSON into a string, piece by piece: no tree is built.
namespace oncebox::wire {

/// Appends the text as a JSON string, quoted and escaped. The text is valid UTF-8.
void append_quoted(std::string& out, std::string_view text);

/// As many bytes as that appends at most.
[[nodiscard]] std::size_t quoted_size(std::string_view text) noexcept;

class JsonWriter {
 public:
  explicit JsonWriter(std::size_t reserve_bytes = 256) { out_.reserve(reserve_bytes); }

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  /// The name of a member; its value follows. Names are ours: nothing in them needs an escape.
  JsonWriter& key(std::string_view name) {
    separate();
    out_ += '"';
    out_ += name;
    out_ += "\":";
    return *this;
  }

  /// The same for a name that somebody else chose.
  JsonWriter& escaped_key(std::string_view name) {
    separate();
    append_quoted(out_, name);
    out_ += ':';
    return *this;
  }

  JsonWriter& value(std::string_view text) {
    separate();
    append_quoted(out_, text);
    return *this;
  }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(std::same_as<bool> auto truth) { return raw(truth ? "true" : "false"); }
  template <class Number>
    requires(std::integral<Number> && !std::same_as<Number, bool>)
  JsonWriter& value(Number number) {
    separate();
    char digits[24];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
    out_.append(digits, end);
    return *this;
  }
  /// A finite number, in as few digits as are needed to read it back.
  JsonWriter& value(double number) {
    separate();
    char digits[32];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
    out_.append(digits, end);
    return *this;
  }
  /// In seconds, exactly.
  JsonWriter& value(Duration duration);
  JsonWriter& value(TimePoint time) { return value(std::string_view(format_rfc3339(time))); }
  template <class Tag>
  JsonWriter& value(const Name<Tag>& name) {
    return value(std::string_view(name.str()));
  }
  template <class Tag>
  JsonWriter& value(const UuidId<Tag>& id) {
    return value(std::string_view(id.to_string()));
  }

  JsonWriter& null() { return raw("null"); }
  /// Text that is JSON already.
  JsonWriter& raw(std::string_view json) {
    separate();
    out_ += json;
    return *this;
  }

  template <class Value>
  JsonWriter& field(std::string_view name, const Value& content) {
    key(name);
    return value(content);
  }
  /// Leaves the member out when there is no value.
  template <class Value>
  JsonWriter& field(std::string_view name, const std::optional<Value>& content) {
    if (content) field(name, *content);
    return *this;
  }

  [[nodiscard]] std::string take() && { return std::move(out_); }

 private:
  JsonWriter& open(char bracket) {
    separate();
    out_ += bracket;
    return *this;
  }
  JsonWriter& close(char bracket) {
    out_ += bracket;
    return *this;
  }
  // What was written last tells whether a comma is due: a whole value ends in none of these.
  void separate() {
    if (out_.empty()) return;
    const char last = out_.back();
    if (last != '{' && last != '[' && last != ':') out_ += ',';
  }

  std::string out_;
};

}  // namespace oncebox::wire
