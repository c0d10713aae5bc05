#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/error.hpp"
#include "oncebox/log.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/tracing.hpp"

namespace oncebox::detail {

/// A span of one message that has begun. Without a tracer, or in a trace that is not sampled, it is
/// empty, and all of its calls do nothing. One that is dropped unended is not told, nor is one for
/// which there is no memory.
class OpenSpan {
 public:
  OpenSpan() noexcept;
  ~OpenSpan();
  OpenSpan(OpenSpan&&) noexcept;
  OpenSpan& operator=(OpenSpan&&) noexcept;

  /// Below the span that the message's headers name, which name this one from now on. The clock is
  /// borrowed, the tracer as well; it may be null.
  [[nodiscard]] static OpenSpan of_message(Tracer* tracer, const Clock& clock,
                                           SpanOperation operation, Message& message) noexcept {
    return tracer == nullptr ? OpenSpan() : begin(*tracer, clock, operation, message);
  }
  /// Of the same message, below this one.
  [[nodiscard]] OpenSpan below(SpanOperation operation) const noexcept;

  [[nodiscard]] bool is_open() const noexcept { return begun_ != nullptr; }

  /// `error` is the kind of failure, or empty.
  void end(std::string_view error, std::initializer_list<LogField> fields) noexcept;

 private:
  struct Begun;

  [[nodiscard]] static OpenSpan begin(Tracer& tracer, const Clock& clock, SpanOperation operation,
                                      Message& message) noexcept;

  std::unique_ptr<Begun> begun_;
};

/// The spans of messages that are enqueued by one call.
class EnqueueSpans {
 public:
  /// Begins them, in the headers of the messages.
  EnqueueSpans(Tracer* tracer, const Clock& clock, std::span<Message> messages) {
    if (tracer != nullptr) begin(*tracer, clock, messages);
  }

  /// Makes the call, which answers an outcome for each.
  template <class Call>
  auto around(Call call) {
    auto outcomes = unless_it_throws(call);
    end(outcomes);
    return outcomes;
  }
  /// Makes a call, after which the caller ends each.
  template <class Call>
  auto unless_it_throws(Call call) {
    try {
      return call();
    } catch (const Error& error) {
      fail(error);
      throw;
    }
  }

  void end(const EnqueueOutcome& outcome) noexcept { end(std::span(&outcome, 1)); }
  void end(std::span<const EnqueueOutcome> outcomes) noexcept;
  void end_one(std::size_t place, const EnqueueOutcome& outcome) noexcept;
  void fail_one(std::size_t place, const Error& error) noexcept;
  /// All that have not ended.
  void fail(const Error& error) noexcept;
  /// Of a `CommitResult`.
  template <class Result>
  void end_as(const Result& result, std::size_t place = 0) noexcept {
    if (result.ok()) {
      end_one(place, result.outcome());
    } else {
      fail_one(place, *result.error());
    }
  }

 private:
  void begin(Tracer& tracer, const Clock& clock, std::span<Message> messages);

  std::vector<OpenSpan> spans_;  // empty without a tracer
};

/// Tells of a claim, if it has handed out messages.
void trace_claim(Tracer& tracer, std::string_view queue, std::span<const ClaimedMessage> claimed,
                 SteadyTime began_at, SteadyTime ended_at) noexcept;

/// Ends the span of a handler or publisher.
void end_with_verdict(OpenSpan& span, const ClaimedMessage& claimed, const Verdict& verdict,
                      Duration waited) noexcept;

}  // namespace oncebox::detail
