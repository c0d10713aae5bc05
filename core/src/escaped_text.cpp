#include "oncebox/internal/escaped_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "oncebox/internal/utf8.hpp"

namespace oncebox::detail {

namespace {

bool is_control(char32_t point) noexcept { return point < 0x20 || (point >= 0x7f && point < 0xa0); }

// Marks and turns of direction, the separators of lines and paragraphs, and the byte order mark.
bool is_deceiving(char32_t point) noexcept {
  return point == 0x61c || point == 0x200e || point == 0x200f ||
         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) ||
         point == 0xfeff;
}

bool is_between_quotes(EscapeStyle style) noexcept {
  return style == EscapeStyle::quoted || style == EscapeStyle::json;
}

bool is_plain_ascii(char c, EscapeStyle style) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  if (byte < ' ' || byte >= 0x7f) return false;
  return (c != '"' && c != '\\') || !is_between_quotes(style);
}

void append_invalid_byte(std::string& out, char byte, EscapeStyle style) {
  if (style == EscapeStyle::json) {
    out += "\xEF\xBF\xBD";
  } else {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(byte));
  }
}

void append_code(std::string& out, char32_t point, EscapeStyle style) {
  const auto number = static_cast<std::uint32_t>(point);
  const bool is_space = point == U'\n' || point == U'\t';
  if (style == EscapeStyle::json) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", number);
  } else if (is_space && style == EscapeStyle::lines) {
    out += static_cast<char>(point);
  } else if (is_space && style == EscapeStyle::printed) {
    out += point == U'\n' ? "\\n" : "\\t";
  } else if (is_control(point)) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", number);
  } else {
    fmt::format_to(std::back_inserter(out), "\\u{{{:04x}}}", number);
  }
}

}  // namespace

void append_escaped(std::string& out, std::string_view text, EscapeStyle style) {
  while (!text.empty()) {
    // Most texts are plain from their beginning to their end.
    const auto* const special = std::find_if_not(
        text.begin(), text.end(), [style](char c) { return is_plain_ascii(c, style); });
    out.append(text.begin(), special);
    text.remove_prefix(static_cast<std::size_t>(special - text.begin()));
    if (text.empty()) return;
    const auto [bytes, valid, point] = decode_first(text);
    if (!valid) {
      append_invalid_byte(out, text.front(), style);
    } else if (is_control(point) || is_deceiving(point)) {
      append_code(out, point, style);
    } else {
      if (bytes == 1) out += '\\';  // a quote or a backslash
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
}

}  // namespace oncebox::detail
