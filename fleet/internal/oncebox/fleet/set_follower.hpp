#pragma once

#include <functional>
#include <utility>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/fleet/store_set.hpp"

namespace oncebox {

/// Passes on what sets tell, until it is closed. A set may be telling while its listener's owner
/// ends: `close` waits for that, and after it the owner and what it borrows are not used any more.
class SetFollower final : public StoreSetListener {
 public:
  /// They must not throw, and must not close this object.
  struct Calls {
    std::function<void(const MemberStorePtr&)> on_opened;
    std::function<void(const MemberStorePtr&)> on_removed;
  };

  explicit SetFollower(Calls calls) : calls_(std::move(calls)) {}

  void on_opened(const MemberStorePtr& member) noexcept override {
    const detail::Lock lock(mutex_);
    if (!closed_) calls_.on_opened(member);
  }
  void on_removed(const MemberStorePtr& member) noexcept override {
    const detail::Lock lock(mutex_);
    if (!closed_) calls_.on_removed(member);
  }

  void close() noexcept {
    const detail::Lock lock(mutex_);
    closed_ = true;
  }

 private:
  const Calls calls_;
  detail::Mutex mutex_;
  bool closed_ ONCEBOX_GUARDED_BY(mutex_) = false;
};

}  // namespace oncebox
