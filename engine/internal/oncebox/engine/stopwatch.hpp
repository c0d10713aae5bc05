#pragma once

#include <chrono>

#include "oncebox/clock.hpp"

namespace oncebox::detail {

/// Measures how much time has passed, by the injected clock or by the machine's steady one,
/// whichever says more: a clock that is set back must cost no lease, and a test moves only the
/// injected one.
class Stopwatch {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  explicit Stopwatch(const Clock& clock);

  [[nodiscard]] Duration elapsed() const;
  void restart();
  /// When this much will have passed, if the injected clock keeps step.
  [[nodiscard]] SteadyTime at(Duration elapsed) const { return steady_start_ + elapsed; }

 private:
  const Clock& clock_;
  TimePoint start_;
  SteadyTime steady_start_;
};

}  // namespace oncebox::detail
