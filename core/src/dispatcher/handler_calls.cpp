#include "dispatcher/handler_calls.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "oncebox/limits.hpp"

namespace oncebox::dispatcher {

/// What a handler threw.
struct HandlerCalls::Failure {
  enum class Kind { transient, permanent, interrupted };

  Kind kind = Kind::transient;
  std::string type;
  std::string text;
  std::optional<Duration> delay = {};  ///< what the handler asks for
};

namespace {

// The name of the type that is being handled by a catch clause.
std::string current_exception_type() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "unknown";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), std::free);
  return name != nullptr ? name.get() : type->name();
}

}  // namespace

HandlerCalls::HandlerCalls(const RetryPolicies& retries, NoHandlerPolicy no_handler, Logger& logger,
                           const std::string& store_name)
    : retries_(retries),
      no_handler_(no_handler),
      logger_(logger),
      store_name_(store_name),
      entropy_state_(std::random_device{}()) {}

Verdict HandlerCalls::call(Handler& handler, const ClaimedMessage& message,
                           HandlerContext& context) noexcept {
  if (logger_.enabled(LogLevel::info)) log(LogLevel::info, "handler called", message, nullptr);
  using Kind = Failure::Kind;
  try {
    Failure failure;
    try {
      handler.handle(message, context);
      return Ack{};
    } catch (const PermanentFailure& permanent) {
      failure = {Kind::permanent, current_exception_type(), permanent.what()};
    } catch (const RetryAfter& retry) {
      failure = {Kind::transient, current_exception_type(), retry.what(), retry.delay()};
    } catch (const std::exception& other) {
      const bool stopped = context.stop_token().stop_requested();
      failure = {stopped ? Kind::interrupted : Kind::transient, current_exception_type(),
                 other.what()};
    } catch (...) {
      const bool stopped = context.stop_token().stop_requested();
      failure = {stopped ? Kind::interrupted : Kind::transient, current_exception_type(),
                 "an exception that is not a std::exception"};
    }
    return verdict_of(failure, message);
  } catch (...) {
    // No memory even to say what went wrong.
    return Abandon{};
  }
}

Verdict HandlerCalls::verdict_of(const Failure& failure, const ClaimedMessage& message) {
  using Kind = Failure::Kind;
  if (failure.kind == Kind::interrupted) {
    log(LogLevel::warning, "handler interrupted, message released", message, &failure);
    return Release{};
  }
  std::string error = clip_text(failure.text, limits::kMaxErrorBytes);
  if (error.empty()) error = failure.type;
  if (failure.kind == Kind::permanent) {
    log(LogLevel::error, "handler failed for good, message is dead", message, &failure);
    return Fail{std::move(error)};
  }
  const RetryPolicy& policy = retries_.for_topic(message.message.topic);
  const std::optional<Duration> delay = policy.after_failure(message.history.attempt, entropy());
  if (!delay) {
    log(LogLevel::error, "handler failed for the last time, message is dead", message, &failure);
    return Fail{std::move(error)};
  }
  log(LogLevel::error, "handler failed", message, &failure);
  return Abandon{std::move(error), failure.delay.value_or(*delay)};
}

Verdict HandlerCalls::refuse(const ClaimedMessage& message) noexcept {
  log(LogLevel::warning, "no handler for topic", message, nullptr);
  try {
    const std::string error = "no handler for topic " + message.message.topic.str();
    if (no_handler_ == NoHandlerPolicy::fail) return Fail{error};
    const RetryPolicy& policy = retries_.for_topic(message.message.topic);
    const auto delay = policy.after_failure(message.history.attempt, entropy());
    if (!delay) return Fail{error};
    return Abandon{error, delay};
  } catch (...) {
    return Abandon{};
  }
}

void HandlerCalls::log(LogLevel level, std::string_view text, const ClaimedMessage& claimed,
                       const Failure* failure) noexcept {
  if (!logger_.enabled(level)) return;
  const Message& message = claimed.message;
  try {
    std::vector<LogField> fields{{"store", store_name_},
                                 {"topic", message.topic},
                                 {"source", message.key.source},
                                 {"message_id", message.key.message_id},
                                 {"attempt", claimed.history.attempt + 1}};
    const auto add = [&](std::string_view name, std::optional<std::string_view> value) {
      if (value) fields.emplace_back(name, *value);
    };
    add("correlation_id", message.headers.correlation_id());
    add("causation_id", message.headers.causation_id());
    if (message.partition_key) fields.emplace_back("partition", *message.partition_key);
    if (failure != nullptr) {
      fields.emplace_back("type", failure->type);
      fields.emplace_back("error", failure->text);
    }
    logger_.write(level, text, fields);
  } catch (const std::bad_alloc&) {
    // A line is not worth a verdict.
  }
}

// splitmix64: quick, and good enough to spread retries.
std::uint64_t HandlerCalls::entropy() noexcept {
  std::uint64_t x = entropy_state_.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace oncebox::dispatcher
