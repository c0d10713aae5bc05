#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/testing/fake_clock.hpp"

namespace oncebox::testing {

/// A clock of which the steady time, too, stands still until it is told to move. Whoever waits with
/// it is woken when the time has come: so a test of a schedule moves time instead of waiting. What
/// is handed to a database, a socket or the operating system still takes real time. Safe to use
/// from any thread.
class ManualClock final : public Clock, private ClockMoves {
 public:
  explicit ManualClock(TimePoint start = FakeClock::kDefaultStart)
      : now_(start.time_since_epoch().count()) {}

  [[nodiscard]] TimePoint now() const override { return TimePoint{Duration{now_.load()}}; }
  [[nodiscard]] SteadyTime steady() const override {
    return SteadyTime{std::chrono::hours{1}} + Duration{steady_.load()};
  }
  [[nodiscard]] ClockMoves* moves() const noexcept override {
    return const_cast<ManualClock*>(this);
  }

  /// Moves both.
  void advance(Duration by);
  /// Sets the wall clock alone, forwards or back, as an operator may.
  void set(TimePoint now) { now_ = now.time_since_epoch().count(); }

 private:
  void add(const std::shared_ptr<Listener>& listener) override;

  std::atomic<Duration::rep> now_;         // since the epoch
  std::atomic<Duration::rep> steady_ = 0;  // since this object was made
  std::mutex mutex_;
  std::vector<std::weak_ptr<Listener>> listeners_;
};

}  // namespace oncebox::testing
