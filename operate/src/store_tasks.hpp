#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/engine/store_calls.hpp"
#include "oncebox/internal/backoff.hpp"
#include "oncebox/log.hpp"

namespace oncebox {

/// What a step of a task found.
enum class StepOutcome {
  idle,    ///< nothing to do: it is asked ever more rarely
  worked,  ///< something, and now all is done
  more,    ///< there may be more: it goes on after a rest
};

struct StoreTask {
  std::string_view name;  ///< for the log; a literal
  Duration interval;      ///< from the end of a step to the next
  /// Steps that find nothing come twice as rarely each time, up to this.
  Duration idle_interval;
  std::function<StepOutcome()> step;
  Duration first_within{0};  ///< the first step comes within this; zero: within the interval
};

/// When a task is next to be run. Without threads or clocks, so that it can be tested alone.
class TaskTimes {
 public:
  /// The first step comes within an interval, at a time that `seed` spreads.
  TaskTimes(Duration interval, Duration idle_interval, SteadyTime now, std::size_t seed);
  TaskTimes(const StoreTask& task, SteadyTime now, std::size_t seed);

  [[nodiscard]] SteadyTime next() const noexcept { return next_; }

  /// A step began and ended; answers how long the store rests, whatever else it has to do.
  Duration ended(StepOutcome outcome, SteadyTime began, SteadyTime now);
  /// It threw; answers how long the task pauses, ever longer.
  Duration failed(SteadyTime now);

 private:
  const Duration interval_;
  detail::Backoff pause_;
  detail::Backoff failure_pause_;
  SteadyTime next_;
};

/// Runs tasks of many stores, each at its own times, on a few threads. Of one store one step runs
/// at a time; after a step that left more to do the store rests for several times the step's
/// length. A store that fails is logged and tried again ever more rarely, and so is one for which
/// there is no memory. Safe from any thread.
///
/// **Servers.** `steps` run at the same time, and half as many on database servers in trouble: see
/// `engine::CallPlan`. A step hangs when it has run for `hangs_after`. Of one server no more than
/// `steps` do: so a server that hangs holds up others for that time at most, and then itself.
class StoreTasks {
 public:
  static constexpr Duration kHangsAfter = std::chrono::seconds{5};

  /// `what` begins the log line of a failure, a literal. Logger and clock are borrowed. Throws when
  /// there is no thread to be had.
  StoreTasks(std::string_view what, std::size_t steps, Logger& logger, const Clock& clock,
             Duration hangs_after = kHangsAfter);
  ~StoreTasks();
  StoreTasks(const StoreTasks&) = delete;
  StoreTasks& operator=(const StoreTasks&) = delete;

  /// `keep_alive` is held until the store is removed and its last step has ended.
  struct Added {
    std::string store;
    std::string server;  ///< stands for the database server that it lives on
    std::shared_ptr<void> keep_alive = {};
  };

  /// Throws `invalid_argument` when there is a store of this name.
  void add(Added added, std::vector<StoreTask> tasks);
  /// No step begins any more; one that runs is not waited for. Nothing happens for a name that is
  /// not there.
  void remove(std::string_view store);
  /// Waits for the steps that run; nothing runs any more.
  void stop();

 private:
  class TasksOfStore;
  using Lanes = std::map<std::string, engine::StoreCalls::Lane, std::less<>>;

  const std::string failed_;  ///< the line of a failure
  Logger& logger_;
  const Clock& clock_;
  detail::Mutex mutex_;
  bool is_stopped_ ONCEBOX_GUARDED_BY(mutex_) = false;
  Lanes lanes_ ONCEBOX_GUARDED_BY(mutex_);
  engine::StoreCalls calls_;  // last: its threads use the members above
};

}  // namespace oncebox
