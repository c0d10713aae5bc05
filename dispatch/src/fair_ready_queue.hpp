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

/// Hands messages out by their place in line, lower first, and by arrival where that is equal.
/// Counts for each origin how many wait.
class FairReadyQueue final : public ReadyMessages {
 public:
  explicit FairReadyQueue(std::size_t capacity);

  [[nodiscard]] std::size_t size() const noexcept override { return size_.load(); }
  bool push(std::span<InFlight* const> messages) override;
  InFlight* try_pop() noexcept override;
  InFlight* pop(const std::function<void()>& on_wait) override;
  std::vector<InFlight*> extract(const std::function<bool(const InFlight&)>& chosen) override;
  std::vector<InFlight*> close() noexcept override;

  /// The place of the one that was taken last; never goes back.
  [[nodiscard]] double served() const noexcept { return served_.load(); }

 private:
  struct Waiting {
    double place;
    std::uint64_t arrival;
    InFlight* message;
  };
  static bool is_behind(const Waiting& a, const Waiting& b) noexcept;
  InFlight* pop_locked() noexcept ONCEBOX_REQUIRES(mutex_);

  detail::Mutex mutex_;
  detail::Condition filled_;
  std::vector<Waiting> heap_ ONCEBOX_GUARDED_BY(mutex_);    // the first in line on top
  std::vector<InFlight*> rest_ ONCEBOX_GUARDED_BY(mutex_);  // room for all of them, for `close`
  std::uint64_t arrivals_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  std::size_t waiting_workers_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  bool closed_ ONCEBOX_GUARDED_BY(mutex_) = false;
  // Written under the lock.
  std::atomic<std::size_t> size_ = 0;
  std::atomic<double> served_ = 0;
};

}  // namespace oncebox::dispatcher
