#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace oncebox::wire {

[[nodiscard]] std::string to_base64(std::string_view bytes);
/// How long that is.
[[nodiscard]] constexpr std::size_t base64_size(std::size_t bytes) noexcept {
  return (bytes + 2) / 3 * 4;
}
/// Standard alphabet, padding required, no white space; nothing when it is not that.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

/// Escapes everything but letters, digits and `-._~`: for one segment of a path or one value.
[[nodiscard]] std::string percent_encode(std::string_view text);
/// Nothing for a broken escape. A `+` stays a `+`.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);

}  // namespace oncebox::wire
