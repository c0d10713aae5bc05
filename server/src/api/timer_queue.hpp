#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <thread>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::server {

/// Calls back at given times, on a thread of its own. Callbacks must neither block nor throw.
/// Every call but the destructor is safe from any thread.
class TimerQueue {
 public:
  struct Timer {
    SteadyTime at{};
    std::uint64_t id = 0;  ///< 0: none

    friend auto operator<=>(const Timer&, const Timer&) = default;
  };

  /// The clock is borrowed.
  explicit TimerQueue(const Clock& clock);
  /// Stops, as `stop` does.
  ~TimerQueue() = default;
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  /// After `stop` the callback is dropped.
  Timer at(SteadyTime time, std::function<void()> callback);

  /// The callback may be running, or may have run already.
  void cancel(const Timer& timer) noexcept;

  /// Drops all timers, and waits for a callback that is running. Must not be called by one.
  void stop();

 private:
  using Timers = std::map<Timer, std::function<void()>>;

  void run(const std::stop_token& stop);

  const Clock& clock_;
  detail::Mutex mutex_;
  detail::TimedCondition earlier_{clock_};
  Timers timers_ ONCEBOX_GUARDED_BY(mutex_);
  std::uint64_t last_id_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  bool stopped_ ONCEBOX_GUARDED_BY(mutex_) = false;
  detail::Mutex joining_;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace oncebox::server
