#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/dispatch/dispatcher.hpp"

namespace oncebox::dispatcher {

/// What a dispatcher knows of its own work. Safe from any thread.
class WorkReport {
 public:
  virtual ~WorkReport() = default;

  [[nodiscard]] virtual std::size_t in_flight() const = 0;
  /// How many messages have been in flight so far.
  [[nodiscard]] virtual std::uint64_t admitted() const = 0;
  /// Has it look for work, and answers the number of that look. Numbers grow.
  virtual std::uint64_t ask_to_look() = 0;
  /// Whether this look, or a later one, has found nothing to claim, and nothing that is due within
  /// this time.
  [[nodiscard]] virtual bool has_found_nothing(std::uint64_t look, Duration due_within) const = 0;
};

/// Lets threads wait until a dispatcher has nothing to do: nothing was in flight from before it was
/// asked to look until that look had found nothing. Safe from any thread.
class IdleWatch {
 public:
  explicit IdleWatch(const Clock& clock) : clock_(clock), changed_(clock) {}

  /// What the report says has changed. Costs next to nothing while nobody waits.
  void on_change() noexcept {
    if (waiting_.load() > 0) note_change();
  }
  /// The dispatcher stops: from now on nobody waits.
  void end() noexcept;

  /// False when the time is over, a stop was requested, or the dispatcher stops.
  bool wait(WorkReport& work, const IdleOptions& options);

 private:
  class Waiting;
  struct Look {
    std::uint64_t number;
    std::uint64_t admitted;  ///< before it
  };

  void note_change() noexcept;
  [[nodiscard]] static bool is_idle(WorkReport& work, std::optional<Look>& look,
                                    Duration due_within);

  const Clock& clock_;
  std::atomic<std::size_t> waiting_ = 0;
  detail::Mutex mutex_;
  detail::TimedCondition changed_;
  std::uint64_t changes_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  bool has_ended_ ONCEBOX_GUARDED_BY(mutex_) = false;
};

}  // namespace oncebox::dispatcher
