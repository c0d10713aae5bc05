#include "set_scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "effective_options.hpp"
#include "oncebox/engine/exception_text.hpp"

namespace oncebox::dispatcher {

namespace {

/// How long a store rests that cannot be worked on for lack of threads or memory.
constexpr Duration kFirstPutOff{100};
constexpr Duration kLongestPutOff = std::chrono::minutes{1};

/// Tells the scheduler of work, as long as there is one. Knows the lane by its number alone: a
/// thread of the store calls this, and on that thread the store must not be closed.
class LaneListener final : public WorkListener {
 public:
  LaneListener(std::weak_ptr<SetScheduler> scheduler, std::uint64_t lane)
      : scheduler_(std::move(scheduler)), lane_(lane) {}

  void on_work() noexcept override {
    if (const auto scheduler = scheduler_.lock()) scheduler->on_news_of(lane_);
  }

 private:
  const std::weak_ptr<SetScheduler> scheduler_;
  const std::uint64_t lane_;
};

}  // namespace

SetScheduler::SetScheduler(const Parts& parts)
    : parts_(parts),
      most_troubled_(std::max<std::size_t>(parts.options.calls_per_server / 2, 1)),
      put_off_pause_({.first = kFirstPutOff, .longest = kLongestPutOff}) {}

SetScheduler::~SetScheduler() = default;

void SetScheduler::start(const Handling& handling, StoreSet& stores) {
  workers_ = &handling.workers;
  admission_ = &handling.admission;
  {
    const std::lock_guard lock(mutex_);
    caretaker_ = std::jthread([this] { care(); });
  }
  stores.listen(shared_from_this());
  const std::lock_guard lock(mutex_);
  is_started_ = true;
  wake_claims();
}

void SetScheduler::start_without_threads(const Handling& handling) {
  workers_ = &handling.workers;
  admission_ = &handling.admission;
  const std::lock_guard lock(mutex_);
  is_started_ = true;
}

// Stores that come and go -----------------------------------------------------------------------

void SetScheduler::on_opened(const MemberStorePtr& member) noexcept try {
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return;
  put_off_.reserve(put_off_.size() + 1);
  try {
    add_lane(member);
  } catch (...) {
    if (put_off_.empty()) put_off_until_ = parts_.clock.steady() + put_off_pause_.pause();
    put_off_.push_back(member);
    care_.notify_one();
    log_put_off(*member);
  }
} catch (const std::exception& failure) {
  parts_.logger.log(LogLevel::error, "store cannot be worked on",
                    {{"store", member->name()}, {"reason", failure.what()}});
}

// Called while an exception is handled, which may be that there is no memory.
void SetScheduler::log_put_off(const MemberStore& member) const noexcept {
  constexpr std::string_view kText = "store cannot be worked on, will be tried again";
  try {
    parts_.logger.log(LogLevel::error, kText,
                      {{"store", member.name()}, {"reason", detail::current_exception_text()}});
  } catch (const std::exception&) {
    parts_.logger.log(LogLevel::error, kText, {{"store", member.name()}});
  }
}

void SetScheduler::add_lane(const MemberStorePtr& member) {
  const LanePtr lane = make_lane(member);
  lane->server = &server_of(member);
  ++lane->server->lanes;
  try {
    lanes_.emplace(lane->number(), lane);
    plan_look(lane);
    if (!parts_.options.dispatcher.reap_interval) return;
    // Spread over one more interval, so that many stores that were opened together do not go on
    // doing everything together.
    const auto spread = std::hash<std::string>{}(lane->name()) %
                        static_cast<std::size_t>(parts_.options.dispatcher.reap_interval->count());
    lane->state.keep_at = lane->keeper().next_reap() + Duration{static_cast<long>(spread)};
    add_timer(lane, LaneTimer::Kind::keep, lane->state.keep_at);
  } catch (...) {
    satisfy(lane);
    lanes_.erase(lane->number());
    leave(*lane->server);
    throw;
  }
}

LanePtr SetScheduler::make_lane(const MemberStorePtr& member) {
  const auto lane = std::make_shared<StoreLane>(
      ++last_number_, member, parts_.observer(member->name()),
      StoreLane::Parts{parts_.ready, *this, *workers_, parts_.counters, parts_.logger, parts_.clock,
                       parts_.options.dispatcher, parts_.options.notified_poll_interval,
                       in_flight_capacity(parts_.options.dispatcher)},
      *this);
  lane->origin().whole = lane;
  lane->listener = std::make_shared<LaneListener>(weak_from_this(), lane->number());
  return lane;
}

DatabaseServer& SetScheduler::server_of(const MemberStorePtr& member) {
  const auto [place, is_new] = servers_.try_emplace(member->server());
  try {
    if (is_new) place->second = std::make_unique<DatabaseServer>();
    if (parts_.has_threads) start_threads(*place->second);
  } catch (...) {
    if (is_new) servers_.erase(place);
    throw;
  }
  return *place->second;
}

// With fewer than wanted it goes on.
void SetScheduler::start_threads(DatabaseServer& server) {
  server.threads.reserve(parts_.options.calls_per_server);
  while (server.threads.size() < parts_.options.calls_per_server) {
    try {
      server.threads.emplace_back([this, &server] { run(server); });
      ++server.running;
    } catch (const std::exception&) {
      if (server.threads.empty()) throw;
      return;
    }
  }
}

// Its threads may be the ones that let the last store go, so another one joins them.
void SetScheduler::leave(DatabaseServer& server) {
  if (--server.lanes > 0) return;
  const auto found =
      std::ranges::find_if(servers_, [&](const auto& one) { return one.second.get() == &server; });
  server.is_over = true;
  server.work.notify_all();
  departed_.insert(servers_.extract(found));
}

void SetScheduler::on_removed(const MemberStorePtr& member) noexcept try {
  LanePtr lane;
  std::vector<InFlight*> waiting;
  {
    const std::lock_guard lock(mutex_);
    std::erase(put_off_, member);
    const auto is_it = [&](const auto& entry) { return entry.second->member() == member; };
    const auto found = std::ranges::find_if(lanes_, is_it);
    if (found == lanes_.end()) return;
    lane = found->second;
    lane->state.is_removed = true;
    lane->state.gives_up_at = parts_.clock.steady() + parts_.options.dispatcher.lease;
    lane->keeper().stop_reaping();
    satisfy(lane);
    // Under the lock: what is taken out keeps those waiting who would destroy what this needs.
    if (!is_stopping_) waiting = take_waiting(lane);
  }
  for (InFlight* message : waiting) workers_->give_back(*message);
  const std::lock_guard lock(mutex_);
  drop_if_finished(lane);
} catch (const std::exception& failure) {
  parts_.logger.log(LogLevel::error, "store not let go",
                    {{"store", member->name()}, {"reason", failure.what()}});
}

std::vector<InFlight*> SetScheduler::take_waiting(const LanePtr& lane) {
  return parts_.ready.extract(
      [&](const InFlight& message) { return message.origin == &lane->origin(); });
}

void SetScheduler::drop_if_finished(const LanePtr& lane) {
  const LaneState& state = lane->state;
  const bool is_idle = !state.is_claiming && !state.is_settling && !state.is_keeping &&
                       !state.wants_to_settle && lane->table().size() == 0;
  if (is_stopping_) quiet_.notify_all();
  if (!state.is_removed || !is_idle || lanes_.erase(lane->number()) == 0) return;
  leave(*lane->server);
  parts_.logger.log(LogLevel::info, "store finished with", {{"store", lane->name()}});
}

// What others tell ------------------------------------------------------------------------------

void SetScheduler::on_verdicts(StoreLane& lane) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(lane.number());
  if (found == lanes_.end()) return;
  lane.state.wants_to_settle = true;
  settle_soon(found->second);
}

