#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace oncebox {

/// Lets go of things on a thread of its own, which is there while there are any. Who is the last to
/// hold a store closes it, and an inbox commits what it has taken: both may hang as long as the
/// database does, which must not hold up who only wants to be rid of them. Safe from any thread.
class Closing {
 public:
  Closing() = default;
  /// Waits until everything is let go.
  ~Closing() = default;
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

  /// Without memory it is closed right here.
  void let_go(std::shared_ptr<void> thing) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      things_.push_back(std::move(thing));
      if (is_running_) return;
      // The one before has left the lock for good: it is joined at once.
      thread_ = std::jthread([this] { run(); });
      is_running_ = true;
    } catch (const std::exception&) {
      // What was noted, the next one takes along, or the end.
    }
  }

 private:
  void run() {
    for (;;) {
      std::shared_ptr<void> thing;
      {
        const std::lock_guard lock(mutex_);
        if (things_.empty()) {
          is_running_ = false;
          return;
        }
        thing = std::move(things_.front());
        things_.pop_front();
      }
    }
  }

  std::mutex mutex_;
  std::deque<std::shared_ptr<void>> things_;
  bool is_running_ = false;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace oncebox
