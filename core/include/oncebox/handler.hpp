#pragma once

#include <atomic>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/message.hpp"

namespace oncebox {

/// Thrown by a handler when no retry can help: the message is dead at once, with this text. The
/// text is stored and logged: it must not contain the payload.
class PermanentFailure : public std::runtime_error {
 public:
  explicit PermanentFailure(const std::string& reason) : std::runtime_error(reason) {}
};

/// Thrown by a handler that knows when to try again. Counts as a failed attempt like any other: the
/// last one that the topic's policy allows leaves the message dead.
class RetryAfter : public std::runtime_error {
 public:
  /// The delay is brought into the range that stores accept: one millisecond to a year.
  RetryAfter(Duration delay, const std::string& reason);

  [[nodiscard]] Duration delay() const noexcept { return delay_; }

 private:
  Duration delay_;
};

/// What a handler can ask while it runs. Valid only during the call; safe to ask from any thread.
class HandlerContext {
 public:
  /// Both are borrowed. A test of a handler makes its own context: `HandlerContext(message, {})`.
  HandlerContext(const ClaimedMessage& message, std::stop_token stop,
                 const std::atomic<bool>* lease_lost = nullptr)
      : message_(message), stop_(std::move(stop)), lease_lost_(lease_lost) {}

  /// The whole message, also for a handler that was given only its decoded payload.
  [[nodiscard]] const ClaimedMessage& message() const noexcept { return message_; }

  /// Requested when the dispatcher has waited long enough while it stops, and when the lease was
  /// lost. A handler that takes long should look at it and throw anything but `PermanentFailure`
  /// and `RetryAfter`: the message is then released without counting an attempt. One that returns
  /// has handled its message, however late.
  [[nodiscard]] const std::stop_token& stop_token() const noexcept { return stop_; }

  /// Somebody else may be handling this message now; what this handler answers will have no effect.
  /// Leases are extended while a handler runs, so this takes an unreachable store or a stalled
  /// process.
  [[nodiscard]] bool lease_lost() const noexcept {
    return lease_lost_ != nullptr && lease_lost_->load(std::memory_order_relaxed);
  }

 private:
  const ClaimedMessage& message_;
  std::stop_token stop_;
  const std::atomic<bool>* lease_lost_;
};

/// Handles the messages of one or more topics.
///
/// Returning means that the message is done. `PermanentFailure` means that it is dead, `RetryAfter`
/// and any other exception that it is tried again by the retry policy of its topic. The text of the
/// exception is stored with the message and logged.
///
/// Called from several threads at once, but never for one message by two threads of a process. A
/// message may come again after its handler has run, when the process dies before that is recorded:
/// handlers are idempotent, or record their effects in the same transaction.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void handle(const ClaimedMessage& message, HandlerContext& context) = 0;
};

}  // namespace oncebox
