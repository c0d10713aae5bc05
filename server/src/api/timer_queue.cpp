#include "api/timer_queue.hpp"

namespace oncebox::server {

TimerQueue::TimerQueue(const Clock& clock)
    : clock_(clock), thread_([this](const std::stop_token& stop) { run(stop); }) {}

TimerQueue::Timer TimerQueue::at(SteadyTime time, std::function<void()> callback) {
  const detail::Lock lock(mutex_);
  if (stopped_) return {};
  const Timer timer{time, ++last_id_};
  const auto added = timers_.emplace(timer, std::move(callback)).first;
  if (added == timers_.begin()) earlier_.notify_all();
  return timer;
}

void TimerQueue::cancel(const Timer& timer) noexcept {
  Timers::node_type dropped;  // what it holds may call back when it goes
  const detail::Lock lock(mutex_);
  dropped = timers_.extract(timer);
}

void TimerQueue::stop() {
  Timers dropped;
  {
    const detail::Lock lock(mutex_);
    stopped_ = true;
    dropped.swap(timers_);
  }
  const detail::Lock lock(joining_);
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void TimerQueue::run(const std::stop_token& stop) {
  const detail::NotifyOnStop notify(stop, mutex_, earlier_);
  detail::Lock lock(mutex_);
  while (!stop.stop_requested()) {
    const SteadyTime first = timers_.empty() ? SteadyTime::max() : timers_.begin()->first.at;
    if (clock_.steady() < first) {
      earlier_.wait_until(mutex_, first);
      continue;
    }
    Timers::node_type due = timers_.extract(timers_.begin());
    lock.unlock();
    due.mapped()();
    due = {};
    lock.lock();
  }
}

}  // namespace oncebox::server
