#include "oncebox/limits.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "oncebox/error.hpp"
#include "oncebox/internal/utf8.hpp"

namespace oncebox {

std::string clip_text(std::string_view text, std::size_t max_bytes) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
  std::string clipped;
  clipped.reserve(std::min(text.size(), max_bytes));
  while (!text.empty()) {
    const detail::DecodedCharacter character = detail::decode_first(text);
    const bool keep = character.valid && text.front() != '\0';
    const std::string_view piece = keep ? text.substr(0, character.bytes) : kReplacement;
    if (clipped.size() + piece.size() > max_bytes) break;
    clipped += piece;
    text.remove_prefix(character.bytes);
  }
  return clipped;
}

void require_in_range(std::string_view what, Duration value, Duration min, Duration max) {
  if (value >= min && value <= max) return;
  throw Error(ErrorCode::out_of_range, fmt::format("the {} is {} ms; it must be from {} to {} ms",
                                                   what, value.count(), min.count(), max.count()));
}

void require_in_range(std::string_view what, std::size_t value, std::size_t min, std::size_t max) {
  if (value >= min && value <= max) return;
  throw Error(ErrorCode::out_of_range,
              fmt::format("the {} is {}; it must be from {} to {}", what, value, min, max));
}

void require_in_range(std::string_view what, TimePoint value) {
  if (value >= kMinTime && value <= kMaxTime) return;
  throw Error(ErrorCode::out_of_range,
              fmt::format("the {} lies outside the years 1970 to 9999", what));
}

void require_schedule(const std::optional<TimePoint>& due_at,
                      const std::optional<TimePoint>& expires_at) {
  if (due_at) require_in_range("due time", *due_at);
  if (expires_at) require_in_range("expiry", *expires_at);
}

void require_payload_size(std::size_t bytes, std::size_t max_bytes) {
  if (bytes <= max_bytes) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("the payload has {} bytes; this store takes at most {}", bytes, max_bytes));
}

}  // namespace oncebox
