#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>

#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::detail {

/// Lets threads wait for a change of what a mutex guards. There are no predicates: clang cannot
/// check what a lambda touches, so the caller loops. A wait may end without a reason.
class Condition {
 public:
  void wait(Mutex& mutex) ONCEBOX_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  void notify_one() noexcept { changed_.notify_one(); }
  void notify_all() noexcept { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

/// The same with a limit of time, by the steady time of a clock. With a clock that is moved by hand
/// (`Clock::moves`) a wait ends when the time is moved past its limit.
class TimedCondition {
 public:
  /// The clock is borrowed.
  explicit TimedCondition(const Clock& clock);
  ~TimedCondition();
  TimedCondition(const TimedCondition&) = delete;
  TimedCondition& operator=(const TimedCondition&) = delete;

  void wait(Mutex& mutex) ONCEBOX_REQUIRES(mutex) { wait_until(mutex, SteadyTime::max()); }
  /// False when the time has come, whatever else happened.
  bool wait_until(Mutex& mutex, SteadyTime time) ONCEBOX_REQUIRES(mutex);
  void notify_one() noexcept;
  void notify_all() noexcept;

 private:
  /// Where threads wait while time is moved by hand. A waiter holds its mutex from before it looks
  /// at the time until it sleeps, and a thread that moves the time or notifies takes it in between:
  /// so a waiter sees the change, or is woken.
  struct Gate final : ClockMoves::Listener {
    void on_moved() noexcept override;

    std::mutex mutex;
    std::condition_variable moved;
  };

  const Clock& clock_;
  std::condition_variable changed_;
  const std::shared_ptr<Gate> gate_;  // null where time moves by itself
};

/// Waits until the steady time of the clock is there.
void pause_until(const Clock& clock, SteadyTime time);

/// Wakes all threads that wait for a condition when a stop is requested. It takes the mutex first:
/// so a waiter has seen the stop, or sleeps and is woken. Therefore it is neither made nor
/// destroyed, and the stop not requested, by a thread that holds the mutex.
class NotifyOnStop {
 public:
  NotifyOnStop(const std::stop_token& stop, Mutex& mutex, TimedCondition& condition)
      ONCEBOX_EXCLUDES(mutex);

 private:
  std::stop_callback<std::function<void()>> notify_;
};

}  // namespace oncebox::detail
