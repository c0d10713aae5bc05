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

  explicit FakeClock(TimePoint start = kDefaultStart) : millis_(start.time_since_epoch().count()) {}

  [[nodiscard]] TimePoint now() const override { return TimePoint{Duration{millis_.load()}}; }

  void advance(Duration by) { millis_ += by.count(); }
  void set(TimePoint now) { millis_ = now.time_since_epoch().count(); }

 private:
  std::atomic<Duration::rep> millis_;  // since the epoch
};

}  // namespace oncebox::testing
