#include "oncebox/tracing.hpp"

#include <algorithm>
#include <cstddef>
#include <random>

#include "oncebox/content_hash.hpp"
#include "oncebox/internal/mix.hpp"

namespace oncebox {

namespace {

constexpr std::string_view kLowerHex = "0123456789abcdef";

// version "-" trace id "-" parent id "-" flags
constexpr std::size_t kTraceAt = 3;
constexpr std::size_t kSpanAt = 36;
constexpr std::size_t kFlagsAt = 53;
constexpr std::size_t kTraceparentSize = 55;

template <std::size_t Size>
std::string hex_of(const std::array<std::uint8_t, Size>& bytes) {
  return to_hex(std::string(bytes.begin(), bytes.end()));
}

// False when it is not lower-case hex.
template <std::size_t Size>
bool read_hex(std::string_view text, std::array<std::uint8_t, Size>& bytes) noexcept {
  for (std::size_t i = 0; i < Size; ++i) {
    const std::size_t high = kLowerHex.find(text[2 * i]);
    const std::size_t low = kLowerHex.find(text[2 * i + 1]);
    if (high == kLowerHex.npos || low == kLowerHex.npos) return false;
    bytes[i] = static_cast<std::uint8_t>(high << 4U | low);
  }
  return true;
}

template <std::size_t Size>
bool is_zero(const std::array<std::uint8_t, Size>& bytes) noexcept {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

template <std::size_t Size>
void put(std::array<std::uint8_t, Size>& bytes, std::size_t at, std::uint64_t number) noexcept {
  for (std::size_t i = 0; i < sizeof(number); ++i) {
    bytes[at + i] = static_cast<std::uint8_t>(number >> (8 * i));
  }
}

}  // namespace

std::string_view to_string(SpanOperation operation) noexcept {
  switch (operation) {
    case SpanOperation::enqueue:
      return "enqueue";
    case SpanOperation::claim:
      return "claim";
    case SpanOperation::handle:
      return "handle";
    case SpanOperation::publish:
      return "publish";
    case SpanOperation::settle:
      return "settle";
  }
  return "unknown";
}

std::optional<TraceContext> TraceContext::read(std::string_view text) noexcept {
  if (text.size() < kTraceparentSize || text[2] != '-' || text[35] != '-' || text[52] != '-') {
    return std::nullopt;
  }
  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  TraceContext context;
  const bool is_hex =
      read_hex(text, version) && read_hex(text.substr(kTraceAt), context.trace_id) &&
      read_hex(text.substr(kSpanAt), context.span_id) && read_hex(text.substr(kFlagsAt), flags);
  if (!is_hex || version[0] == 0xFF || is_zero(context.trace_id) || is_zero(context.span_id)) {
    return std::nullopt;
  }
  if (text.size() > kTraceparentSize && (version[0] == 0 || text[kTraceparentSize] != '-'))
    return std::nullopt;
  context.sampled = (flags[0] & 1U) != 0;
  return context;
}

std::optional<TraceContext> TraceContext::of(const Headers& headers) noexcept {
  const std::optional<std::string_view> text = headers.traceparent();
  return text ? read(*text) : std::nullopt;
}

std::string TraceContext::traceparent() const {
  return "00-" + hex_of(trace_id) + '-' + hex_of(span_id) + (sampled ? "-01" : "-00");
}

Tracer::Tracer() : entropy_(0) {
  std::random_device device;
  entropy_ = (std::uint64_t{device()} << 32U) | device();
}

TraceContext Tracer::begin(const std::optional<TraceContext>& parent) noexcept {
  TraceContext context;
  put(context.span_id, 0, random());
  if (parent) {
    context.trace_id = parent->trace_id;
    context.sampled = parent->sampled;
    return context;
  }
  put(context.trace_id, 0, random());
  put(context.trace_id, sizeof(std::uint64_t), random());
  context.sampled = samples(context.trace_id);
  return context;
}

// Never 0, which is no id.
std::uint64_t Tracer::random() noexcept {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;
  return detail::mixed(entropy_.fetch_add(kStep, std::memory_order_relaxed)) | 1U;
}

}  // namespace oncebox
