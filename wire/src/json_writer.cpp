#include "json_writer.hpp"

#include <algorithm>
#include <array>

namespace oncebox::wire {

namespace {

constexpr std::string_view kLowerHexDigits = "0123456789abcdef";

constexpr std::array<bool, 256> characters_to_escape() {
  std::array<bool, 256> to_escape{};
  for (std::size_t control = 0; control < 0x20; ++control) to_escape[control] = true;
  to_escape['"'] = true;
  to_escape['\\'] = true;
  to_escape[0x7f] = true;
  return to_escape;
}

constexpr std::array<bool, 256> kToEscape = characters_to_escape();

void append_escape(std::string& out, unsigned char character) {
  switch (character) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kLowerHexDigits[character >> 4];
      out += kLowerHexDigits[character & 0xf];
  }
}

}  // namespace

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  std::size_t written = 0;
  for (std::size_t place = 0; place < text.size(); ++place) {
    const auto character = static_cast<unsigned char>(text[place]);
    if (!kToEscape[character]) continue;
    out.append(text, written, place - written);
    append_escape(out, character);
    written = place + 1;
  }
  out.append(text, written);
  out += '"';
}

std::size_t quoted_size(std::string_view text) noexcept {
  constexpr std::size_t kQuotes = 2;
  constexpr std::size_t kMoreBytesOfAnEscape = 5;
  const auto to_escape = [](char character) {
    const auto byte = static_cast<unsigned char>(character);
    return byte < 0x20 || byte == 0x7f || byte == '"' || byte == '\\';
  };
  const auto escapes = std::count_if(text.begin(), text.end(), to_escape);
  return text.size() + kQuotes + kMoreBytesOfAnEscape * static_cast<std::size_t>(escapes);
}

JsonWriter& JsonWriter::value(Duration duration) {
  separate();
  const std::int64_t total_ms = duration.count();
  // Not negated as a signed number: the smallest one has no positive twin.
  std::uint64_t ms = static_cast<std::uint64_t>(total_ms);
  if (total_ms < 0) {
    out_ += '-';
    ms = 0 - ms;
  }
  out_ += std::to_string(ms / 1000);
  if (const std::uint64_t fraction = ms % 1000; fraction != 0) {
    std::string digits = std::to_string(1000 + fraction);
    digits.erase(digits.find_last_not_of('0') + 1);
    out_ += '.';
    out_.append(digits, 1);
  }
  return *this;
}

}  // namespace oncebox::wire
