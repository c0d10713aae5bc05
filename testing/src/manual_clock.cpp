#include "oncebox/testing/manual_clock.hpp"

namespace oncebox::testing {

void ManualClock::advance(Duration by) {
  now_ += by.count();
  steady_ += by.count();
  std::vector<std::shared_ptr<Listener>> listeners;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : listeners_) {
      if (auto listener = weak.lock()) listeners.push_back(std::move(listener));
    }
  }
  for (const auto& listener : listeners) listener->on_moved();
}

void ManualClock::add(const std::shared_ptr<Listener>& listener) {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [](const auto& known) { return known.expired(); });
  listeners_.push_back(listener);
}

}  // namespace oncebox::testing
