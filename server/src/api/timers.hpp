#pragma once

#include <functional>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/engine/store_calls.hpp"

namespace oncebox::server {

/// Calls back at given times, on a thread of its own, which no store can hold up. Every call but
/// the destructor is safe from any thread.
class Timers {
 public:
  /// `want_at` sets it and `unwant` cancels it, both without memory; the callback may be running
  /// by then. It goes with this object.
  using Timer = engine::StoreCalls::Lane;

  /// The clock is borrowed.
  explicit Timers(const Clock& clock)
      : calls_({.limits = {.per_server = 1}, .threads = 1, .threads_kept = 1}, clock) {}

  /// The callback must not block. When it throws it is called again a second later.
  [[nodiscard]] Timer add(std::function<void()> callback) {
    return calls_.add({.server = {}, .run = [callback = std::move(callback)](engine::CallKind) {
                         callback();
                         return engine::CallEnded{};
                       }});
  }

  /// Cancels all timers, and waits for a callback that is running. Must not be called by one.
  void stop() {
    calls_.drop();
    calls_.stop();
  }

 private:
  engine::StoreCalls calls_;
};

}  // namespace oncebox::server
