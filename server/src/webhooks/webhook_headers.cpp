#include "webhooks/webhook_headers.hpp"

#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "api/intake.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/error.hpp"
#include "oncebox/wire/encoding.hpp"

namespace oncebox::server {

namespace {

using OptionalText = std::optional<std::string>;

/// A field that is there and not empty.
std::optional<std::string_view> field_of(const Request& request, std::string_view name) {
  const auto value = request.fields.get(name);
  return value && !value->empty() ? value : std::nullopt;
}

/// As our own publisher writes it, or else in a field of somebody else's making.
OptionalText decoded_or_plain(const Request& request, std::string_view decoded,
                              std::string_view plain) {
  if (const auto value = field_of(request, decoded)) return wire::percent_decode(*value);
  if (const auto value = field_of(request, plain)) return std::string(*value);
  return std::nullopt;
}

std::optional<TimePoint> time_of(std::string_view rfc3339) {
  try {
    return parse_rfc3339(rfc3339);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<TimePoint> time_of_unix_seconds(std::string_view text) {
  constexpr std::int64_t kLast = 253'402'300'799;  // of the year 9999
  std::int64_t seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, seconds);
  if (failure != std::errc() || stop != end || seconds < 0 || seconds > kLast) return std::nullopt;
  return TimePoint(std::chrono::seconds{seconds});
}

std::optional<TimePoint> sent_at(const Request& request) {
  if (const auto value = field_of(request, "Oncebox-Timestamp")) return time_of(*value);
  auto seconds = field_of(request, "webhook-timestamp");
  if (!seconds) seconds = field_of(request, "svix-timestamp");
  return seconds ? time_of_unix_seconds(*seconds) : std::nullopt;
}

OptionalText key_of(const Request& request) {
  try {
    return idempotency_key(request);
  } catch (const Error&) {
    return std::nullopt;  // empty, or too long for a key
  }
}

void set_if_possible(Headers& headers, std::string_view name, const OptionalText& value) {
  if (!value || value->empty()) return;
  try {
    headers.set(name, *value);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
  }
}

}  // namespace

Headers webhook_headers(const Request& request) {
  Headers headers;
  const auto set = [&](std::string_view name, const auto& value) {
    set_if_possible(headers, name, value ? OptionalText(*value) : std::nullopt);
  };
  set(header_names::kContentType, field_of(request, "Content-Type"));
  set(header_names::kCorrelationId,
      decoded_or_plain(request, "Oncebox-Correlation-Id", "X-Correlation-Id"));
  set(header_names::kCausationId,
      decoded_or_plain(request, "Oncebox-Causation-Id", "X-Causation-Id"));
  set(header_names::kPartitionKey, decoded_or_plain(request, "Oncebox-Partition-Key", {}));
  set(header_names::kIdempotencyKey, key_of(request));
  if (const auto time = sent_at(request)) headers.set_timestamp(*time);
  if (const auto trace = traceparent(request)) {
    headers.set(header_names::kTraceparent, *trace);
    set(header_names::kTracestate, field_of(request, "tracestate"));
  }
  return headers;
}

}  // namespace oncebox::server
