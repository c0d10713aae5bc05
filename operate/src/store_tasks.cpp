#include "store_tasks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include "oncebox/engine/exception_text.hpp"
#include "oncebox/error.hpp"

namespace oncebox {

namespace {

/// After a step that left more to do the store rests for so many times its length: most of the time
/// is for others.
constexpr int kRestPerStep = 4;
constexpr Duration kShortestRest{1};
constexpr detail::Backoff::Bounds kFailurePauses{std::chrono::seconds{1}, std::chrono::minutes{5}};
constexpr std::size_t kStartingPlaces = 1'024;
/// For those that hang, beside the ones that run well.
constexpr std::size_t kMoreThreads = 64;

std::chrono::microseconds spread(std::chrono::microseconds over, std::size_t seed) {
  return over * static_cast<std::int64_t>(seed % kStartingPlaces + 1) /
         static_cast<std::int64_t>(kStartingPlaces);
}

}  // namespace

TaskTimes::TaskTimes(Duration interval, Duration idle_interval, SteadyTime now, std::size_t seed)
    : interval_(std::max(interval, kShortestRest)),
      pause_({.first = interval_, .longest = idle_interval}),
      failure_pause_(kFailurePauses),
      next_(now + spread(interval_, seed)) {}

TaskTimes::TaskTimes(const StoreTask& task, SteadyTime now, std::size_t seed)
    : TaskTimes(task.interval, task.idle_interval, now, seed) {
  if (task.first_within > Duration{0}) next_ = now + spread(task.first_within, seed);
}

Duration TaskTimes::ended(StepOutcome outcome, SteadyTime began, SteadyTime now) {
  failure_pause_.reset();
  if (outcome == StepOutcome::idle) {
    pause_.grow();
  } else {
    pause_.reset();
  }
  if (outcome != StepOutcome::more) {
    next_ = now + pause_.pause();
    return Duration{0};
  }
  const auto took = std::chrono::ceil<Duration>(now - began);
  const Duration rest = std::min(std::max(took * kRestPerStep, kShortestRest), interval_);
  next_ = now + rest;
  return rest;
}

Duration TaskTimes::failed(SteadyTime now) {
  const Duration pause = std::max(interval_, failure_pause_.take());
  next_ = now + pause;
  return pause;
}

/// The tasks of one store. One thread at a time has it.
class StoreTasks::TasksOfStore {
 public:
  TasksOfStore(StoreTasks& all, Added added, std::vector<StoreTask> tasks)
      : all_(all), store_(std::move(added.store)), keep_alive_(std::move(added.keep_alive)) {
    const SteadyTime now = all_.clock_.steady();
    std::size_t seed = std::hash<std::string>{}(store_);
    for (StoreTask& task : tasks) {
      const TaskTimes times(task, now, seed);
      entries_.push_back({std::move(task), times});
      seed += kStartingPlaces / tasks.size();  // those of one store are spread, too
    }
  }

  [[nodiscard]] SteadyTime next_at() { return std::max(next().times.next(), rest_until_); }

  engine::CallEnded run_step() {
    Entry& entry = next();
    const SteadyTime began = all_.clock_.steady();
    try {
      const StepOutcome outcome = entry.task.step();
      const SteadyTime now = all_.clock_.steady();
      rest_until_ = now + entry.times.ended(outcome, began, now);
      failure_pause_.reset();
      return {.again = next_at()};
    } catch (...) {
      // A store that is down is not asked by each of its tasks.
      const SteadyTime now = all_.clock_.steady();
      const Duration rest = failure_pause_.take();
      rest_until_ = now + rest;
      log_failure(entry.task.name, std::max(entry.times.failed(now), rest));
      return {.store = engine::CallEnded::Store::failed, .again = next_at()};
    }
  }

 private:
  struct Entry {
    StoreTask task;
    TaskTimes times;
  };

  [[nodiscard]] Entry& next() {
    return *std::ranges::min_element(entries_, {}, [](const Entry& e) { return e.times.next(); });
  }

  // Called while an exception is handled, which may be that there is no memory.
  void log_failure(std::string_view task, Duration pause) const noexcept {
    all_.logger_.log(LogLevel::warning, all_.failed_,
                     {{"store", store_},
                      {"job", task},
                      {"pause_ms", pause},
                      {"reason", detail::current_exception_text()}});
  }

  StoreTasks& all_;
  const std::string store_;
  const std::shared_ptr<void> keep_alive_;
  std::vector<Entry> entries_;
  SteadyTime rest_until_ = SteadyTime::min();
  detail::Backoff failure_pause_{kFailurePauses};
};

StoreTasks::StoreTasks(std::string_view what, std::size_t steps, Logger& logger, const Clock& clock,
                       Duration hangs_after)
    : failed_(fmt::format("{} failed, will be tried again", what)),
      logger_(logger),
      clock_(clock),
      calls_({.limits = {.per_server = steps, .in_all = steps, .hangs_after = hangs_after},
              .threads = steps + kMoreThreads,
              .threads_kept = 1},
             clock) {}

StoreTasks::~StoreTasks() { stop(); }

void StoreTasks::add(Added added, std::vector<StoreTask> tasks) {
  std::string store = added.store;
  std::string server = std::move(added.server);
  const auto all = std::make_shared<TasksOfStore>(*this, std::move(added), std::move(tasks));
  const SteadyTime first = all->next_at();
  engine::StoreCalls::Lane lane = calls_.add(
      {.server = std::move(server), .run = [all](engine::CallKind) { return all->run_step(); }});
  const detail::Lock lock(mutex_);
  if (is_stopped_) return;
  const auto [place, is_new] = lanes_.try_emplace(store, std::move(lane));
  if (!is_new) {
    throw Error(ErrorCode::invalid_argument, fmt::format("the store {} is there already", store));
  }
  place->second.want_at(first);
}

void StoreTasks::remove(std::string_view store) {
  Lanes::node_type gone;  // let go outside of the lock: that may close the store
  const detail::Lock lock(mutex_);
  if (const auto found = lanes_.find(store); found != lanes_.end()) gone = lanes_.extract(found);
}

void StoreTasks::stop() {
  Lanes gone;
  {
    const detail::Lock lock(mutex_);
    is_stopped_ = true;
    gone.swap(lanes_);
  }
  calls_.drop();
  calls_.stop();
}

}  // namespace oncebox
