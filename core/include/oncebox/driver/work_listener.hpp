#pragma once

#include <memory>
#include <vector>

#include "oncebox/detail/mutex.hpp"

namespace oncebox {

/// Hears that a queue may have something to claim.
class WorkListener {
 public:
  virtual ~WorkListener() = default;

  /// Called from any thread, without a lock held, after a commit. Must return at once and must not
  /// call the store.
  virtual void on_work() noexcept = 0;
};

/// The listeners of one queue, for a store that notifies. A listener leaves by being destroyed.
/// Every call is safe from any thread.
class WorkListeners {
 public:
  void add(std::weak_ptr<WorkListener> listener);
  void notify() const noexcept;

 private:
  using List = std::vector<std::weak_ptr<WorkListener>>;

  mutable detail::Mutex mutex_;
  // Replaced as a whole, so that `notify` allocates nothing and calls listeners without the lock.
  std::shared_ptr<const List> listeners_ ONCEBOX_GUARDED_BY(mutex_) =
      std::make_shared<const List>();
};

}  // namespace oncebox
