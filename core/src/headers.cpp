#include "oncebox/headers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "oncebox/error.hpp"
#include "oncebox/internal/utf8.hpp"
#include "oncebox/names.hpp"

namespace oncebox {

namespace {

constexpr auto kByName = [](const Headers::Entry& entry, std::string_view name) {
  return entry.first < name;
};

void require_value(std::string_view name, std::string_view value) {
  if (value.size() > Headers::kMaxValueBytes) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the header {} has {} bytes; at most {} are allowed", name,
                            value.size(), Headers::kMaxValueBytes));
  }
  if (!detail::count_code_points(value)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the header {} is not valid UTF-8 or contains a NUL character", name));
  }
}

}  // namespace

Headers::Headers(std::initializer_list<Entry> entries) {
  for (const Entry& entry : entries) set(entry.first, entry.second);
}

Headers& Headers::set(std::string_view name, std::string_view value) {
  detail::require_name(name, "header name", kMaxNameCodePoints);
  require_value(name, value);
  const auto place = std::lower_bound(entries_.begin(), entries_.end(), name, kByName);
  if (place != entries_.end() && place->first == name) {
    place->second = value;
    return *this;
  }
  if (entries_.size() == kMaxEntries) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a message has at most {} headers", kMaxEntries));
  }
  entries_.emplace(place, name, value);
  return *this;
}

Headers& Headers::set_timestamp(TimePoint time) {
  return set(header_names::kTimestamp, format_rfc3339(time));
}

void Headers::erase(std::string_view name) noexcept {
  const auto place = std::lower_bound(entries_.begin(), entries_.end(), name, kByName);
  if (place != entries_.end() && place->first == name) entries_.erase(place);
}

std::optional<std::string_view> Headers::get(std::string_view name) const noexcept {
  const auto place = std::lower_bound(entries_.begin(), entries_.end(), name, kByName);
  if (place == entries_.end() || place->first != name) return std::nullopt;
  return place->second;
}

std::optional<std::string_view> Headers::correlation_id() const noexcept {
  return get(header_names::kCorrelationId);
}
std::optional<std::string_view> Headers::causation_id() const noexcept {
  return get(header_names::kCausationId);
}
std::optional<std::string_view> Headers::message_id() const noexcept {
  return get(header_names::kMessageId);
}
std::optional<std::string_view> Headers::idempotency_key() const noexcept {
  return get(header_names::kIdempotencyKey);
}
std::optional<std::string_view> Headers::partition_key() const noexcept {
  return get(header_names::kPartitionKey);
}
std::optional<std::string_view> Headers::content_type() const noexcept {
  return get(header_names::kContentType);
}
std::optional<std::string_view> Headers::traceparent() const noexcept {
  return get(header_names::kTraceparent);
}

std::optional<TimePoint> Headers::timestamp() const {
  const std::optional<std::string_view> text = get(header_names::kTimestamp);
  if (!text) return std::nullopt;
  return parse_rfc3339(*text);
}

std::size_t bytes_of(const Headers& headers) noexcept {
  std::size_t bytes = 0;
  for (const auto& [name, value] : headers) bytes += name.size() + value.size();
  return bytes;
}

}  // namespace oncebox
