#pragma once

#include <atomic>
#include <chrono>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/store.hpp"

namespace oncebox {

/// Notices that the clock of a store was set back, so that the store can mend what it holds (see
/// `mend_times`) and say so in its health. Safe from any thread.
class ClockWatch {
 public:
  /// A clock that is corrected by less holds nothing up for long.
  static constexpr Duration kTolerance = std::chrono::seconds{1};

  /// `latest` is the latest time that the store is known to have written.
  explicit ClockWatch(TimePoint latest = kMinTime) : latest_(latest) {}

  /// To be told of each time that a call which writes has read. True when it lies before an earlier
  /// one, until `mended` is called.
  [[nodiscard]] bool went_back(TimePoint now) noexcept {
    TimePoint latest = latest_.load();
    while (now > latest) {
      if (latest_.compare_exchange_weak(latest, now)) return false;
    }
    return is_behind(now, latest);
  }

  /// For a store whose time takes long to read, while others go on: whether a time that was asked
  /// for after `earlier` was known lies before it.
  [[nodiscard]] static bool is_behind(TimePoint now, TimePoint earlier) noexcept {
    return earlier - now > kTolerance;
  }
  /// The latest time that it was told of.
  [[nodiscard]] TimePoint latest() const noexcept { return latest_; }

  /// What the store holds was mended by the clock as it is now.
  void mended(TimePoint now) noexcept {
    behind_until_ = latest_.load();
    latest_ = now;
  }

  /// `degraded` after the clock went back, until it has made up for it. `whose` clock it is stands
  /// in the detail.
  [[nodiscard]] Health health(TimePoint now, std::string_view whose = "the machine's") const;

 private:
  std::atomic<TimePoint> latest_;
  std::atomic<TimePoint> behind_until_ = kMinTime;
};

}  // namespace oncebox
