#include "handler_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <stop_token>
#include <string_view>
#include <utility>

#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/engine/exception_text.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/message_line.hpp"
#include "oncebox/internal/mix.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::dispatcher {

/// What a handler threw.
struct HandlerCalls::Failure {
  enum class Kind { transient, permanent, interrupted, not_now };

  Kind kind = Kind::transient;
  std::string type;
  std::string text;
  std::optional<Duration> delay = {};  ///< what the handler asks for
  bool delay_is_a_floor = false;       ///< the policy's holds where it is longer
};

namespace {

using detail::current_exception_type;

// Of the exception that is being handled.
std::string kind_of(const std::exception& thrown) {
  const auto* named = dynamic_cast<const NamesErrorKind*>(&thrown);
  return named != nullptr ? named->error_kind() : current_exception_type();
}

// A store that fails at once would be asked at once again, and again: a release counts nothing, and
// the message is the next to be claimed. So its worker rests; the lease is kept meanwhile.
void rest_after_store_failure(const Clock& clock, const std::stop_token& stop) {
  constexpr Duration kRest{200};
  const SteadyTime rested_at = clock.steady() + kRest;
  detail::Mutex mutex;
  detail::TimedCondition stopped(clock);
  const detail::NotifyOnStop notify(stop, mutex, stopped);
  const detail::Lock lock(mutex);
  while (!stop.stop_requested() && stopped.wait_until(mutex, rested_at)) continue;
}

}  // namespace

HandlerCalls::HandlerCalls(const Settings& settings, Logger& logger, const Clock& clock)
    : retries_(settings.retries),
      no_handler_(settings.no_handler),
      max_deliveries_(settings.max_deliveries),
      logger_(logger),
      clock_(clock),
      entropy_state_(settings.seed ? *settings.seed : std::random_device{}()) {}

template <class Handle>
HandlerCalls::Answer HandlerCalls::guarded(const HandlerContext& context, Handle handle) noexcept {
  using Kind = Failure::Kind;
  try {
    Failure failure;
    try {
      return handle();
    } catch (const PermanentFailure& permanent) {
      failure = {Kind::permanent, kind_of(permanent), permanent.what()};
    } catch (const NotNow& not_now) {
      failure = {Kind::not_now, kind_of(not_now), not_now.what(), not_now.delay()};
    } catch (const RetryNotBefore& retry) {
      failure = {Kind::transient, "oncebox::RetryAfter", retry.what(), retry.delay(), true};
    } catch (const RetryAfter& retry) {
      failure = {Kind::transient, kind_of(retry), retry.what(), retry.delay()};
    } catch (const std::exception& other) {
      const bool stopped = context.stop_token().stop_requested();
      failure = {stopped ? Kind::interrupted : Kind::transient, kind_of(other), other.what()};
    } catch (...) {
      const bool stopped = context.stop_token().stop_requested();
      failure = {stopped ? Kind::interrupted : Kind::transient, current_exception_type(),
                 "an exception that is not a std::exception"};
    }
    return {verdict_of(failure, context)};
  } catch (...) {
    // No memory even to say what went wrong.
    return {Abandon{}};
  }
}

void HandlerCalls::log_call(const HandlerContext& context) noexcept {
  if (logger_.enabled(LogLevel::info)) log(LogLevel::info, "handler called", context, nullptr);
}

HandlerCalls::Answer HandlerCalls::call(Handler& handler, HandlerContext& context) noexcept {
  log_call(context);
  return guarded(context, [&]() -> Answer {
    handler.handle(context.message(), context);
    return {Ack{}};
  });
}

HandlerCalls::Answer HandlerCalls::call(TransactionalHandler& handler,
                                        TransactionalQueue* transactions,
                                        HandlerContext& context) noexcept {
  log_call(context);
  return guarded(context, [&]() -> Answer {
    if (transactions == nullptr) {
      throw Error(ErrorCode::unsupported,
                  "the handler wants a transaction, but the store of this message has none");
    }
    return call_in_transaction(handler, *transactions, context);
  });
}

void HandlerCalls::call(BatchHandler& handler, std::span<BatchMessage> batch,
                        std::span<Answer> answers) noexcept {
  for (const BatchMessage& message : batch) log_call(message.context());
  std::exception_ptr thrown;
  try {
    handler.handle(batch);
  } catch (...) {
    thrown = std::current_exception();
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const BatchMessage& message = batch[i];
    answers[i] = conclude(message.context(), message.is_decided() ? message.failure() : thrown);
  }
}

HandlerCalls::Answer HandlerCalls::conclude(const HandlerContext& context,
                                            const std::exception_ptr& failure) noexcept {
  return guarded(context, [&]() -> Answer {
    if (failure) std::rethrow_exception(failure);
    return {Ack{}};
  });
}

