#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace oncebox {

/// All durations and times have millisecond precision, in memory, in every store and on the wire,
/// so that a value read back equals the value written.
using Duration = std::chrono::milliseconds;
using TimePoint = std::chrono::sys_time<Duration>;

/// The earliest and latest time that every store can keep: 1970-01-01 and the end of 9999.
inline constexpr TimePoint kMinTime{};
inline constexpr TimePoint kMaxTime{std::chrono::sys_days{std::chrono::year{9999} / 12 / 31} +
                                    std::chrono::days{1} - Duration{1}};

/// A time that never goes back: for intervals, deadlines and pauses in one process.
using SteadyTime = std::chrono::steady_clock::time_point;

/// Tells threads that wait that the time of a clock was moved by hand.
class ClockMoves {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_moved() noexcept = 0;
  };
  virtual ~ClockMoves() = default;
  /// Tells the listener of every move, until it is destroyed.
  virtual void add(const std::shared_ptr<Listener>& listener) = 0;
};

/// Where the time comes from. Injected everywhere, so that no test waits for a lease to lapse.
/// Implementations are safe to call from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimePoint now() const = 0;
  /// A time that may lie some milliseconds back, but is read quicker where there is such a clock:
  /// for what only people read, and for what lasts long.
  [[nodiscard]] virtual TimePoint recent() const { return now(); }
  /// What schedules are made of. Deadlines that are handed to a database, a socket or the operating
  /// system are real: those read the machine's own steady clock.
  [[nodiscard]] virtual SteadyTime steady() const { return std::chrono::steady_clock::now(); }
  /// Null where time moves by itself.
  [[nodiscard]] virtual ClockMoves* moves() const noexcept { return nullptr; }
};

/// The machine's own clock.
class SystemClock final : public Clock {
 public:
  /// For objects that were given no clock, and for deadlines that are real.
  [[nodiscard]] static const SystemClock& shared() {
    static const SystemClock clock;
    return clock;
  }
  [[nodiscard]] static TimePoint current() {
    return std::chrono::floor<Duration>(std::chrono::system_clock::now());
  }
  [[nodiscard]] TimePoint now() const override { return current(); }
  [[nodiscard]] TimePoint recent() const override;
};

/// RFC 3339 in UTC with milliseconds: "2026-01-31T08:15:30.250Z".
[[nodiscard]] std::string format_rfc3339(TimePoint time);

/// Reads any RFC 3339 time between `kMinTime` and `kMaxTime`, with an offset or Z and any number of
/// fractional digits (cut to milliseconds). Throws `invalid_argument`.
[[nodiscard]] TimePoint parse_rfc3339(std::string_view text);

}  // namespace oncebox
