#include "api/timer_queue.hpp"

namespace oncebox::server {

TimerQueue::TimerQueue() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

TimerQueue::Timer TimerQueue::at(SteadyTime time, std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return {};
  const Timer timer{time, ++last_id_};
  const auto added = timers_.emplace(timer, std::move(callback)).first;
  if (added == timers_.begin()) earlier_.notify_all();
  return timer;
}

void TimerQueue::cancel(const Timer& timer) noexcept {
  Timers::node_type dropped;  // what it holds may call back when it goes
  const std::lock_guard lock(mutex_);
  dropped = timers_.extract(timer);
}

void TimerQueue::stop() {
  Timers dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(timers_);
  }
  const std::lock_guard lock(joining_);
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void TimerQueue::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (timers_.empty()) {
      earlier_.wait(lock, stop, [this] { return !timers_.empty(); });
      continue;
    }
    const Timer first = timers_.begin()->first;
    if (std::chrono::steady_clock::now() < first.at) {
      earlier_.wait_until(lock, stop, first.at,
                          [&] { return timers_.empty() || timers_.begin()->first < first; });
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