// What the handler throws goes on to the caller. A failure of the store is none of the handler's:
// the message is released, to be tried again without counting an attempt. The same
// after a lost answer to the commit: then the release has an effect only if nothing was committed.
HandlerCalls::Answer HandlerCalls::call_in_transaction(TransactionalHandler& handler,
                                                       TransactionalQueue& transactions,
                                                       HandlerContext& context) {
  bool handler_threw = false;
  const auto work = [&](Transaction& transaction) {
    handler_threw = true;
    handler.handle(context.message(), transaction, context);
    handler_threw = false;
  };
  try {
    const SettleOutcome outcome =
        transactions.acknowledge_with(delivery_of(context.message()), work);
    if (outcome == SettleStatus::settled) return {Ack{}, true, true};
    const Failure failure{Failure::Kind::interrupted, "", std::string(to_string(outcome.status))};
    log(LogLevel::warning, "handler's work rolled back, message released", context, &failure);
    return {Release{}};
  } catch (const Error& error) {
    const bool is_unknown = error.code() == ErrorCode::outcome_unknown;
    // What no repetition mends counts as a failure, so that it ends.
    if (handler_threw || !(error.retryable() || is_unknown)) throw;
    const Failure failure{Failure::Kind::interrupted, std::string(to_string(error.code())),
                          error.what()};
    log(LogLevel::error, "transaction of the handler failed, message released", context, &failure);
    rest_after_store_failure(clock_, context.stop_token());
    return {Release{}, false, is_unknown};
  }
}

Verdict HandlerCalls::verdict_of(const Failure& failure, const HandlerContext& context) {
  using Kind = Failure::Kind;
  const ClaimedMessage& message = context.message();
  if (failure.kind == Kind::interrupted) {
    log(LogLevel::warning, "handler interrupted, message released", context, &failure);
    return Release{};
  }
  if (failure.kind == Kind::not_now) {
    log(LogLevel::info, "handler is not ready, message released", context, &failure);
    return Release{failure.delay};
  }
  std::string error = clip_text(failure.text, limits::kMaxErrorBytes);
  if (error.empty()) error = failure.type;
  if (failure.kind == Kind::permanent) {
    log(LogLevel::error, "handler failed for good, message is dead", context, &failure);
    return Fail{std::move(error), failure.type};
  }
  log(LogLevel::error, "handler failed", context, &failure);
  Abandon abandon = retry(message, std::move(error), failure.type);
  if (failure.delay) {
    const bool is_own = abandon.delay.has_value();
    abandon.delay_is_least = failure.delay_is_a_floor && !is_own;
    abandon.delay = failure.delay_is_a_floor && is_own ? std::max(*failure.delay, *abandon.delay)
                                                       : *failure.delay;
  }
  return abandon;
}

Abandon HandlerCalls::retry(const ClaimedMessage& message, std::string error, std::string kind) {
  Abandon abandon{.error = std::move(error), .error_kind = std::move(kind)};
  const Topic& topic = message.message.topic;
  if (const RetryDelays* delays = retries_.delays_of(topic); delays != nullptr) {
    abandon.delay = delays->delay_after(message.history.attempt + 1, entropy());
  }
  abandon.limit = retries_.limit_of(topic);
  return abandon;
}

bool HandlerCalls::is_last_attempt(const ClaimedMessage& message) const noexcept {
  std::optional<AttemptLimit> limit = retries_.limit_of(message.message.topic);
  if (!limit) limit = message.attempt_limit;
  if (!limit) return false;
  const TimePoint begun_at = message.revived_at.value_or(message.history.first_seen_at);
  const TimePoint since = std::max(begun_at, message.message.due_at.value_or(begun_at));
  return limit->is_last(message.history.attempt + 1, clock_.now() - since);
}

Verdict HandlerCalls::refuse(const ClaimedMessage& message, std::string_view store) noexcept {
  log(LogLevel::warning, "no handler for topic", HandlerContext(message, {.store = store}),
      nullptr);
  try {
    std::string error = "no handler for topic " + message.message.topic.str();
    const std::string kind = "no handler";
    if (no_handler_ == NoHandlerPolicy::fail) return Fail{std::move(error), kind};
    return retry(message, std::move(error), kind);
  } catch (...) {
    return Abandon{};
  }
}

std::optional<Verdict> HandlerCalls::bury(const ClaimedMessage& message,
                                          std::string_view store) noexcept {
  const int lapses = message.history.lapses;
  if (!max_deliveries_ || lapses == 0) return std::nullopt;
  if (message.history.attempt + lapses < *max_deliveries_) return std::nullopt;
  log(LogLevel::error, "lease expired too often, message is dead",
      HandlerContext(message, {.store = store}), nullptr);
  try {
    return Fail{.error = fmt::format("lease expired {} times", lapses), .untried = true};
  } catch (...) {
    return std::nullopt;
  }
}

void HandlerCalls::log(LogLevel level, std::string_view text, const HandlerContext& context,
                       const Failure* failure) noexcept {
  const ClaimedMessage& claimed = context.message();
  const detail::MessageLine line{level, text, context.store(), claimed.message};
  const LogField attempt("attempt", claimed.history.attempt + 1);
  if (failure == nullptr) return detail::write_line(logger_, line, {attempt});
  detail::write_line(logger_, line, {attempt}, {{"type", failure->type}, {"error", failure->text}});
}

// Quick, and good enough to spread retries.
std::uint64_t HandlerCalls::entropy() noexcept {
  return detail::mixed(entropy_state_.fetch_add(0x9e3779b97f4a7c15U, std::memory_order_relaxed));
}

}  // namespace oncebox::dispatcher