void SetScheduler::settle_soon(const LanePtr& lane) {
  LaneState& state = lane->state;
  if (!state.wants_to_settle || state.is_queued_to_settle || state.is_settling) return;
  if (state.settle_at > parts_.clock.steady()) return;  // a timer tells when it may
  state.is_queued_to_settle = true;
  lane->server->to_settle.push_back(lane);
  lane->server->work.notify_one();
}

void SetScheduler::on_work(StoreLane& lane) noexcept { on_news_of(lane.number()); }

void SetScheduler::on_news_of(std::uint64_t lane) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(lane);
  if (found == lanes_.end()) return;
  found->second->cycle.on_news();
  plan_look(found->second);
}

void SetScheduler::on_due(StoreLane& lane, TimePoint time) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(lane.number());
  if (found == lanes_.end()) return;
  found->second->cycle.on_due(time, ClaimCycle::Now::of(parts_.clock));
  plan_look(found->second);
}

void SetScheduler::on_room() noexcept {
  if (!wants_room_.load() || parts_.ready.size() > wake_at_size_.load()) return;
  if (!wants_room_.exchange(false)) return;
  const std::lock_guard lock(mutex_);
  wake_claims();
}

void SetScheduler::on_limit_eased() noexcept {
  const std::lock_guard lock(mutex_);
  ++eases_;
  if (!std::exchange(any_waits_for_limits_, false)) return;
  for (const auto& [key, lane] : lanes_) {
    if (lane->state.is_hungry) continue;
    lane->cycle.on_eased();
    plan_look(lane);
  }
}

