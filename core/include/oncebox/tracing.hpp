#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/headers.hpp"
#include "oncebox/log.hpp"

/// What is needed to follow a message through services: spans, in traces as W3C Trace Context
/// (https://www.w3.org/TR/trace-context/) has them. `oncebox::otlp` sends them to a collector.
///
///     otlp::Exporter exporter({.service_name = "shop"}, {.logger = logger});
///     Inbox inbox(store, {}, {.tracer = &exporter});
///     Dispatcher dispatcher(store.inbox(), handlers, {}, {.tracer = &exporter});
namespace oncebox {

/// One span, as the header `traceparent` names it.
struct TraceContext {
  using TraceId = std::array<std::uint8_t, 16>;
  using SpanId = std::array<std::uint8_t, 8>;

  TraceId trace_id{};
  SpanId span_id{};
  bool sampled = false;  ///< whether spans of this trace are recorded

  /// Nothing when the text is no traceparent. Versions after 00 are read as far as 00 goes.
  [[nodiscard]] static std::optional<TraceContext> read(std::string_view text) noexcept;
  /// The one that the headers name, if any.
  [[nodiscard]] static std::optional<TraceContext> of(const Headers& headers) noexcept;

  [[nodiscard]] std::string traceparent() const;

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

enum class SpanOperation {
  enqueue,  ///< of a message, from the call until it is answered
  claim,    ///< of the messages of one claim, to which it is linked; a trace of its own
  handle,   ///< of a message, while it is handled: alone, in a batch, or without a thread
  publish,  ///< the same of a publisher's
  settle,   ///< of a message, from its verdict until that is recorded; below `handle` or `publish`
};

[[nodiscard]] std::string_view to_string(SpanOperation operation) noexcept;

/// A span that has ended. Valid only during the call that tells of it.
struct Span {
  SpanOperation operation = SpanOperation::enqueue;
  std::string_view target;  ///< the topic; of a claim, the name of the queue
  TraceContext context = {};
  std::optional<TraceContext::SpanId> parent = {};
  std::string_view trace_state = {};  ///< the `tracestate` that came with the parent
  std::span<const TraceContext> links = {};
  SteadyTime began_at = {};
  SteadyTime ended_at = {};
  std::string_view error = {};  ///< the kind of failure, never its text; empty: none
  /// Ids, numbers and words. Never a payload, as in a log line.
  std::span<const LogField> fields = {};
};

/// Hears of spans. Whoever has none of these pays nothing: no span is begun.
///
/// A message without a trace begins one, when it is enqueued or else when it is handled. Its header
/// `traceparent` then names the span of its enqueue when it is stored, and that of its handling
/// when its handler or publisher gets it: so what follows from it is below that span, here and at
/// every receiver. Of a trace that is not sampled there are no spans, and the header goes on.
///
/// Implementations are safe to call from any thread, return quickly and do not throw.
class Tracer {
 public:
  Tracer();
  virtual ~Tracer() = default;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Whether a new trace is to be recorded. Asked once for each, where it begins.
  [[nodiscard]] virtual bool samples(const TraceContext::TraceId& /*trace*/) noexcept {
    return true;
  }
  /// Told of spans of traces that are sampled, as they end.
  virtual void on_span(const Span& span) noexcept = 0;

  /// A span below `parent`, or the first one of a new trace: for spans of one's own as well.
  [[nodiscard]] TraceContext begin(const std::optional<TraceContext>& parent) noexcept;

 private:
  [[nodiscard]] std::uint64_t random() noexcept;

  std::atomic<std::uint64_t> entropy_;
};

}  // namespace oncebox
