#include "store_tasks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

/// After a step that left more to do the store rests for so many times its length: most of the time
/// is for others.
constexpr int kRestPerStep = 4;
constexpr Duration kShortestRest{1};
constexpr Duration kFirstFailurePause = std::chrono::seconds{1};
constexpr Duration kLongestFailurePause = std::chrono::minutes{5};
constexpr std::size_t kStartingPlaces = 1'024;

Duration longer_after_failure(Duration pause) {
  return std::clamp(pause * 2, kFirstFailurePause, kLongestFailurePause);
}

std::chrono::microseconds spread(std::chrono::microseconds over, std::size_t seed) {
  return over * static_cast<std::int64_t>(seed % kStartingPlaces + 1) /
         static_cast<std::int64_t>(kStartingPlaces);
}

}  // namespace

TaskTimes::TaskTimes(Duration interval, Duration idle_interval, SteadyTime now, std::size_t seed)
    : interval_(std::max(interval, kShortestRest)),
      idle_interval_(std::max(idle_interval, interval_)),
      pause_(interval_),
      next_(now + spread(interval_, seed)) {}

TaskTimes::TaskTimes(const StoreTask& task, SteadyTime now, std::size_t seed)
    : TaskTimes(task.interval, task.idle_interval, now, seed) {
  if (task.first_within > Duration{0}) next_ = now + spread(task.first_within, seed);
}

Duration TaskTimes::ended(StepOutcome outcome, SteadyTime began, SteadyTime now) {
  failure_pause_ = Duration{0};
  pause_ = outcome == StepOutcome::idle ? std::min(pause_ * 2, idle_interval_) : interval_;
  if (outcome != StepOutcome::more) {
    next_ = now + pause_;
    return Duration{0};
  }
  const auto took = std::chrono::ceil<Duration>(now - began);
  const Duration rest = std::min(std::max(took * kRestPerStep, kShortestRest), interval_);
  next_ = now + rest;
  return rest;
}

Duration TaskTimes::failed(SteadyTime now) {
  failure_pause_ = longer_after_failure(failure_pause_);
  const Duration pause = std::max(interval_, failure_pause_);
  next_ = now + pause;
  return pause;
}

struct StoreTasks::Lane {
  struct Entry {
    StoreTask task;
    TaskTimes times;
  };

  std::string store;
  std::shared_ptr<void> keep_alive;
  std::vector<Entry> entries = {};
  SteadyTime rest_until = SteadyTime::min();
  Duration failure_pause{0};    ///< since a step last succeeded
  SteadyTime waits_until = {};  ///< its place in `waiting_`
  bool runs = false;
  bool removed = false;

  [[nodiscard]] Entry& next() {
    return *std::ranges::min_element(entries, {}, [](const Entry& e) { return e.times.next(); });
  }
};

StoreTasks::StoreTasks(std::string_view what, std::size_t threads, Logger& logger)
    : what_(what), max_threads_(threads), logger_(logger) {}

StoreTasks::~StoreTasks() { stop(); }

void StoreTasks::add(const std::string& store, std::shared_ptr<void> keep_alive,
                     std::vector<StoreTask> tasks) {
  const auto lane = std::make_shared<Lane>(store, std::move(keep_alive));
  const SteadyTime now = std::chrono::steady_clock::now();
  std::size_t seed = std::hash<std::string>{}(store);
  for (StoreTask& task : tasks) {
    const TaskTimes times(task, now, seed);
    lane->entries.push_back({std::move(task), times});
    seed += kStartingPlaces / tasks.size();  // those of one store are spread, too
  }
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  if (!lanes_.emplace(store, lane).second) {
    throw Error(ErrorCode::invalid_argument, fmt::format("the store {} is there already", store));
  }
  enter(lane);
  let_another_lead();
}

void StoreTasks::remove(std::string_view store) {
  LanePtr gone;  // let go outside the lock: that may close the store
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(store);
  if (found == lanes_.end()) return;
  gone = std::move(found->second);
  lanes_.erase(found);
  gone->removed = true;
  if (!gone->runs) leave(gone);
}

void StoreTasks::stop() {
  std::vector<std::jthread> threads;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
  }
  for (std::jthread& thread : threads) thread.request_stop();
  threads.clear();
  decltype(lanes_) lanes;
  decltype(waiting_) waiting;
  const std::lock_guard lock(mutex_);
  lanes.swap(lanes_);
  waiting.swap(waiting_);
}

void StoreTasks::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (has_leader_ || waiting_.empty()) {
      wait_as_follower(lock, stop);
    } else if (std::chrono::steady_clock::now() < waiting_.begin()->first) {
      wait_as_leader(lock, stop);
    } else {
      LanePtr lane = waiting_.begin()->second;
      leave(lane);
      lane->runs = true;
      let_another_lead();
      lock.unlock();
      run_step(*lane);
      lock.lock();
      lane->runs = false;
      if (!lane->removed) {
        enter(lane);
      } else {
        lock.unlock();
        lane.reset();  // that may close the store
        lock.lock();
      }
    }
  }
}

void StoreTasks::wait_as_follower(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
  ++followers_;
  turn_.wait(lock, stop, [this] { return !has_leader_ && !waiting_.empty(); });
  --followers_;
}

void StoreTasks::wait_as_leader(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
  const SteadyTime until = waiting_.begin()->first;
  has_leader_ = true;
  earlier_.wait_until(lock, stop, until,
                      [&] { return waiting_.empty() || waiting_.begin()->first < until; });
  has_leader_ = false;
}

void StoreTasks::run_step(Lane& lane) {
  Lane::Entry& entry = lane.next();
  const SteadyTime began = std::chrono::steady_clock::now();
  std::optional<std::string> failure;
  try {
    const StepOutcome outcome = entry.task.step();
    const SteadyTime now = std::chrono::steady_clock::now();
    lane.rest_until = now + entry.times.ended(outcome, began, now);
    lane.failure_pause = Duration{0};
    return;
  } catch (const std::exception& error) {
    failure = error.what();
  } catch (...) {
    failure = "an unknown exception";
  }
  // A store that is down is not asked by each of its tasks.
  const SteadyTime now = std::chrono::steady_clock::now();
  lane.failure_pause = longer_after_failure(lane.failure_pause);
  lane.rest_until = now + lane.failure_pause;
  const Duration pause = std::max(entry.times.failed(now), lane.failure_pause);
  logger_.log(
      LogLevel::warning, fmt::format("{} failed, will be tried again", what_),
      {{"store", lane.store}, {"job", entry.task.name}, {"pause_ms", pause}, {"reason", *failure}});
}

void StoreTasks::enter(const LanePtr& lane) {
  lane->waits_until = std::max(lane->next().times.next(), lane->rest_until);
  const auto place = waiting_.emplace(lane->waits_until, lane);
  if (place != waiting_.begin()) return;
  if (has_leader_) {
    earlier_.notify_one();
  } else {
    turn_.notify_one();
  }
}

void StoreTasks::leave(const LanePtr& lane) {
  const auto [first, last] = waiting_.equal_range(lane->waits_until);
  const auto place = std::find_if(first, last, [&](const auto& at) { return at.second == lane; });
  if (place != last) waiting_.erase(place);
}

void StoreTasks::let_another_lead() {
  if (waiting_.empty() || has_leader_ || stopped_) return;
  if (followers_ > 0) {
    turn_.notify_one();
  } else if (threads_.size() < max_threads_) {
    try {
      threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
    } catch (const std::system_error&) {
      // Those that have started do it alone.
      if (threads_.empty()) throw;
    }
  }
}

}  // namespace oncebox
