#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/names.hpp"

/// What every store accepts at most, so that no caller can ask for the unbounded. The limits of
/// names and headers stand with their types.
namespace oncebox::limits {

inline constexpr std::size_t kMaxBatchItems = 10'000;           ///< items in one call
inline constexpr std::size_t kMaxClaimBytes = 64 << 20;         ///< handed out by one claim
inline constexpr std::size_t kMaxListItems = 1'000;             ///< records in one page
inline constexpr std::size_t kMaxTopicPatterns = 256;           ///< that one claim names
inline constexpr std::size_t kMaxTopicPatternBytes = 64 << 10;  ///< of them together
inline constexpr Duration kMinLease{1};
inline constexpr Duration kMaxLease = std::chrono::hours{24};
inline constexpr Duration kMinKeyLease = std::chrono::seconds{1};
inline constexpr Duration kMaxKeyLease = std::chrono::seconds{300};
inline constexpr Duration kMaxDelay = std::chrono::days{365};
inline constexpr Duration kMaxRetention = std::chrono::days{3650};
inline constexpr int kMaxDeliveries = 1'000'000;
inline constexpr std::size_t kMaxErrorBytes = 2'048;    ///< longer error texts are cut (R-27)
inline constexpr std::size_t kMaxErrorKindBytes = 100;  ///< longer kinds of errors are cut
inline constexpr std::size_t kMaxKeptAttempts = 1'000;  ///< of one message
inline constexpr std::size_t kMaxReasonBytes = 2'048;   ///< longer reasons are cut
inline constexpr std::size_t kMaxActorBytes = 255;      ///< longer names of those who act are cut
inline constexpr std::size_t kMaxSubjectBytes = 2'048;  ///< of an audit entry; longer ones are cut
inline constexpr std::size_t kMaxPastContents = 100;    ///< earlier payloads of one message
inline constexpr std::size_t kMaxPastContentBytes = 16 << 20;  ///< of them together
inline constexpr std::size_t kMaxResultBytes = 1 << 20;  ///< stored result of an idempotency key
inline constexpr std::size_t kMaxBegunResultBytes = 16 << 20;  ///< answered by one begin of keys

}  // namespace oncebox::limits

namespace oncebox {

/// The longest beginning of `text` that has at most `max_bytes` bytes and cuts no character in two;
/// invalid UTF-8 and NUL are replaced by U+FFFD first, so that every store can keep the answer.
[[nodiscard]] std::string clip_text(std::string_view text, std::size_t max_bytes);

/// Throws `out_of_range`, saying what and which values are allowed, unless min <= value <= max.
void require_in_range(std::string_view what, Duration value, Duration min, Duration max);
void require_in_range(std::string_view what, std::size_t value, std::size_t min, std::size_t max);
void require_in_range(std::string_view what, TimePoint value);

/// Throws `out_of_range` for a message's due time or expiry that no store can keep.
void require_schedule(const std::optional<TimePoint>& due_at,
                      const std::optional<TimePoint>& expires_at);

/// Throws `invalid_argument`, with both numbers, for a payload that is too large for its store.
void require_payload_size(std::size_t bytes, std::size_t max_bytes);

}  // namespace oncebox
