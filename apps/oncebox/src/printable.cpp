#include "printable.hpp"

#include <algorithm>
#include <array>

#include "oncebox/internal/escaped_text.hpp"
#include "oncebox/internal/utf8.hpp"

namespace oncebox::app {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

template <std::size_t count>
bool is_in(char32_t code_point, const std::array<Range, count>& ranges) {
  const auto found =
      std::lower_bound(ranges.begin(), ranges.end(), code_point,
                       [](const Range& range, char32_t value) { return range.last < value; });
  return found != ranges.end() && code_point >= found->first;
}

// Marks, joiners and selectors, of the blocks that people's names and words use.
constexpr std::array kZeroWidth{
    Range{0x300, 0x36f},     Range{0x483, 0x489},     Range{0x591, 0x5bd},   Range{0x5bf, 0x5bf},
    Range{0x5c1, 0x5c2},     Range{0x5c4, 0x5c5},     Range{0x610, 0x61a},   Range{0x64b, 0x65f},
    Range{0x670, 0x670},     Range{0x6d6, 0x6dc},     Range{0x6df, 0x6e4},   Range{0x6e7, 0x6e8},
    Range{0x6ea, 0x6ed},     Range{0x900, 0x902},     Range{0x93c, 0x93c},   Range{0x941, 0x948},
    Range{0x94d, 0x94d},     Range{0xe31, 0xe31},     Range{0xe34, 0xe3a},   Range{0xe47, 0xe4e},
    Range{0x1ab0, 0x1aff},   Range{0x1dc0, 0x1dff},   Range{0x200b, 0x200d}, Range{0x2060, 0x2064},
    Range{0x20d0, 0x20ff},   Range{0xfe00, 0xfe0f},   Range{0xfe20, 0xfe2f}, Range{0xfeff, 0xfeff},
    Range{0x1f3fb, 0x1f3ff}, Range{0xe0100, 0xe01ef},
};

// East Asian wide and fullwidth, and the pictures that terminals draw so.
constexpr std::array kWide{
    Range{0x1100, 0x115f},   Range{0x231a, 0x231b},   Range{0x2329, 0x232a},
    Range{0x23e9, 0x23ec},   Range{0x23f0, 0x23f0},   Range{0x23f3, 0x23f3},
    Range{0x25fd, 0x25fe},   Range{0x2614, 0x2615},   Range{0x2648, 0x2653},
    Range{0x267f, 0x267f},   Range{0x2693, 0x2693},   Range{0x26a1, 0x26a1},
    Range{0x26aa, 0x26ab},   Range{0x26bd, 0x26be},   Range{0x26c4, 0x26c5},
    Range{0x26ce, 0x26ce},   Range{0x26d4, 0x26d4},   Range{0x26ea, 0x26ea},
    Range{0x26f2, 0x26f3},   Range{0x26f5, 0x26f5},   Range{0x26fa, 0x26fa},
    Range{0x26fd, 0x26fd},   Range{0x2705, 0x2705},   Range{0x270a, 0x270b},
    Range{0x2728, 0x2728},   Range{0x274c, 0x274c},   Range{0x274e, 0x274e},
    Range{0x2753, 0x2755},   Range{0x2757, 0x2757},   Range{0x2795, 0x2797},
    Range{0x27b0, 0x27b0},   Range{0x2b1b, 0x2b1c},   Range{0x2b50, 0x2b50},
    Range{0x2b55, 0x2b55},   Range{0x2e80, 0x303e},   Range{0x3041, 0x33ff},
    Range{0x3400, 0x4dbf},   Range{0x4e00, 0x9fff},   Range{0xa000, 0xa4cf},
    Range{0xa960, 0xa97f},   Range{0xac00, 0xd7a3},   Range{0xf900, 0xfaff},
    Range{0xfe30, 0xfe6f},   Range{0xff01, 0xff60},   Range{0xffe0, 0xffe6},
    Range{0x16fe0, 0x18cff}, Range{0x1b000, 0x1b2ff}, Range{0x1f004, 0x1f004},
    Range{0x1f0cf, 0x1f0cf}, Range{0x1f18e, 0x1f18e}, Range{0x1f191, 0x1f19a},
    Range{0x1f200, 0x1f320}, Range{0x1f32d, 0x1f335}, Range{0x1f337, 0x1f37c},
    Range{0x1f37e, 0x1f393}, Range{0x1f3a0, 0x1f3ca}, Range{0x1f3cf, 0x1f3d3},
    Range{0x1f3e0, 0x1f3f0}, Range{0x1f3f4, 0x1f3f4}, Range{0x1f3f8, 0x1f43e},
    Range{0x1f440, 0x1f440}, Range{0x1f442, 0x1f4fc}, Range{0x1f4ff, 0x1f53d},
    Range{0x1f54b, 0x1f54e}, Range{0x1f550, 0x1f567}, Range{0x1f57a, 0x1f57a},
    Range{0x1f595, 0x1f596}, Range{0x1f5a4, 0x1f5a4}, Range{0x1f5fb, 0x1f64f},
    Range{0x1f680, 0x1f6c5}, Range{0x1f6cc, 0x1f6cc}, Range{0x1f6d0, 0x1f6d2},
    Range{0x1f6d5, 0x1f6d7}, Range{0x1f6dc, 0x1f6df}, Range{0x1f6eb, 0x1f6ec},
    Range{0x1f6f4, 0x1f6fc}, Range{0x1f7e0, 0x1f7eb}, Range{0x1f90c, 0x1f93a},
    Range{0x1f93c, 0x1f945}, Range{0x1f947, 0x1f9ff}, Range{0x1fa70, 0x1faff},
    Range{0x20000, 0x2fffd}, Range{0x30000, 0x3fffd},
};

std::size_t width_of(const detail::DecodedCharacter& character) {
  if (is_in(character.code_point, kZeroWidth)) return 0;
  return is_in(character.code_point, kWide) ? 2 : 1;
}

std::string escaped(std::string_view text, detail::EscapeStyle style) {
  std::string result;
  result.reserve(text.size());
  detail::append_escaped(result, text, style);
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, detail::EscapeStyle::printed); }

std::string printable_lines(std::string_view text) {
  return escaped(text, detail::EscapeStyle::lines);
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const detail::DecodedCharacter character = detail::decode_first(text);
    width += width_of(character);
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string fitted(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return {};
  std::size_t used = 0;
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const detail::DecodedCharacter character = detail::decode_first(text.substr(bytes));
    const std::size_t columns = width_of(character);
    if (used + columns > width - 1) break;
    used += columns;
    bytes += character.bytes;
  }
  return std::string(text.substr(0, bytes)) + "…";
}

}  // namespace oncebox::app
