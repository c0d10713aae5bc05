#include "json_text.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/locale/utf.hpp>
#include <cstdint>
#include <cstring>

#include "oncebox/error.hpp"

namespace oncebox::wire {

namespace {

namespace json = boost::json;
namespace utf = boost::locale::utf;

// Hears everything and keeps nothing: the parser's own checks are what is wanted.
struct NoHandler {
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  using Text = json::string_view;
  using Code = json::error_code;

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) { return true; }
  bool on_object_end(std::size_t, Code&) { return true; }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t, Code&) { return true; }
  bool on_key_part(Text, std::size_t, Code&) { return true; }
  bool on_key(Text, std::size_t, Code&) { return true; }
  bool on_string_part(Text, std::size_t, Code&) { return true; }
  bool on_string(Text, std::size_t, Code&) { return true; }
  bool on_number_part(Text, Code&) { return true; }
  bool on_int64(std::int64_t, Text, Code&) { return true; }
  bool on_uint64(std::uint64_t, Text, Code&) { return true; }
  bool on_double(double, Text, Code&) { return true; }
  bool on_bool(bool, Code&) { return true; }
  bool on_null(Code&) { return true; }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }
};

struct JsonVerdict {
  json::error_code error;
  std::size_t place = 0;
};

JsonVerdict judge(std::string_view text, std::size_t max_nesting) {
  json::parse_options options;
  options.max_depth = max_nesting;
  json::basic_parser<NoHandler> parser(options);
  JsonVerdict verdict;
  verdict.place = parser.write_some(false, text.data(), text.size(), verdict.error);
  if (!verdict.error && verdict.place < text.size()) verdict.error = json::error::extra_data;
  return verdict;
}

// The text is known to be good, so there is always a next quote.
std::size_t skip_string(std::string_view json, std::size_t place) noexcept {
  for (;;) {
    const auto* const quote = static_cast<const char*>(
        std::memchr(json.data() + place + 1, '"', json.size() - place - 1));
    const auto found = static_cast<std::size_t>(quote - json.data());
    std::size_t before = found;
    while (json[before - 1] == '\\') --before;
    if ((found - before) % 2 == 0) return found + 1;
    place = found;
  }
}

constexpr std::array<bool, 256> marked(std::string_view characters) {
  std::array<bool, 256> marks{};
  for (const char character : characters) marks[static_cast<unsigned char>(character)] = true;
  return marks;
}

constexpr std::array<bool, 256> kOpensOrCloses = marked("{}[]\"");

std::uint32_t hex_unit(std::string_view json, std::size_t place) noexcept {
  std::uint32_t unit = 0;
  for (std::size_t end = place + 4; place < end; ++place) {
    const char digit = json[place];
    const int value = digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10;
    unit = unit << 4 | static_cast<std::uint32_t>(value);
  }
  return unit;
}

// Appends the character of the \u escape whose digits begin at `place`; answers the place behind.
std::size_t append_code_point(std::string& out, std::string_view json, std::size_t place) {
  std::uint32_t point = hex_unit(json, place);
  place += 4;
  if (point >= 0xd800 && point < 0xdc00) {
    const std::uint32_t low = hex_unit(json, place + 2);
    point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    place += 6;
  }
  char encoded[4];
  const char* const end = utf::utf_traits<char>::encode(point, encoded);
  out.append(encoded, static_cast<std::size_t>(end - encoded));
  return place;
}

char unescaped(char escape) noexcept {
  switch (escape) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return escape;  // the quote, the slash and the backslash stand for themselves
  }
}

}  // namespace

bool is_json(std::string_view text, std::size_t max_nesting) noexcept {
  return !judge(text, max_nesting).error;
}

void require_json(std::string_view text, std::size_t max_nesting) {
  const JsonVerdict verdict = judge(text, max_nesting);
  if (!verdict.error) return;
  if (verdict.error == json::error::too_deep) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("the JSON is nested more than {} levels deep; a string may hold what is "
                    "nested deeper",
                    max_nesting));
  }
  if (verdict.error == json::error::incomplete) {
    throw Error(ErrorCode::invalid_argument, text.empty()
                                                 ? "JSON was expected, but there is nothing"
                                                 : "the text is not JSON: it ends too early");
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("the text is not JSON: {} at byte {}",
                                                       verdict.error.message(), verdict.place));
}

bool is_utf8(std::string_view text) noexcept {
  const char* place = text.data();
  const char* const end = place + text.size();
  while (place != end) {
    if (static_cast<unsigned char>(*place) < 0x80) {
      ++place;
      continue;
    }
    const utf::code_point point = utf::utf_traits<char>::decode(place, end);
    if (point == utf::illegal || point == utf::incomplete) return false;
  }
  return true;
}

std::size_t skip_space(std::string_view json, std::size_t place) noexcept {
  while (place < json.size() && is_json_space(json[place])) ++place;
  return place;
}

std::size_t skip_value(std::string_view json, std::size_t place) noexcept {
  const char first = json[place];
  if (first == '"') return skip_string(json, place);
  if (first != '{' && first != '[') {
    while (place < json.size() && json[place] != ',' && json[place] != ']' && json[place] != '}' &&
           !is_json_space(json[place])) {
      ++place;
    }
    return place;
  }
  std::size_t open = 0;
  for (;;) {
    while (!kOpensOrCloses[static_cast<unsigned char>(json[place])]) ++place;
    const char character = json[place];
    if (character == '"') {
      place = skip_string(json, place);
      continue;
    }
    ++place;
    if (character == '{' || character == '[') {
      ++open;
    } else if (--open == 0) {
      return place;
    }
  }
}

std::string unescape(std::string_view quoted) {
  const std::string_view inside = quoted.substr(1, quoted.size() - 2);
  std::size_t escape = inside.find('\\');
  if (escape == std::string_view::npos) return std::string(inside);
  std::string text;
  text.reserve(inside.size());
  std::size_t copied = 0;
  for (; escape != std::string_view::npos; escape = inside.find('\\', copied)) {
    text.append(inside, copied, escape - copied);
    const char kind = inside[escape + 1];
    if (kind == 'u') {
      copied = append_code_point(text, inside, escape + 2);
    } else {
      text += unescaped(kind);
      copied = escape + 2;
    }
  }
  text.append(inside, copied);
  return text;
}

}  // namespace oncebox::wire
