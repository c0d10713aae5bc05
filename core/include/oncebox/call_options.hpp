#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <stop_token>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/error.hpp"

namespace oncebox {

/// How long a call may take, and what ends it before. Every call of `QueueStore`, `QueueOperator`,
/// `IdempotencyStore`, `PolicyStore`, `EndpointStore` and `AuditTrail`, and every one of `Inbox`
/// and `Outbox` that waits, takes one as its last argument. Without one a call has the time-outs of
/// its store, which always hold.
///
///     inbox.enqueue(message, CallOptions::within(200ms));
///     store->inbox().claim(request, {.stop = stopping.get_token()});
///
/// **What is thrown.** `timeout` when the deadline has come, `cancelled` when a stop was requested;
/// with either of them nothing has changed. `outcome_unknown` when the store may have changed
/// already and its answer is not waited for: repeating the call is safe.
///
/// **What it does not do.** A call whose limit is over before it begins never reaches the store. A
/// call that has succeeded does not fail because of a limit: its answer may come a moment late. A
/// claim or reap that has handed out messages before its limit answers those.
///
/// **How soon.** Waiting for a turn, a lock or a connection ends at once. A database is asked to
/// give up the statement that it works on, which takes it some milliseconds; one that does not
/// answer any more is left after half a second. A flush of a SQLite file that the caller's own
/// thread, or its transaction, has begun cannot be interrupted.
struct CallOptions {
  /// A real time, of the machine's own steady clock: it is handed to databases and sockets.
  std::optional<SteadyTime> deadline = {};
  std::stop_token stop = {};

  /// That long from now.
  [[nodiscard]] static CallOptions within(Duration time, std::stop_token stop = {}) {
    const SteadyTime now = SystemClock::shared().steady();
    const bool is_for_ever = time >= std::chrono::floor<Duration>(SteadyTime::max() - now);
    return {.deadline = is_for_ever ? SteadyTime::max() : now + time, .stop = std::move(stop)};
  }

  [[nodiscard]] bool is_limited() const noexcept { return deadline || stop.stop_possible(); }
  [[nodiscard]] bool is_over() const noexcept {
    return stop.stop_requested() || (deadline && SystemClock::shared().steady() >= *deadline);
  }
  /// The deadline, unless `other` comes before it.
  [[nodiscard]] SteadyTime deadline_or(SteadyTime other) const noexcept {
    return deadline ? std::min(*deadline, other) : other;
  }
  /// For a call that has changed nothing: throws `cancelled` or `timeout` when it is over.
  void throw_if_over() const {
    if (is_over()) throw error();
  }
  /// What it throws once it is over.
  [[nodiscard]] Error error() const;
};

}  // namespace oncebox
