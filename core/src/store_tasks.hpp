#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "oncebox/clock.hpp"
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
  using SteadyTime = std::chrono::steady_clock::time_point;

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
  const Duration idle_interval_;
  Duration pause_;
  Duration failure_pause_{0};
  SteadyTime next_;
};

/// Runs tasks of many stores, each at its own times, on a few threads that start when they are
/// needed. Of one store one step runs at a time, so a store that hangs occupies one thread; after a
/// step that left more to do the store rests for several times the step's length. A store that
/// fails is logged and tried again ever more rarely. Safe from any thread.
class StoreTasks {
 public:
  /// `what` begins the log line of a failure, a literal. The logger is borrowed.
  StoreTasks(std::string_view what, std::size_t threads, Logger& logger);
  ~StoreTasks();
  StoreTasks(const StoreTasks&) = delete;
  StoreTasks& operator=(const StoreTasks&) = delete;

  /// `keep_alive` is held until the store is removed and its last step has ended. Throws
  /// `invalid_argument` when there is a store of this name.
  void add(const std::string& store, std::shared_ptr<void> keep_alive,
           std::vector<StoreTask> tasks);
  /// No step begins any more; one that runs is not waited for. Nothing happens for a name that is
  /// not there.
  void remove(std::string_view store);
  /// Waits for the steps that run; nothing runs any more.
  void stop();

 private:
  using SteadyTime = TaskTimes::SteadyTime;
  struct Lane;
  using LanePtr = std::shared_ptr<Lane>;

  void run(const std::stop_token& stop);
  void wait_as_follower(std::unique_lock<std::mutex>& lock, const std::stop_token& stop);
  void wait_as_leader(std::unique_lock<std::mutex>& lock, const std::stop_token& stop);
  void run_step(Lane& lane);
  void enter(const LanePtr& lane);
  void leave(const LanePtr& lane);
  void let_another_lead();

  const std::string_view what_;
  const std::size_t max_threads_;
  Logger& logger_;

  std::mutex mutex_;
  std::map<std::string, LanePtr, std::less<>> lanes_;
  std::multimap<SteadyTime, LanePtr> waiting_;  ///< those of which no step runs
  // One thread waits for the next time; the others wait for a turn to do so.
  std::condition_variable_any earlier_;
  std::condition_variable_any turn_;
  bool has_leader_ = false;
  std::size_t followers_ = 0;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;  // last: they use the members above
};

}  // namespace oncebox
