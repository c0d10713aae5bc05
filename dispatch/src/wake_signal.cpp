#include "wake_signal.hpp"

namespace oncebox::dispatcher {

void WakeSignal::raise(Reasons reasons) noexcept {
  const Reasons before = raised_.fetch_or(reasons);
  const bool was_raised = (before & reasons) == reasons;  // that `raise` has woken the waiter
  if (was_raised || !waiting_.load()) return;
  {
    const detail::Lock lock(mutex_);
  }
  changed_.notify_one();
}

WakeSignal::Reasons WakeSignal::wait_until(Reasons wanted, SteadyTime deadline) {
  Reasons taken = take(wanted);
  if (taken != 0) return taken;

  const detail::Lock lock(mutex_);
  waiting_.store(true);
  bool in_time = true;
  while ((taken = take(wanted)) == 0 && in_time) in_time = changed_.wait_until(mutex_, deadline);
  waiting_.store(false);
  return taken;
}

}  // namespace oncebox::dispatcher