void SetScheduler::wake() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, lane] : lanes_) {
    LaneState& state = lane->state;
    lane->cycle.on_look();
    plan_look(lane);
    state.settle_at = {};
    settle_soon(lane);
    if (!std::exchange(state.wants_to_keep, true) && !state.is_keeping) {
      lane->server->to_keep.push_back(lane);
    }
  }
  for (const auto& [name, server] : servers_) server->work.notify_all();
  put_off_until_ = {};
  care_.notify_one();
}

void SetScheduler::plan_look(const LanePtr& lane) {
  const LaneState& state = lane->state;
  if (state.is_claiming || state.is_removed || is_stopping_) return;
  const ClaimCycle::Step step = lane->cycle.next(parts_.clock.steady());
  if (step.claims()) return make_hungry(lane);
  satisfy(lane);
  look_at(lane, step.until);
}

void SetScheduler::make_hungry(const LanePtr& lane) {
  LaneState& state = lane->state;
  if (!state.is_hungry) {
    hungry_.insert(lane);  // may throw: the rest only after it
    state.is_hungry = true;
    ++lane->server->hungry;
  }
  lane->server->work.notify_one();
}

void SetScheduler::satisfy(const LanePtr& lane) {
  if (!std::exchange(lane->state.is_hungry, false)) return;
  hungry_.erase(lane);
  --lane->server->hungry;
}

void SetScheduler::wake_claims() {
  for (const auto& [name, server] : servers_) {
    if (server->hungry > 0) server->work.notify_one();
  }
}

// The threads -----------------------------------------------------------------------------------

void SetScheduler::run(DatabaseServer& server) {
  Lock lock(mutex_);
  while (!threads_end_ && !server.is_over) {
    if (!run_next(server, lock)) wait_for_work(server, lock);
  }
  if (--server.running == 0) care_.notify_one();
}

bool SetScheduler::run_next(DatabaseServer& server, Lock& lock) {
  take_due_timers(server);
  LanePtr lane;
  if ((lane = take_first(server.to_settle)) != nullptr) {
    settle(lane, lock);
  } else if ((lane = take_first(server.to_keep)) != nullptr) {
    keep(lane, lock);
  } else if (const auto chosen = choose(server)) {
    lane = chosen->lane;
    // Others may have their turn meanwhile: this one may hang.
    if (server.hungry > 1 && server.idle > 0) server.work.notify_one();
    look(*chosen, lock);
  } else {
    return false;
  }
  drop_if_finished(lane);
  lock.unlock();
  lane.reset();  // outside of the lock: its store may be closed by that
  lock.lock();
  return true;
}

bool SetScheduler::run_next(const std::string& server) {
  Lock lock(mutex_);
  const auto found = servers_.find(server);
  if (found == servers_.end()) return false;
  // The server goes with its last store, which may be let go of by this call.
  ++found->second->running;
  DatabaseServer& running_on = *found->second;
  const bool has_run = run_next(running_on, lock);
  --running_on.running;
  bury(lock);
  return has_run;
}

SteadyTime SetScheduler::next_change() const {
  const std::lock_guard lock(mutex_);
  SteadyTime next = SteadyTime::max();
  for (const auto& [name, server] : servers_) {
    if (!server->timers.empty()) next = std::min(next, server->timers.top().at);
  }
  return next;
}

// One waits for the time, so that a timer wakes one thread. When it leaves for work, another takes
// its place.
void SetScheduler::wait_for_work(DatabaseServer& server, Lock& lock) {
  ++server.idle;
  if (server.has_timekeeper || server.timers.empty()) {
    server.work.wait(lock);
    --server.idle;
    return;
  }
  server.has_timekeeper = true;
  server.work.wait_until(lock, server.timers.top().at);
  server.has_timekeeper = false;
  --server.idle;
  if (server.idle > 0) server.work.notify_one();
}

