#include "set_scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "effective_options.hpp"
#include "oncebox/engine/exception_text.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::dispatcher {

namespace {

/// How long a store rests that cannot be worked on for lack of memory.
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
      quiet_(parts.clock),
      put_off_pause_({.first = kFirstPutOff, .longest = kLongestPutOff}),
      calls_({.limits = {.per_server = parts.options.calls_per_server},
              .threads = parts.has_threads ? engine::CallLimits::kAnyNumber : 0,
              .threads_kept = parts.has_threads ? std::size_t{1} : 0,
              .chooser = this},
             parts.clock),
      put_off_calls_(calls_.add({.server = "stores that were put off",
                                 .run = [this](CallKind) { return try_put_off(); }})) {}

SetScheduler::~SetScheduler() = default;

void SetScheduler::start(const Handling& handling, StoreSource& stores) {
  workers_ = &handling.workers;
  admission_ = &handling.admission;
  stores.listen(shared_from_this());
  {
    const detail::Lock lock(mutex_);
    is_started_ = true;
  }
  calls_.reconsider();
}

void SetScheduler::start_without_set(const Handling& handling) {
  workers_ = &handling.workers;
  admission_ = &handling.admission;
  const detail::Lock lock(mutex_);
  is_started_ = true;
}

// Stores that come and go -----------------------------------------------------------------------

class SetScheduler::Hearing {
 public:
  explicit Hearing(SetScheduler& scheduler) : scheduler_(scheduler) {
    const detail::Lock lock(scheduler_.mutex_);
    ++scheduler_.hearings_;
  }
  ~Hearing() {
    const detail::Lock lock(scheduler_.mutex_);
    if (--scheduler_.hearings_ == 0) scheduler_.quiet_.notify_all();
  }
  Hearing(const Hearing&) = delete;
  Hearing& operator=(const Hearing&) = delete;

