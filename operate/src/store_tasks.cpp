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
constexpr Duration kLongestWait = std::chrono::hours{1};
/// For those that hang, beside the ones that run well.
constexpr std::size_t kMoreThreads = 64;

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

struct StoreTasks::Server {
  std::size_t running = 0;  ///< steps that do not hang
  std::size_t hanging = 0;
  bool is_in_trouble = false;
};

struct StoreTasks::Lane {
  struct Entry {
    StoreTask task;
    TaskTimes times;
  };

  std::string store;
  std::shared_ptr<Server> server;
  std::shared_ptr<void> keep_alive;
  std::vector<Entry> entries = {};
  SteadyTime rest_until = SteadyTime::min();
  Duration failure_pause{0};    ///< since a step last succeeded
  SteadyTime waits_until = {};  ///< its place in `waiting_`
  bool runs = false;
  bool hangs = false;
  SteadyTime began = {};                  ///< the step that runs
  std::list<Lane*>::iterator place = {};  ///< in `running_`
  bool removed = false;

  [[nodiscard]] Entry& next() {
    return *std::ranges::min_element(entries, {}, [](const Entry& e) { return e.times.next(); });
  }
};

StoreTasks::StoreTasks(std::string_view what, std::size_t steps, Logger& logger,
                       Duration hangs_after)
    : what_(what), steps_(steps), hangs_after_(hangs_after), logger_(logger) {}

StoreTasks::~StoreTasks() { stop(); }

std::shared_ptr<StoreTasks::Server> StoreTasks::find_server(const std::string& name) {
  std::erase_if(servers_, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<Server>& known = servers_[name];
  std::shared_ptr<Server> server = known.lock();
  if (!server) known = server = std::make_shared<Server>();
  return server;
}

void StoreTasks::add(Added added, std::vector<StoreTask> tasks) {
  const auto lane = std::make_shared<Lane>(added.store, nullptr, std::move(added.keep_alive));
  const SteadyTime now = std::chrono::steady_clock::now();
  std::size_t seed = std::hash<std::string>{}(added.store);
  for (StoreTask& task : tasks) {
    const TaskTimes times(task, now, seed);
    lane->entries.push_back({std::move(task), times});
    seed += kStartingPlaces / tasks.size();  // those of one store are spread, too
  }
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  lane->server = find_server(added.server);
  if (!lanes_.emplace(added.store, lane).second) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the store {} is there already", added.store));
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
      continue;
    }
    const SteadyTime now = std::chrono::steady_clock::now();
    note_hanging(now);
    if (LanePtr lane = next_due(now)) {
      begin(lane, now);
      let_another_lead();
      run_next(lock, std::move(lane));
    } else {
      wait_as_leader(lock, stop, now);
    }
  }
}

void StoreTasks::run_next(std::unique_lock<std::mutex>& lock, LanePtr lane) {
  lock.unlock();
  const bool succeeded = run_step(*lane);
  lock.lock();
  end(lane, succeeded);
  if (!lane->removed) {
    enter(lane);
    return;
  }
  lock.unlock();
  lane.reset();  // that may close the store
  lock.lock();
}

void StoreTasks::begin(const LanePtr& lane, SteadyTime now) {
  leave(lane);
  lane->runs = true;
  lane->hangs = false;
  lane->began = now;
  lane->place = running_.insert(running_.end(), lane.get());
  ++lane->server->running;
  if (!lane->server->is_in_trouble) ++running_well_;
}

void StoreTasks::end(const LanePtr& lane, bool succeeded) {
  Server& server = *lane->server;
  lane->runs = false;
  running_.erase(lane->place);
  if (lane->hangs) {
    --server.hanging;
    --hanging_;
  } else {
    --server.running;
    if (!server.is_in_trouble) --running_well_;
  }
  note_trouble(server, !succeeded);
  if (!leads_blocked_) return;
  has_changed_ = true;
  changed_.notify_one();
}

void StoreTasks::note_trouble(Server& server, bool is_in_trouble) {
  if (server.is_in_trouble == is_in_trouble) return;
  server.is_in_trouble = is_in_trouble;
  running_well_ = is_in_trouble ? running_well_ - server.running : running_well_ + server.running;
}

void StoreTasks::note_hanging(SteadyTime now) {
  for (Lane* lane : running_) {
    if (now - lane->began < hangs_after_) return;
    Server& server = *lane->server;
    note_trouble(server, true);
    if (lane->hangs) continue;
    lane->hangs = true;
    --server.running;
    ++server.hanging;
    ++hanging_;
  }
}

bool StoreTasks::may_begin(const Lane& lane) const {
  const Server& server = *lane.server;
  if (!server.is_in_trouble) return running_well_ < steps_;
  const std::size_t in_trouble = running_.size() - hanging_ - running_well_;
  return in_trouble < std::max<std::size_t>(steps_ / 2, 1) &&
         server.running + server.hanging < steps_;
}

StoreTasks::LanePtr StoreTasks::next_due(SteadyTime now) const {
  for (const auto& [time, lane] : waiting_) {
    if (time > now) break;
    if (may_begin(*lane)) return lane;
  }
  return nullptr;
}

bool StoreTasks::is_blocked(SteadyTime now) const {
  return !waiting_.empty() && waiting_.begin()->first <= now;
}

StoreTasks::SteadyTime StoreTasks::next_change(SteadyTime now) const {
  const auto later = waiting_.upper_bound(now);
  SteadyTime next = later == waiting_.end() ? now + kLongestWait : later->first;
  if (!is_blocked(now)) return next;
  const auto first = std::ranges::find(running_, false, &Lane::hangs);
  return first == running_.end() ? next : std::min(next, (*first)->began + hangs_after_);
}

void StoreTasks::wait_as_follower(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
  ++followers_;
  turn_.wait(lock, stop, [this] { return !has_leader_ && !waiting_.empty(); });
  --followers_;
}

void StoreTasks::wait_as_leader(std::unique_lock<std::mutex>& lock, const std::stop_token& stop,
                                SteadyTime now) {
  has_leader_ = true;
  has_changed_ = false;
  leads_until_ = next_change(now);
  leads_blocked_ = is_blocked(now);
  changed_.wait_until(lock, stop, leads_until_, [this] { return has_changed_; });
  leads_blocked_ = false;
  has_leader_ = false;
}

bool StoreTasks::run_step(Lane& lane) {
  Lane::Entry& entry = lane.next();
  const SteadyTime began = std::chrono::steady_clock::now();
  std::optional<std::string> failure;
  try {
    const StepOutcome outcome = entry.task.step();
    const SteadyTime now = std::chrono::steady_clock::now();
    lane.rest_until = now + entry.times.ended(outcome, began, now);
    lane.failure_pause = Duration{0};
    return true;
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
  return false;
}

void StoreTasks::enter(const LanePtr& lane) {
  lane->waits_until = std::max(lane->next().times.next(), lane->rest_until);
  waiting_.emplace(lane->waits_until, lane);
  if (!has_leader_) {
    turn_.notify_one();
  } else if (lane->waits_until < leads_until_) {
    has_changed_ = true;
    changed_.notify_one();
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
  } else if (threads_.size() < steps_ + kMoreThreads) {
    try {
      threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
    } catch (const std::system_error&) {
      // Those that have started do it alone.
      if (threads_.empty()) throw;
    }
  }
}

}  // namespace oncebox
