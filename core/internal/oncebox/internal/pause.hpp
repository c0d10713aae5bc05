#pragma once

#include <stop_token>

#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::detail {

/// Lets the thread that owns it rest between two tries, by the steady time of a clock.
class Pause {
 public:
  /// The clock is borrowed.
  explicit Pause(const Clock& clock) : clock_(clock), changed_(clock) {}

  /// Returns when the time has passed, or at once when a stop is requested.
  void wait(const std::stop_token& stop, Duration time) {
    const SteadyTime until = clock_.steady() + time;
    // The callback takes the lock: a stop is seen by the loop below, or wakes the thread.
    const std::stop_callback wake(stop, [this] {
      {
        const Lock lock(mutex_);
      }
      changed_.notify_all();
    });
    const Lock lock(mutex_);
    while (!stop.stop_requested() && changed_.wait_until(mutex_, until)) continue;
  }

 private:
  const Clock& clock_;
  Mutex mutex_;
  TimedCondition changed_;
};

}  // namespace oncebox::detail
