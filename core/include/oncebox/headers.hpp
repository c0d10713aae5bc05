#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oncebox/clock.hpp"

namespace oncebox {

/// The names that Oncebox itself gives a meaning to. Any other name may be used beside them.
namespace header_names {
inline constexpr std::string_view kCorrelationId = "correlationId";
inline constexpr std::string_view kCausationId = "causationId";
inline constexpr std::string_view kMessageId = "messageId";
inline constexpr std::string_view kIdempotencyKey = "idempotencyKey";
inline constexpr std::string_view kPartitionKey = "partitionKey";
inline constexpr std::string_view kContentType = "contentType";
inline constexpr std::string_view kTimestamp = "timestamp";
inline constexpr std::string_view kTraceparent = "traceparent";
inline constexpr std::string_view kTracestate = "tracestate";
/// The id under which a quarantined message had come in.
inline constexpr std::string_view kQuarantinedFrom = "quarantinedFrom";
}  // namespace header_names

/// Short texts that travel with a message through inbox, handler, outbox, broker and dead letters.
/// Names are case-sensitive and unique; iteration is in the order of the names.
class Headers {
 public:
  using Entry = std::pair<std::string, std::string>;

  static constexpr std::size_t kMaxEntries = 64;
  static constexpr std::size_t kMaxNameCodePoints = 128;
  static constexpr std::size_t kMaxValueBytes = 8 * 1024;

  Headers() = default;
  /// Throws as `set` does; a repeated name keeps the last value.
  Headers(std::initializer_list<Entry> entries);

  /// Adds or replaces. Names are 1 to 128 code points, values at most 8 KiB, both valid UTF-8
  /// without NUL; at most 64 entries. Throws `invalid_argument`, and then nothing changed.
  Headers& set(std::string_view name, std::string_view value);
  Headers& set_timestamp(TimePoint time);
  void erase(std::string_view name) noexcept;

  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const noexcept;
  [[nodiscard]] std::optional<std::string_view> correlation_id() const noexcept;
  [[nodiscard]] std::optional<std::string_view> causation_id() const noexcept;
  [[nodiscard]] std::optional<std::string_view> message_id() const noexcept;
  [[nodiscard]] std::optional<std::string_view> idempotency_key() const noexcept;
  [[nodiscard]] std::optional<std::string_view> partition_key() const noexcept;
  [[nodiscard]] std::optional<std::string_view> content_type() const noexcept;
  [[nodiscard]] std::optional<std::string_view> traceparent() const noexcept;
  /// The timestamp header as a time; nothing when it is absent. Throws `invalid_argument` when it
  /// is there but is no RFC 3339 time.
  [[nodiscard]] std::optional<TimePoint> timestamp() const;

  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

  friend bool operator==(const Headers&, const Headers&) = default;

 private:
  std::vector<Entry> entries_;  // sorted by name
};

/// The bytes of the names and values.
[[nodiscard]] std::size_t bytes_of(const Headers& headers) noexcept;

}  // namespace oncebox