void SetScheduler::add_timer(const LanePtr& lane, LaneTimer::Kind kind, SteadyTime at) {
  if (at == SteadyTime::max()) return;
  DatabaseServer& server = *lane->server;
  const bool is_first = server.timers.empty() || at < server.timers.top().at;
  server.timers.push({at, kind, lane});
  if (is_first) server.work.notify_all();  // the timekeeper waits for a later one
}

void SetScheduler::take_due_timers(DatabaseServer& server) {
  const SteadyTime now = parts_.clock.steady();
  while (!server.timers.empty() && server.timers.top().at <= now) {
    const LaneTimer timer = server.timers.top();
    server.timers.pop();
    ring(timer);
  }
}

void SetScheduler::ring(const LaneTimer& timer) {
  const LanePtr lane = timer.lane.lock();
  if (!lane || !lanes_.contains(lane->number())) return;
  LaneState& state = lane->state;
  const SteadyTime now = parts_.clock.steady();
  switch (timer.kind) {
    case LaneTimer::Kind::look:
      if (state.look_at > now) return;
      state.look_at = SteadyTime::max();
      return plan_look(lane);
    case LaneTimer::Kind::settle:
      return settle_soon(lane);
    case LaneTimer::Kind::keep:
      if (state.keep_at > now || state.wants_to_keep) return;
      state.wants_to_keep = true;
      if (!state.is_keeping) lane->server->to_keep.push_back(lane);
      return;
  }
}

void SetScheduler::look_at(const LanePtr& lane, SteadyTime at) {
  if (at >= lane->state.look_at) return;
  lane->state.look_at = at;
  add_timer(lane, LaneTimer::Kind::look, at);
}

// The caretaker ---------------------------------------------------------------------------------

void SetScheduler::care() {
  Lock lock(mutex_);
  while (!threads_end_) {
    bury(lock);
    if (threads_end_) return;
    if (put_off_.empty() || is_stopping_) {
      care_.wait(lock);
    } else if (parts_.clock.steady() < put_off_until_) {
      care_.wait_until(lock, put_off_until_);
    } else {
      try_put_off();
    }
  }
}

void SetScheduler::bury(Lock& lock) {
  for (auto at = departed_.begin(); at != departed_.end();) {
    if (at->second->running > 0) {
      ++at;
      continue;
    }
    {
      const auto gone = departed_.extract(at);
      lock.unlock();
    }  // joins its threads, which have ended
    lock.lock();
    at = departed_.begin();
  }
}

void SetScheduler::try_put_off() {
  std::erase_if(put_off_, [this](const MemberStorePtr& member) {
    try {
      add_lane(member);
      return true;
    } catch (...) {
      log_put_off(*member);
      return false;
    }
  });
  put_off_until_ = parts_.clock.steady() + put_off_pause_.take();
  if (put_off_.empty()) put_off_pause_.reset();
}

// Settlements and leases ------------------------------------------------------------------------

bool SetScheduler::may_call(const StoreLane& lane) const {
  return !lane.state.is_troubled || lane.server->troubled_jobs < most_troubled_;
}

LanePtr SetScheduler::take_first(std::deque<LanePtr>& lanes) const {
  const auto found =
      std::ranges::find_if(lanes, [this](const LanePtr& lane) { return may_call(*lane); });
  if (found == lanes.end()) return nullptr;
  LanePtr lane = *found;
  lanes.erase(found);
  return lane;
}

SetScheduler::TroubledJob::TroubledJob(StoreLane& lane)
    : lane_(lane), counts_(lane.state.is_troubled) {
  if (counts_) ++lane_.server->troubled_jobs;
}

SetScheduler::TroubledJob::~TroubledJob() {
  if (!counts_) return;
  --lane_.server->troubled_jobs;
  lane_.server->work.notify_one();
}

