#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace oncebox::dispatcher {

using SteadyTime = std::chrono::steady_clock::time_point;

/// Wakes the one thread that waits on it, for one or more reasons. A reason that is raised while
/// nobody waits for it is kept until somebody does. Raising costs an atomic operation when nobody
/// waits.
class WakeSignal {
 public:
  using Reasons = unsigned;

  void raise(Reasons reasons) noexcept;

  /// Takes back and answers those of `wanted` that were raised; 0 when the deadline passed first.
  Reasons wait_until(Reasons wanted, SteadyTime deadline);
  Reasons wait(Reasons wanted) { return wait_until(wanted, SteadyTime::max()); }

 private:
  std::atomic<Reasons> raised_ = 0;
  std::atomic<bool> waiting_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace oncebox::dispatcher
