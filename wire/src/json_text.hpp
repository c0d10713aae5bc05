#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// JSON as text: whether it is valid, and where its parts lie. Nothing here builds a tree, so that
/// every part can be had as it was written.
namespace oncebox::wire {

/// One JSON value and nothing but white space around it, nested at most so deep. UTF-8 is checked,
/// and escapes of half a character are refused.
[[nodiscard]] bool is_json(std::string_view text, std::size_t max_nesting) noexcept;

/// Throws `invalid_argument` unless `is_json`, saying why and at which byte.
void require_json(std::string_view text, std::size_t max_nesting);

[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// JSON's own white space.
[[nodiscard]] constexpr bool is_json_space(char character) noexcept {
  return character == ' ' || character == '\n' || character == '\r' || character == '\t';
}

// Walking through text that `require_json` let pass
// ------------------------------------------------

/// The place of the next character at or after `place` that is no white space, or the end.
[[nodiscard]] std::size_t skip_space(std::string_view json, std::size_t place) noexcept;
/// The place behind the value that begins at `place`.
[[nodiscard]] std::size_t skip_value(std::string_view json, std::size_t place) noexcept;
/// What a string, given with its quotes, stands for.
[[nodiscard]] std::string unescape(std::string_view quoted);

}  // namespace oncebox::wire
