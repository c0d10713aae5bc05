#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace oncebox::detail {

/// One step through UTF-8 text.
struct DecodedCharacter {
  std::size_t bytes = 0;    ///< how many bytes it takes; for an invalid one, how many to skip
  bool valid = false;       ///< false: not UTF-8 (surrogates and overlong forms included)
  char32_t code_point = 0;  ///< 0 when it is not valid
};

/// The character at the beginning of `text`, which is not empty.
[[nodiscard]] DecodedCharacter decode_first(std::string_view text) noexcept;

/// The number of code points, or nothing when the text is not valid UTF-8 or contains NUL.
[[nodiscard]] std::optional<std::size_t> count_code_points(std::string_view text) noexcept;

}  // namespace oncebox::detail
