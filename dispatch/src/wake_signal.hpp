#pragma once

#include <atomic>

#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::dispatcher {

/// Wakes the one thread that waits on it, for one or more reasons. A reason that is raised while
/// the thread does not wait for it is kept until it does. Raising costs an atomic operation when
/// the thread does not wait.
class WakeSignal {
 public:
  using Reasons = unsigned;

  /// The clock is borrowed, and not used by `raise`.
  explicit WakeSignal(const Clock& clock) : changed_(clock) {}

  void raise(Reasons reasons) noexcept;

  /// Takes back and answers those of `wanted` that were raised; 0 when the deadline passed first.
  Reasons wait_until(Reasons wanted, SteadyTime deadline);
  Reasons wait(Reasons wanted) { return wait_until(wanted, SteadyTime::max()); }

 private:
  Reasons take(Reasons wanted) noexcept { return raised_.fetch_and(~wanted) & wanted; }

  std::atomic<Reasons> raised_ = 0;
  std::atomic<bool> waiting_ = false;
  detail::Mutex mutex_;  // held by the waiter from its last look at the reasons until it sleeps
  detail::TimedCondition changed_;
};

}  // namespace oncebox::dispatcher
