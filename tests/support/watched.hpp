#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace oncebox {

/// How long a test waits for what must happen: never reached unless something is broken.
inline constexpr std::chrono::seconds kPatience{60};

/// Asks again and again, while other threads get on with their work; false when it never holds. For
/// changes that nobody tells of.
template <class Condition>
[[nodiscard]] bool eventually(Condition holds) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

/// A value that threads change and wait for.
template <class T>
class Watched {
 public:
  explicit Watched(T value = {}) : value_(std::move(value)) {}

  template <class Change>
  void change(Change apply) {
    // Under the lock, so that the thread that waits may end the value at once.
    const std::lock_guard lock(mutex_);
    apply(value_);
    changed_.notify_all();
  }

  /// Whether the condition came to hold.
  template <class Condition>
  [[nodiscard]] bool wait(Condition holds) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return holds(value_); });
  }
  [[nodiscard]] bool wait_for(const T& expected) const {
    return wait([&](const T& value) { return value == expected; });
  }

  [[nodiscard]] T get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  T value_;
};

}  // namespace oncebox
