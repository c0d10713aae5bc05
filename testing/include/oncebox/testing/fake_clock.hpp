#pragma once

#include <atomic>
#include <chrono>

#include "oncebox/clock.hpp"

namespace oncebox::testing {

/// A clock that stands still until it is told to move. Safe to use from any thread.
class FakeClock final : public Clock {
 public:
  static constexpr TimePoint kDefaultStart{
      std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}.time_since_epoch()};

  explicit FakeClock(TimePoint start = kDefaultStart) : now_(start) {}

  [[nodiscard]] TimePoint now() const override { return now_.load(); }

  void advance(Duration by) { now_.store(now_.load() + by); }
  void set(TimePoint now) { now_.store(now); }

 private:
  std::atomic<TimePoint> now_;
};

}  // namespace oncebox::testing