 private:
  SetScheduler& scheduler_;
};

void SetScheduler::on_opened(const MemberStorePtr& member) noexcept try {
  const Hearing hearing(*this);
  {
    const detail::Lock lock(mutex_);
    if (is_stopping_) return;
    without_lane_.push_back(member);
  }
  try {
    add_lane(member);
  } catch (...) {
    // Of this kind because no chooser is asked for it.
    put_off_calls_.want_at(parts_.clock.steady() + kFirstPutOff, CallKind::keep);
    log_put_off(*member);
  }
} catch (const std::exception& failure) {
  parts_.logger.log(LogLevel::error,
                    "no message is claimed from the store until it is opened again",
                    {{"store", member->name()}, {"reason", failure.what()}});
}

// Called while an exception is handled, which may be that there is no memory.
void SetScheduler::log_put_off(const MemberStore& member) const noexcept {
  parts_.logger.log(LogLevel::error, "no message is claimed from the store; it will be tried again",
                    {{"store", member.name()}, {"reason", detail::current_exception_text()}});
}

SetScheduler::CallEnded SetScheduler::try_put_off() {
  std::vector<MemberStorePtr> members;
  {
    const detail::Lock lock(mutex_);
    members = without_lane_;
  }
  for (const MemberStorePtr& member : members) {
    try {
      add_lane(member);
    } catch (...) {
      log_put_off(*member);
    }
  }
  const detail::Lock lock(mutex_);
  if (!without_lane_.empty()) return {.again = parts_.clock.steady() + put_off_pause_.take()};
  put_off_pause_.reset();
  return {};
}

void SetScheduler::add_lane(const MemberStorePtr& member) {
  const LanePtr lane = make_lane(member);
  SteadyTime first_reap = lane->keeper().next_reap();
  {
    const detail::Lock lock(mutex_);
    if (is_stopping_) return;
    const auto found = std::ranges::find(without_lane_, member);
    if (found == without_lane_.end()) return;  // it was removed meanwhile
    std::size_t& lanes = lanes_on_[member->server()];
    lanes_.emplace(lane->number(), lane);
    ++lanes;
    without_lane_.erase(found);
  }
  lane->calls->want();
  parts_.idle.on_change();
  if (!parts_.options.dispatcher.reap_interval) return;
  // Spread over one more interval, so that many stores that were opened together do not go on
  // doing everything together.
  const auto spread = std::hash<std::string>{}(lane->name()) %
                      static_cast<std::size_t>(parts_.options.dispatcher.reap_interval->count());
  first_reap += Duration{static_cast<long>(spread)};
  lane->calls->want_at(first_reap, CallKind::keep);
}

LanePtr SetScheduler::make_lane(const MemberStorePtr& member) {
  const detail::Lock making(making_mutex_);
  const auto lane = std::make_shared<StoreLane>(
      ++last_number_, member, parts_.observer(member->name()),
      StoreLane::Parts{parts_.ready, *this, *workers_, parts_.counters, parts_.dead_handlers,
                       parts_.logger, parts_.clock, parts_.tracer, parts_.options.dispatcher,
                       parts_.options.notified_poll_interval,
                       in_flight_capacity(parts_.options.dispatcher), parts_.options.queue},
      *this);
  lane->origin().whole = lane;
  lane->listener = std::make_shared<LaneListener>(weak_from_this(), lane->number());
  const auto run = [this, weak = std::weak_ptr(lane)](CallKind kind) {
    return this->run(weak, kind);
  };
  const auto on_ready = [this, number = lane->number()] { make_hungry(number); };
  lane->calls = std::make_shared<const StoreCalls::Lane>(
      calls_.add({.server = member->server(), .run = run, .on_ready = on_ready}));
  return lane;
}

void SetScheduler::on_removed(const MemberStorePtr& member) noexcept try {
  const Hearing hearing(*this);
  LanePtr lane;
  std::vector<InFlight*> waiting;
  {
    const detail::Lock lock(mutex_);
    std::erase(without_lane_, member);
    const auto is_it = [&](const auto& entry) { return entry.second->member() == member; };
    const auto found = std::ranges::find_if(lanes_, is_it);
    if (found == lanes_.end()) return;
    lane = found->second;
    lane->state.is_removed = true;
    lane->gives_up_at = parts_.clock.steady() + parts_.options.dispatcher.lease;
    lane->keeper().stop_reaping();
    satisfy(*lane);
    if (!is_stopping_) waiting = take_waiting(*lane);
  }
  lane->calls->unwant();
  for (InFlight* message : waiting) workers_->give_back(*message);
  drop_if_finished(*lane);
  calls_.reconsider();  // it may have been the one whose turn it was
} catch (const std::exception& failure) {
  parts_.logger.log(LogLevel::error, "a removed store stays open until the dispatcher stops",
                    {{"store", member->name()}, {"reason", failure.what()}});
}

std::vector<InFlight*> SetScheduler::take_waiting(const StoreLane& lane) {
  return parts_.ready.extract(
      [&](const InFlight& message) { return message.origin == &lane.origin(); });
}

void SetScheduler::drop_if_finished(const StoreLane& lane) {
  parts_.idle.on_change();
  {
    const detail::Lock lock(mutex_);
    if (is_stopping_) quiet_.notify_all();
    const bool is_idle = !lane.state.is_claiming && lane.table().size() == 0;
    if (!lane.state.is_removed || !is_idle || lanes_.erase(lane.number()) == 0) return;
    const auto server = lanes_on_.find(lane.member()->server());
    if (--server->second == 0) lanes_on_.erase(server);
  }
  parts_.logger.log(LogLevel::info, "store finished with", {{"store", lane.name()}});
}

// What others tell ------------------------------------------------------------------------------

void SetScheduler::on_verdicts(StoreLane& lane) noexcept {
  lane.calls->want_at(lane.settle_at, CallKind::settle);
}

void SetScheduler::on_work(StoreLane& lane) noexcept { on_news_of(lane.number()); }

void SetScheduler::on_news_of(std::uint64_t lane) noexcept {
  change(lane, [](StoreLane& told) { told.cycle.on_news(); });
}

void SetScheduler::on_due(StoreLane& lane, TimePoint time) noexcept {
  const auto now = ClaimCycle::Now::of(parts_.clock);
  change(lane.number(), [&](StoreLane& told) { told.cycle.on_due(time, now); });
}

void SetScheduler::on_room() noexcept {
  if (!wants_room_.load() || parts_.ready.size() > wake_at_size_.load()) return;
  if (wants_room_.exchange(false)) calls_.reconsider();
}

void SetScheduler::on_limit_eased() noexcept {
  {
    const detail::Lock lock(mutex_);
    ++eases_;
    if (!std::exchange(any_waits_for_limits_, false)) return;
  }
  const auto ease = [](StoreLane& lane) {
    if (!lane.is_hungry()) lane.cycle.on_eased();  // it claims anyway, or `end_claim` eases it
  };
  change_all(ease, follow);
}

void SetScheduler::wake() noexcept {
  const auto change = [](StoreLane& lane) {
    lane.cycle.on_look();
    lane.settle_at = SteadyTime::min();
  };
  change_all(change, [](const Plan& plan) {
    follow(plan);
    plan.calls->want(CallKind::settle);
    plan.calls->want(CallKind::keep);
  });
  put_off_calls_.want(CallKind::keep);
}

SetScheduler::Plan SetScheduler::plan(const StoreLane& lane) const {
  Plan plan{.calls = lane.calls};
  if (lane.state.is_claiming || lane.state.is_removed || is_stopping_) return plan;
  const ClaimCycle::Step step = lane.cycle.next(parts_.clock.steady());
  plan.look_at = step.claims() ? SteadyTime{} : step.until;
  return plan;
}

void SetScheduler::follow(const Plan& plan) noexcept {
  if (plan.look_at != SteadyTime::max()) plan.calls->want_at(plan.look_at);
}

template <class Change>
void SetScheduler::change(std::uint64_t lane, Change apply) noexcept {
  Plan plan;
  {
    const detail::Lock lock(mutex_);
    const auto found = lanes_.find(lane);
    if (found == lanes_.end()) return;
    apply(*found->second);
    plan = this->plan(*found->second);
  }
  follow(plan);
}

template <class Change, class Then>
void SetScheduler::change_all(Change apply, Then then) noexcept {
  std::uint64_t number = 0;
  for (;;) {
    Plan plan;
    {
      const detail::Lock lock(mutex_);
      const auto next = lanes_.upper_bound(number);
      if (next == lanes_.end()) return;
      number = next->first;
      apply(*next->second);
      plan = this->plan(*next->second);
    }
    then(plan);
  }
}

std::uint64_t SetScheduler::ask_to_look() {
  std::uint64_t look = 0;
  {
    const detail::Lock lock(mutex_);
    look = ++looks_asked_;
  }
  change_all([](StoreLane& lane) { lane.cycle.on_look(); }, follow);
  return look;
}

bool SetScheduler::has_found_nothing(std::uint64_t look, Duration due_within) const {
  const TimePoint due_after = due_within <= Duration::zero()
                                  ? TimePoint::min()
                                  : parts_.clock.now() + std::min(due_within, limits::kMaxDelay);
  const detail::Lock lock(mutex_);
  return without_lane_.empty() && std::ranges::all_of(lanes_, [&](const auto& entry) {
           const LaneState& state = entry.second->state;
           return state.is_removed || (state.found_nothing >= look && state.due > due_after);
         });
}

// The calls -------------------------------------------------------------------------------------

SetScheduler::CallEnded SetScheduler::run(const std::weak_ptr<StoreLane>& weak, CallKind kind) {
  const LanePtr lane = weak.lock();
  if (!lane) return {.store = CallEnded::Store::unknown};
  const CallEnded ended = kind == CallKind::settle ? settle(*lane)
                          : kind == CallKind::keep ? keep(*lane)
                                                   : look(*lane);
  drop_if_finished(*lane);
  return ended;
}

SetScheduler::CallEnded SetScheduler::settle(StoreLane& lane) const {
  if (!lane.settler().has_verdicts()) return {.store = CallEnded::Store::unknown};
  const SteadyTime now = parts_.clock.steady();
  if (const SteadyTime at = lane.settle_at; at > now) {
    return {.store = CallEnded::Store::unknown, .again = at};
  }
  if (lane.gives_up_at.load() <= now) lane.settler().stop_repeating();
  SteadyTime nothing_said{};
  lane.settle_at = nothing_said;
  const SteadyTime next = lane.settler().step();
  const bool has_to_wait = next != Settler::kNothingLeft && next > parts_.clock.steady();
  // Unless `wake` has said meanwhile that the next step does not wait.
  if (has_to_wait) lane.settle_at.compare_exchange_strong(nothing_said, next);
  return {.store = has_to_wait ? CallEnded::Store::failed : CallEnded::Store::is_well,
          .again = next};
}

SetScheduler::CallEnded SetScheduler::keep(StoreLane& lane) {
  const SteadyTime next = lane.keeper().step();
  return {.store = CallEnded::Store::unknown,
          .again = lane.table().size() > 0 ? next : lane.keeper().next_reap()};
}

// The end ---------------------------------------------------------------------------------------

void SetScheduler::stop_claiming() {
  {
    const detail::Lock lock(mutex_);
    is_stopping_ = true;
  }
  change_all([](StoreLane& lane) { lane.keeper().stop_reaping(); }, [](const Plan&) {});
}

std::size_t SetScheduler::count_in_flight() const {
  std::size_t messages = 0;
  for (const auto& [key, lane] : lanes_) messages += lane->table().size();
  return messages == 0 && is_any_claiming() ? 1 : messages;
}

std::size_t SetScheduler::in_flight() const {
  const detail::Lock lock(mutex_);
  return count_in_flight();
}

bool SetScheduler::is_any_claiming() const {
  return std::ranges::any_of(lanes_,
                             [](const auto& entry) { return entry.second->state.is_claiming; });
}

bool SetScheduler::is_claiming() const {
  const detail::Lock lock(mutex_);
  return is_any_claiming();
}

bool SetScheduler::wait_quiet_until(SteadyTime deadline) {
  const detail::Lock lock(mutex_);
  while (count_in_flight() > 0) {
    if (!quiet_.wait_until(mutex_, deadline)) return count_in_flight() == 0;
  }
  return true;
}

void SetScheduler::stop_repeating() {
  change_all([](StoreLane& lane) { lane.settler().stop_repeating(); }, [](const Plan&) {});
  wake();
}

void SetScheduler::stop() {
  {
    const detail::Lock lock(mutex_);
    is_stopping_ = true;
    while (is_any_claiming()) quiet_.wait(mutex_);
  }
  stop_repeating();
  (void)wait_quiet_until(SteadyTime::max());
  calls_.drop();
  calls_.stop();
  // Let go of outside of the lock: closing a store waits for its calls to listeners of work.
  std::map<std::uint64_t, LanePtr> lanes;
  std::vector<MemberStorePtr> without_lane;
  const detail::Lock lock(mutex_);
  hungry_.clear();
  lanes.swap(lanes_);
  without_lane.swap(without_lane_);
  // A thread of the set that comes later finds nothing, and touches nothing of the dispatcher.
  while (hearings_ > 0) quiet_.wait(mutex_);
}

}  // namespace oncebox::dispatcher
