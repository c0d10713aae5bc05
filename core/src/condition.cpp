#include "oncebox/detail/condition.hpp"

namespace oncebox::detail {

TimedCondition::TimedCondition(const Clock& clock)
    : clock_(clock), gate_(clock.moves() == nullptr ? nullptr : std::make_shared<Gate>()) {
  if (gate_) clock.moves()->add(gate_);
}

TimedCondition::~TimedCondition() = default;

bool TimedCondition::wait_until(Mutex& mutex, SteadyTime time) {
  if (!gate_) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    if (time == SteadyTime::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, time);
    }
    lock.release();
  } else {
    std::unique_lock gate(gate_->mutex);
    if (clock_.steady() >= time) return false;
    mutex.mutex_.unlock();
    gate_->moved.wait(gate);
    gate.unlock();
    mutex.mutex_.lock();
  }
  return clock_.steady() < time;
}

void TimedCondition::notify_one() noexcept {
  if (gate_) return gate_->on_moved();
  changed_.notify_one();
}

void TimedCondition::notify_all() noexcept {
  if (gate_) return gate_->on_moved();
  changed_.notify_all();
}

void TimedCondition::Gate::on_moved() noexcept {
  {
    const std::lock_guard lock(mutex);
  }
  moved.notify_all();
}

void pause_until(const Clock& clock, SteadyTime time) {
  Mutex mutex;
  TimedCondition nothing(clock);
  const Lock lock(mutex);
  while (nothing.wait_until(mutex, time)) continue;
}

NotifyOnStop::NotifyOnStop(const std::stop_token& stop, Mutex& mutex, TimedCondition& condition)
    : notify_(stop, [&mutex, &condition] {
        {
          const Lock lock(mutex);
        }
        condition.notify_all();
      }) {}

}  // namespace oncebox::detail
