#pragma once

#include <algorithm>
#include <chrono>

#include "oncebox/clock.hpp"

namespace oncebox::detail {

/// Measures how much time has passed, by the wall or the steady time of a clock, whichever says
/// more: a wall clock that is set back must cost no lease, and a `FakeClock` moves only the wall
/// time. A value: its owner guards it.
class Stopwatch {
 public:
  /// Starts it. The clock is borrowed.
  explicit Stopwatch(const Clock& clock) : clock_(&clock) { restart(); }

  [[nodiscard]] Duration elapsed() const {
    return std::max(std::chrono::floor<Duration>(clock_->steady() - steady_start_),
                    clock_->now() - start_);
  }
  void restart() {
    start_ = clock_->now();
    steady_start_ = clock_->steady();
  }
  /// When this much will have passed, if the wall clock keeps step.
  [[nodiscard]] SteadyTime at(Duration elapsed) const { return steady_start_ + elapsed; }

 private:
  const Clock* clock_;
  TimePoint start_;
  SteadyTime steady_start_;
};

}  // namespace oncebox::detail
