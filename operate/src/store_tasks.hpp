#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
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
/// needed. Of one store one step runs at a time; after a step that left more to do the store rests
/// for several times the step's length. A store that fails is logged and tried again ever more
/// rarely. Safe from any thread.
///
/// **Servers.** `steps` run at the same time, and half as many on database servers in trouble, all
/// of these together. A server is in trouble while a step on it has run for `hangs_after`, and from
/// when one failed until one succeeds. What hangs does not count, but of one server no more than
/// `steps` do: so a server that hangs holds up others for that time at most, and then itself.
class StoreTasks {
 public:
  static constexpr Duration kHangsAfter = std::chrono::seconds{5};

  /// `what` begins the log line of a failure, a literal. The logger is borrowed.
  StoreTasks(std::string_view what, std::size_t steps, Logger& logger,
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
  using SteadyTime = TaskTimes::SteadyTime;
  struct Server;
  struct Lane;
  using LanePtr = std::shared_ptr<Lane>;

  void run(const std::stop_token& stop);
  void run_next(std::unique_lock<std::mutex>& lock, LanePtr lane);
  /// Whether it succeeded.
  bool run_step(Lane& lane);
  // These need the lock.
  void wait_as_follower(std::unique_lock<std::mutex>& lock, const std::stop_token& stop);
  void wait_as_leader(std::unique_lock<std::mutex>& lock, const std::stop_token& stop,
                      SteadyTime now);
  [[nodiscard]] std::shared_ptr<Server> find_server(const std::string& name);
  [[nodiscard]] LanePtr next_due(SteadyTime now) const;
  [[nodiscard]] SteadyTime next_change(SteadyTime now) const;
  [[nodiscard]] bool is_blocked(SteadyTime now) const;
  [[nodiscard]] bool may_begin(const Lane& lane) const;
  void note_trouble(Server& server, bool is_in_trouble);
  void note_hanging(SteadyTime now);
  void begin(const LanePtr& lane, SteadyTime now);
  void end(const LanePtr& lane, bool succeeded);
  void enter(const LanePtr& lane);
  void leave(const LanePtr& lane);
  void let_another_lead();

  const std::string_view what_;
  const std::size_t steps_;
  const Duration hangs_after_;
  Logger& logger_;

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Server>> servers_;
  std::map<std::string, LanePtr, std::less<>> lanes_;
  std::multimap<SteadyTime, LanePtr> waiting_;  ///< those of which no step runs
  std::list<Lane*> running_;                    ///< the others, the longest first
  std::size_t hanging_ = 0;                     ///< of these
  std::size_t running_well_ = 0;                ///< of the rest, on servers that are not in trouble
  // One thread waits for the next time; the others wait for a turn to do so.
  std::condition_variable_any changed_;
  std::condition_variable_any turn_;
  bool has_leader_ = false;
  SteadyTime leads_until_{};
  bool leads_blocked_ = false;  ///< the leader waits until a step ends, too
  bool has_changed_ = false;    ///< for the leader: what it waits for may have come
  std::size_t followers_ = 0;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;  // last: they use the members above
};

}  // namespace oncebox
