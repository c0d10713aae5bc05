#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

/// Texts as HTTP compares them: the case of ASCII letters does not count, nor do blanks around.
namespace oncebox::detail {

[[nodiscard]] inline bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [lower](char x, char y) { return lower(x) == lower(y); });
}

[[nodiscard]] inline std::string_view without_blanks_around(std::string_view text) noexcept {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// The type in a Content-Type, without parameters such as `; charset=utf-8`.
[[nodiscard]] inline std::string_view bare_media_type(std::string_view content_type) noexcept {
  return without_blanks_around(content_type.substr(0, content_type.find(';')));
}

}  // namespace oncebox::detail
