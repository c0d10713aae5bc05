#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace oncebox::server {

using SteadyTime = std::chrono::steady_clock::time_point;

/// Calls back at given times, on a thread of its own. Callbacks must neither block nor throw.
/// Every call but the destructor is safe from any thread.
class TimerQueue {
 public:
  struct Timer {
    SteadyTime at{};
    std::uint64_t id = 0;  ///< 0: none

    friend auto operator<=>(const Timer&, const Timer&) = default;
  };

  TimerQueue();
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

  std::mutex mutex_;
  std::condition_variable_any earlier_;
  Timers timers_;
  std::uint64_t last_id_ = 0;
  bool stopped_ = false;
  std::mutex joining_;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace oncebox::server
