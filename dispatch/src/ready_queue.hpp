#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "ready_messages.hpp"

namespace oncebox::dispatcher {

/// The buffer between the claim loop and the workers: first in, first out, bounded. Taking one
/// costs a compare-and-swap while there are any; a lock is taken only by a thread that puts some in
/// and by a worker that has to wait. Safe from any thread.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): it keeps head and tail apart.
class ReadyQueue final : public ReadyMessages {
 public:
  explicit ReadyQueue(std::size_t capacity);

  [[nodiscard]] std::size_t size() const noexcept override;
  bool push(std::span<InFlight* const> messages) override;
  InFlight* try_pop() noexcept override;
  InFlight* pop(const std::function<void()>& on_wait) override;
  std::vector<InFlight*> extract(const std::function<bool(const InFlight&)>& chosen) override;
  std::vector<InFlight*> close() noexcept override;

  /// How many workers wait in `pop` and have nothing to wake up for yet.
  [[nodiscard]] std::size_t idle() const;

 private:
  void push_locked(std::span<InFlight* const> messages) noexcept ONCEBOX_REQUIRES(mutex_);

  mutable detail::Mutex mutex_;
  detail::Condition filled_;
  std::size_t waiting_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  bool closed_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::vector<InFlight*> rest_ ONCEBOX_GUARDED_BY(mutex_);  // room for all of them, for `close`
  // Read without the lock, written under it. Positions grow for ever. A slot is written again only
  // after `head_` has passed it, so a reader that was too slow fails to move `head_` and never uses
  // what it read.
  std::vector<std::atomic<InFlight*>> slots_;
  // Apart, because workers write the one and the claim loop the other.
  alignas(64) std::atomic<std::uint64_t> head_ = 0;
  alignas(64) std::atomic<std::uint64_t> tail_ = 0;
};

}  // namespace oncebox::dispatcher
