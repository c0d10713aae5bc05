#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"

namespace oncebox::memory {

/// The threads on which handlers work in transactions of one store now. Such a handler may change
/// the store through its transaction only, as on the other stores: a test in memory is to find the
/// call that would be refused in production.
class HandlerThreads {
 public:
  /// A handler works on this thread.
  class Scope {
   public:
    explicit Scope(HandlerThreads& threads) : threads_(threads) { threads_.add_this(); }
    ~Scope() { threads_.remove_this(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    HandlerThreads& threads_;
  };

  HandlerThreads() = default;

  /// Throws `conflict` on the thread of such a handler.
  void require_none_here() const {
    if (count_.load(std::memory_order_relaxed) == 0 || !is_this_one()) return;
    throw Error(ErrorCode::conflict,
                "a handler inside a transaction may change its store through the transaction only; "
                "pass the transaction to the call");
  }

 private:
  [[nodiscard]] bool is_this_one() const {
    const detail::Lock lock(mutex_);
    return std::ranges::find(threads_, std::this_thread::get_id()) != threads_.end();
  }
  void add_this() {
    const detail::Lock lock(mutex_);
    threads_.push_back(std::this_thread::get_id());
    count_.store(threads_.size(), std::memory_order_relaxed);
  }
  void remove_this() noexcept {
    const detail::Lock lock(mutex_);
    threads_.erase(std::ranges::find(threads_, std::this_thread::get_id()));
    count_.store(threads_.size(), std::memory_order_relaxed);
  }

  mutable detail::Mutex mutex_;
  std::vector<std::thread::id> threads_ ONCEBOX_GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_ = 0;  ///< a thread always sees its own entry in it
};

}  // namespace oncebox::memory
