#pragma once

#include <atomic>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/message.hpp"
#include "oncebox/transaction.hpp"

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

/// Thrown by a handler that did not try, because something that it needs is busy or away: the
/// message is released, and comes back after the delay. Counts no attempt, so the message does not
/// end by it; throw `RetryAfter` where it should.
class NotNow : public std::runtime_error {
 public:
  /// The delay is brought into the range that stores accept: one millisecond to a year.
  NotNow(Duration delay, const std::string& reason);

  [[nodiscard]] Duration delay() const noexcept { return delay_; }

 private:
  Duration delay_;
};

/// An exception of a handler that says itself what kind of failure it is derives from this as well.
/// Its word is kept with the attempt and logged; of others it is the name of their type.
class NamesErrorKind {
 public:
  virtual ~NamesErrorKind() = default;
  /// A short word without payload or secret, such as "timeout".
  [[nodiscard]] virtual std::string error_kind() const = 0;
};

/// What a dispatcher knows of one call of a handler. All are borrowed.
struct HandlerCall {
  std::stop_token stop = {};
  const std::atomic<bool>* lease_lost = nullptr;  ///< null: it is not
  std::string_view store = {};
  bool is_last_attempt = false;
};

/// What a handler can ask while it runs. Valid only during the call; safe to ask from any thread.
class HandlerContext {
 public:
  /// A test of a handler makes its own context: `HandlerContext(message)`, or
  /// `HandlerContext(message, {.is_last_attempt = true})`.
  explicit HandlerContext(const ClaimedMessage& message, HandlerCall call = {})
      : message_(message), call_(std::move(call)) {}

  /// The whole message, also for a handler that was given only its decoded payload.
  [[nodiscard]] const ClaimedMessage& message() const noexcept { return message_; }

  /// The name of the store that the message came from: of the dispatcher's queue, or of the one
  /// among many that a `SetDispatcher` works for.
  [[nodiscard]] std::string_view store() const noexcept { return call_.store; }

  /// Requested when the dispatcher has waited long enough while it stops, and when the lease was
  /// lost. A handler that takes long should look at it and throw anything but `PermanentFailure`
  /// and `RetryAfter`: the message is then released without counting an attempt. One that returns
  /// has handled its message, however late.
  [[nodiscard]] const std::stop_token& stop_token() const noexcept { return call_.stop; }

  /// Somebody else may be handling this message now; what this handler answers will have no effect.
  /// Leases are extended while a handler runs, so this takes an unreachable store or a stalled
  /// process.
  [[nodiscard]] bool lease_lost() const noexcept {
    return call_.lease_lost != nullptr && call_.lease_lost->load(std::memory_order_relaxed);
  }

  /// Whether a failure of this call leaves the message dead: by the limit of the handler or of
  /// `DispatcherOptions::retries`, otherwise by the store's limit at the time of the claim. A
  /// change of the store's rules meanwhile is not seen. False when a server that is older than
  /// this library does not tell its limit. A `NotNow`, or an interruption, is no failure.
  [[nodiscard]] bool is_last_attempt() const noexcept { return call_.is_last_attempt; }

 private:
  const ClaimedMessage& message_;
  HandlerCall call_;
};

/// Handles the messages of one or more topics.
///
/// Returning means that the message is done. `PermanentFailure` means that it is dead, `NotNow`
/// that it was not tried, `RetryAfter` and any other exception that it is tried again by the retry
/// policy of its topic. The text of a failure is stored with the message and logged.
///
/// Called from several threads at once, but never for one message by two threads of a process. A
/// message may come again after its handler has run, when the process dies before that is recorded:
/// handlers are idempotent, or record their effects in the same transaction.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void handle(const ClaimedMessage& message, HandlerContext& context) = 0;
};

/// Handles messages inside a transaction of their store: what it writes through the transaction's
/// connection, what it enqueues there and the end of the delivery are committed together. When it
/// throws, everything is rolled back, and the failure is recorded as that of a `Handler`.
///
/// As a `Handler`, with these differences. It may run again at once when the transaction loses
/// against another one, and on another thread than before. It must neither end the transaction nor
/// call the store but through it. On SQLite it keeps everybody else from writing while it runs: it
/// should be short, and wait for nothing.
class TransactionalHandler {
 public:
  virtual ~TransactionalHandler() = default;
  virtual void handle(const ClaimedMessage& message, Transaction& transaction,
                      HandlerContext& context) = 0;
};

}  // namespace oncebox
