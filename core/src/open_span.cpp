#include "oncebox/detail/open_span.hpp"

#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <variant>

#include "oncebox/headers.hpp"

namespace oncebox::detail {

namespace {

struct VerdictText {
  std::string_view outcome;
  std::string_view error = {};
};

std::string_view kind_or(const std::string& kind, std::string_view other) {
  return kind.empty() ? other : std::string_view(kind);
}

VerdictText text_of(const Verdict& verdict) {
  if (const auto* abandon = std::get_if<Abandon>(&verdict)) {
    return {"abandoned", kind_or(abandon->error_kind, "failure")};
  }
  if (const auto* fail = std::get_if<Fail>(&verdict)) {
    return {"failed", kind_or(fail->error_kind, "failure")};
  }
  return {std::holds_alternative<Release>(verdict) ? "released" : "succeeded"};
}

// A message with all the headers it may have goes on without.
void name_in(Headers& headers, const TraceContext& context, bool is_new_trace) {
  try {
    headers.set(header_names::kTraceparent, context.traceparent());
    if (is_new_trace) headers.erase(header_names::kTracestate);
  } catch (const Error&) {
    return;
  }
}

}  // namespace

struct OpenSpan::Begun {
  Tracer& tracer;
  const Clock& clock;
  SpanOperation operation;
  MessageKey key;
  std::string topic;
  TraceContext context;
  std::optional<TraceContext::SpanId> parent;
  std::string trace_state;
  SteadyTime began_at;
};

OpenSpan::OpenSpan() noexcept = default;
OpenSpan::~OpenSpan() = default;
OpenSpan::OpenSpan(OpenSpan&&) noexcept = default;
OpenSpan& OpenSpan::operator=(OpenSpan&&) noexcept = default;

OpenSpan OpenSpan::begin(Tracer& tracer, const Clock& clock, SpanOperation operation,
                         Message& message) noexcept {
  OpenSpan span;
  try {
    const std::optional<TraceContext> parent = TraceContext::of(message.headers);
    if (parent && !parent->sampled) return span;
    const TraceContext context = tracer.begin(parent);
    name_in(message.headers, context, !parent);
    if (!context.sampled) return span;
    const auto state = message.headers.get(header_names::kTracestate);
    span.begun_ = std::make_unique<Begun>(
        Begun{.tracer = tracer,
              .clock = clock,
              .operation = operation,
              .key = message.key,
              .topic = message.topic.str(),
              .context = context,
              .parent = parent ? std::optional(parent->span_id) : std::nullopt,
              .trace_state = std::string(state.value_or("")),
              .began_at = clock.steady()});
  } catch (const std::exception&) {
    // No memory: the message goes on without a span.
  }
  return span;
}

OpenSpan OpenSpan::below(SpanOperation operation) const noexcept {
  OpenSpan span;
  if (!is_open()) return span;
  try {
    span.begun_ = std::make_unique<Begun>(*begun_);
  } catch (const std::exception&) {
    return span;
  }
  span.begun_->operation = operation;
  span.begun_->parent = begun_->context.span_id;
  span.begun_->context = begun_->tracer.begin(begun_->context);
  span.begun_->began_at = begun_->clock.steady();
  return span;
}

void OpenSpan::end(std::string_view error, std::initializer_list<LogField> fields) noexcept {
  if (!is_open()) return;
  const std::unique_ptr<Begun> begun = std::move(begun_);
  try {
    std::vector<LogField> all{{"source", begun->key.source},
                              {"message_id", begun->key.message_id},
                              {"topic", begun->topic}};
    all.insert(all.end(), fields);
    begun->tracer.on_span({.operation = begun->operation,
                           .target = begun->topic,
                           .context = begun->context,
                           .parent = begun->parent,
                           .trace_state = begun->trace_state,
                           .began_at = begun->began_at,
                           .ended_at = begun->clock.steady(),
                           .error = error,
                           .fields = all});
  } catch (const std::exception&) {
    return;  // no memory: the span is lost
  }
}

void EnqueueSpans::begin(Tracer& tracer, const Clock& clock, std::span<Message> messages) {
  spans_.reserve(messages.size());
  for (Message& message : messages) {
    spans_.push_back(OpenSpan::of_message(&tracer, clock, SpanOperation::enqueue, message));
  }
}

void EnqueueSpans::end(std::span<const EnqueueOutcome> outcomes) noexcept {
  for (std::size_t i = 0; i < spans_.size(); ++i) end_one(i, outcomes[i]);
}

void EnqueueSpans::end_one(std::size_t place, const EnqueueOutcome& outcome) noexcept {
  if (place < spans_.size()) spans_[place].end({}, {{"outcome", to_string(outcome.status)}});
}

void EnqueueSpans::fail_one(std::size_t place, const Error& error) noexcept {
  if (place < spans_.size()) spans_[place].end(to_string(error.code()), {});
}

void EnqueueSpans::fail(const Error& error) noexcept {
  for (OpenSpan& span : spans_) span.end(to_string(error.code()), {});
}

void trace_claim(Tracer& tracer, std::string_view queue, std::span<const ClaimedMessage> claimed,
                 SteadyTime began_at, SteadyTime ended_at) noexcept {
  if (claimed.empty()) return;
  try {
    std::vector<TraceContext> links;
    for (const ClaimedMessage& one : claimed) {
      const std::optional<TraceContext> context = TraceContext::of(one.message.headers);
      if (context && context->sampled) links.push_back(*context);
    }
    const TraceContext context = tracer.begin(std::nullopt);
    if (!context.sampled) return;
    const LogField count("count", claimed.size());
    tracer.on_span({.operation = SpanOperation::claim,
                    .target = queue,
                    .context = context,
                    .links = links,
                    .began_at = began_at,
                    .ended_at = ended_at,
                    .fields = {&count, 1}});
  } catch (const std::exception&) {
    return;  // no memory: the span is lost
  }
}

void end_with_verdict(OpenSpan& span, const ClaimedMessage& claimed, const Verdict& verdict,
                      Duration waited) noexcept {
  if (!span.is_open()) return;
  const VerdictText text = text_of(verdict);
  span.end(
      text.error,
      {{"outcome", text.outcome}, {"attempt", claimed.history.attempt + 1}, {"waited_ms", waited}});
}

}  // namespace oncebox::detail
