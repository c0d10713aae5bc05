#pragma once

#include <cstddef>
#include <functional>

#include "api/timers.hpp"
#include "oncebox/clock.hpp"

namespace oncebox::server {

/// Gives memory back to the system. What clients held lies between what stays, so the allocator
/// keeps most of it when it is free; this makes it return the pages, once clients hold much less
/// than they did. On a thread of its own, because it takes some milliseconds.
class HeapTrimmer {
 public:
  /// So much less must be held.
  static constexpr std::size_t kWorthTrimmingBytes = std::size_t{16} << 20;
  static constexpr Duration kInterval = std::chrono::seconds{1};

  /// `held` says what clients make the server hold. The clock is borrowed.
  HeapTrimmer(std::function<std::size_t()> held, const Clock& clock);
  ~HeapTrimmer() { timers_.stop(); }
  HeapTrimmer(const HeapTrimmer&) = delete;
  HeapTrimmer& operator=(const HeapTrimmer&) = delete;

 private:
  void look();

  const std::function<std::size_t()> held_;
  const Clock& clock_;
  std::size_t highest_ = 0;  ///< that was held since it last trimmed
  Timers timers_;
  Timers::Timer timer_;
};

}  // namespace oncebox::server