void SetScheduler::settle(const LanePtr& lane, Lock& lock) {
  const TroubledJob job(*lane);
  LaneState& state = lane->state;
  state.wants_to_settle = false;
  state.is_queued_to_settle = false;
  state.is_settling = true;
  if (state.gives_up_at <= parts_.clock.steady()) lane->settler().stop_repeating();
  lock.unlock();
  const SteadyTime next = lane->settler().step();
  lock.lock();
  state.is_settling = false;
  const bool has_more = next != Settler::kNothingLeft;
  const bool has_to_wait = has_more && next > parts_.clock.steady();
  state.is_troubled = has_to_wait;
  state.settle_at = has_to_wait ? next : SteadyTime{};
  state.wants_to_settle |= has_more;
  if (has_to_wait) add_timer(lane, LaneTimer::Kind::settle, next);
  settle_soon(lane);
}

void SetScheduler::keep(const LanePtr& lane, Lock& lock) {
  const TroubledJob job(*lane);
  LaneState& state = lane->state;
  state.wants_to_keep = false;
  state.is_keeping = true;
  lock.unlock();
  const SteadyTime next = lane->keeper().step();
  lock.lock();
  state.is_keeping = false;
  if (state.wants_to_keep) lane->server->to_keep.push_back(lane);
  state.keep_at = lane->table().size() > 0 ? next : lane->keeper().next_reap();
  add_timer(lane, LaneTimer::Kind::keep, state.keep_at);
}

// The end ---------------------------------------------------------------------------------------

void SetScheduler::stop_claiming() {
  const std::lock_guard lock(mutex_);
  is_stopping_ = true;
  for (const auto& [key, lane] : lanes_) {
    satisfy(lane);
    lane->keeper().stop_reaping();
  }
}

std::size_t SetScheduler::in_flight_locked() const {
  std::size_t messages = 0;
  std::size_t claims = 0;
  for (const auto& [key, lane] : lanes_) {
    messages += lane->table().size();
    if (lane->state.is_claiming) ++claims;
  }
  return messages == 0 ? std::min<std::size_t>(claims, 1) : messages;
}

std::size_t SetScheduler::in_flight() const {
  const std::lock_guard lock(mutex_);
  return in_flight_locked();
}

bool SetScheduler::is_claiming_locked() const {
  return std::ranges::any_of(lanes_,
                             [](const auto& entry) { return entry.second->state.is_claiming; });
}

bool SetScheduler::is_claiming() const {
  const std::lock_guard lock(mutex_);
  return is_claiming_locked();
}

bool SetScheduler::wait_quiet_until(SteadyTime deadline) {
  Lock lock(mutex_);
  return quiet_.wait_until(lock, deadline, [this] { return in_flight_locked() == 0; });
}

void SetScheduler::stop_repeating() {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, lane] : lanes_) lane->settler().stop_repeating();
  }
  wake();
}

void SetScheduler::stop_threads() {
  {
    Lock lock(mutex_);
    is_stopping_ = true;
    quiet_.wait(lock, [this] { return !is_claiming_locked(); });
  }
  stop_repeating();
  std::vector<std::jthread> threads;
  {
    Lock lock(mutex_);
    quiet_.wait(lock, [this] { return in_flight_locked() == 0; });
    threads_end_ = true;
    const auto end = [&](DatabaseServer& server) {
      server.work.notify_all();
      for (std::jthread& thread : server.threads) threads.push_back(std::move(thread));
      server.threads.clear();
    };
    for (const auto& [name, server] : servers_) end(*server);
    for (const auto& [name, server] : departed_) end(*server);
    care_.notify_all();
    threads.push_back(std::move(caretaker_));
  }
  threads.clear();
  // Let go of outside of the lock: a store that is closed waits for those who tell of work.
  std::map<std::uint64_t, LanePtr> lanes;
  std::map<std::string, std::unique_ptr<DatabaseServer>> servers;
  std::multimap<std::string, std::unique_ptr<DatabaseServer>> departed;
  std::set<LanePtr, ByName> hungry;
  std::vector<MemberStorePtr> put_off;
  const std::lock_guard lock(mutex_);
  lanes.swap(lanes_);
  servers.swap(servers_);
  departed.swap(departed_);
  hungry.swap(hungry_);
  put_off.swap(put_off_);
}

bool SetScheduler::is_own_thread(std::thread::id thread) const {
  const std::lock_guard lock(mutex_);
  const auto has_it = [&](const auto& entry) {
    return std::ranges::any_of(entry.second->threads,
                               [&](const std::jthread& own) { return own.get_id() == thread; });
  };
  return caretaker_.get_id() == thread || std::ranges::any_of(servers_, has_it) ||
         std::ranges::any_of(departed_, has_it);
}

}  // namespace oncebox::dispatcher
