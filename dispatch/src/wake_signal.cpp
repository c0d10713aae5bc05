#include "wake_signal.hpp"

namespace oncebox::dispatcher {

void WakeSignal::raise(Reasons reasons) noexcept {
  const Reasons before = raised_.fetch_or(reasons);
  const bool was_raised = (before & reasons) == reasons;  // and its raiser has seen to the waking
  if (was_raised || !waiting_.load()) return;
  {
    // The waiter holds the lock from its last look at the reasons until it sleeps.
    const std::lock_guard lock(mutex_);
  }
  changed_.notify_one();
}

WakeSignal::Reasons WakeSignal::wait_until(Reasons wanted, SteadyTime deadline) {
  const auto take = [&] { return raised_.fetch_and(~wanted) & wanted; };
  if (const Reasons taken = take(); taken != 0) return taken;

  std::unique_lock lock(mutex_);
  waiting_.store(true);
  Reasons taken = 0;
  const auto woken = [&] { return (taken = take()) != 0; };
  if (deadline == SteadyTime::max()) {
    changed_.wait(lock, woken);
  } else {
    changed_.wait_until(lock, deadline, woken);
  }
  waiting_.store(false);
  return taken;
}

}  // namespace oncebox::dispatcher
