#include "oncebox/driver/work_listener.hpp"

#include <utility>

#include "oncebox/driver/call_scope.hpp"

namespace oncebox {

void WorkListeners::add(std::weak_ptr<WorkListener> listener) {
  const detail::Lock lock(mutex_);
  auto listeners = std::make_shared<List>();
  for (const std::weak_ptr<WorkListener>& known : *listeners_) {
    if (!known.expired()) listeners->push_back(known);
  }
  listeners->push_back(std::move(listener));
  listeners_ = std::move(listeners);
}

void WorkListeners::notify() const noexcept {
  std::shared_ptr<const List> listeners;
  {
    const detail::Lock lock(mutex_);
    listeners = listeners_;
  }
  const LimitsOf nobody;
  for (const std::weak_ptr<WorkListener>& listener : *listeners) {
    if (const auto alive = listener.lock()) alive->on_work();
  }
}

}  // namespace oncebox
