// The part of the scheduler that decides which store is claimed from, and claims.

#include <algorithm>
#include <chrono>
#include <utility>

#include "set_scheduler.hpp"

namespace oncebox::dispatcher {

namespace {

constexpr Duration kFirstRest{100};

}  // namespace

SetScheduler::LaneRoom SetScheduler::room_for(const StoreLane& lane, std::size_t places) const {
  const DispatcherOptions& options = parts_.options.dispatcher;
  const std::size_t share = parts_.selection.share(*options.max_buffered, hungry_.size());
  const std::size_t left = share - std::min<std::size_t>(share, lane.origin().waiting);
  // Whole batches, or half of what it may have, so that claims do not crumble.
  const std::size_t whole = share == *options.max_buffered ? share : (share + 1) / 2;
  const std::size_t needed = std::clamp<std::size_t>(whole, 1, options.batch_size);
  if (left < needed) return {.shortfall = needed - left};
  const std::size_t wanted = std::min(left, options.batch_size);
  if (places < wanted) return {.shortfall = wanted - places};
  return {.messages = lane.table().free() < wanted ? 0 : wanted};
}

// All that can be under way at a time fill the other half of the buffer. Whoever asks has a server.
std::size_t SetScheduler::bytes_of_claim() const {
  const std::size_t claims = parts_.options.calls_per_server * servers_.size();
  return std::max<std::size_t>(parts_.options.dispatcher.buffer_bytes / (2 * claims), 1);
}

std::optional<SetScheduler::Look> SetScheduler::choose(DatabaseServer& server) {
  if (!is_started_ || is_stopping_ || server.hungry == 0) return std::nullopt;
  const DispatcherOptions& options = parts_.options.dispatcher;
  wake_at_size_ = *options.max_buffered;
  wants_room_ = true;  // said before looking: who makes room after the look sees it
  const std::size_t buffered = parts_.ready.size();
  // Claims under way are not counted: one that hangs must not keep room from others.
  const std::size_t places = *options.max_buffered - std::min(buffered, *options.max_buffered);
  if (bytes_held_.load() > options.buffer_bytes / 2) return std::nullopt;

  const std::lock_guard selecting(selection_mutex_);
  std::vector<StoreCandidate> candidates;
  std::vector<const LanePtr*> lanes;
  candidates.reserve(hungry_.size());
  lanes.reserve(hungry_.size());
  bool any_free = false;
  std::size_t shortfall = buffered;
  for (const LanePtr& lane : hungry_) {
    bool is_free = lane->server == &server && !lane->state.is_claiming && may_call(*lane);
    if (is_free) {
      const LaneRoom room = room_for(*lane, places);
      is_free = room.messages > 0;
      if (!is_free) shortfall = std::min(shortfall, room.shortfall);
    }
    any_free |= is_free;
    candidates.push_back({lane->name(), lane->table().size(), is_free, lane->member()->server()});
    lanes.push_back(&lane);
  }
  if (!any_free) {
    wake_at_size_ = buffered - shortfall;
    return std::nullopt;
  }
  const auto chosen = parts_.selection.choose(candidates);
  if (!chosen || *chosen >= candidates.size() || !candidates[*chosen].is_free) return std::nullopt;
  const LanePtr& lane = *lanes[*chosen];
  return Look{.lane = lane,
              .messages = room_for(*lane, places).messages,
              .bytes = bytes_of_claim(),
              .asks_due = lane->state.asks_due,
              .heard = lane->state.heard,
              .eases = eases_};
}

void SetScheduler::look(const Look& look, Lock& lock) {
  const TroubledJob job(*look.lane);
  LaneState& state = look.lane->state;
  state.is_claiming = true;
  lock.unlock();
  const Found found = claim(look);
  lock.lock();
  if (state.is_removed) {
    lock.unlock();
    for (InFlight* message : take_waiting(look.lane)) workers_->give_back(*message);
    lock.lock();
  }
  state.is_claiming = false;
  conclude(look, found);
  wake_claims();  // there may be room again, or another's turn
}

/// The room of a plan, which the other claims do not have meanwhile.
class SetScheduler::Reservation {
 public:
  Reservation(SetScheduler& scheduler, const std::optional<ClaimPlan>& plan, TimePoint since)
      : scheduler_(scheduler), plan_(plan), since_(since) {}
  ~Reservation() {
    if (plan_ && plan_->unreserve(since_)) scheduler_.on_limit_eased();
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

 private:
  SetScheduler& scheduler_;
  const std::optional<ClaimPlan>& plan_;
  const TimePoint since_;
};

// Asked before the claim, the next due time misses nothing: what was due by then is claimed.
SetScheduler::Found SetScheduler::claim(const Look& look) {
  Found found;
  try {
    if (!look.lane->state.listens) look.lane->store().listen(look.lane->listener);
    look.lane->state.listens = true;
    const TimePoint now = parts_.clock.now();
    if (look.asks_due) {
      const TimePoint due = look.lane->store().next_due().value_or(kMaxTime);
      // A time that has come already does not help: the store's clock is behind ours.
      if (due > now) found.next_at = steady_time_of(due);
    }
    ClaimPlans plans;
    bool limited_first = false;
    {
      const std::lock_guard planning(planning_mutex_);
      plans = parts_.routes.plan(look.messages, now);
      if (plans.limited) plans.limited->reserve(now);
      limited_first = std::exchange(limited_first_, !limited_first_);
    }
    const Reservation reservation(*this, plans.limited, now);
    found.lacks_room = plans.lacks_room;
    found.next_at = std::min(found.next_at, steady_time_of(plans.room_at));
    for (const auto* plan : {limited_first ? &plans.limited : &plans.unlimited,
                             limited_first ? &plans.unlimited : &plans.limited}) {
      if (*plan) claim(look, **plan, found);
    }
  } catch (const std::exception& failure) {
    found.failure = failure.what();
  }
  return found;
}

void SetScheduler::claim(const Look& look, const ClaimPlan& plan, Found& found) {
  const DispatcherOptions& options = parts_.options.dispatcher;
  const std::size_t limit = std::min(plan.limit, look.messages - found.messages);
  if (limit == 0) {
    found.may_be_more = true;
    return;
  }
  const ClaimRequest request{.owner = *options.owner,
                             .lease = options.lease,
                             .limit = limit,
                             .max_bytes = look.bytes,
                             .topics = plan.topics,
                             .max_deliveries = *options.max_deliveries};
  const TimePoint lease_until = parts_.clock.now() + options.lease;
  std::vector<ClaimedMessage> claimed = look.lane->store().claim(request);
  ++parts_.counters.claims;
  if (claimed.empty()) {
    ++parts_.counters.empty_claims;
    return;
  }
  parts_.counters.claim_batch.record(claimed.size());
  found.messages += claimed.size();
  found.may_be_more = true;
  admission_->take_in(look.lane->table(), look.lane->origin(), std::move(claimed), lease_until,
                      [this, &look] {
                        const std::lock_guard selecting(selection_mutex_);
                        return parts_.selection.place(look.lane->name(), parts_.ready.served());
                      });
}

void SetScheduler::conclude(const Look& look, const Found& found) {
  const LanePtr& lane = look.lane;
  LaneState& state = lane->state;
  if (lane->table().size() > 0) {
    const SteadyTime first_round = std::chrono::steady_clock::now() + lane->keeper().round();
    if (first_round < state.keep_at) {
      state.keep_at = first_round;
      add_timer(lane, LaneTimer::Kind::keep, first_round);
    }
  }
  if (found.lacks_room) state.waits_for_limits = any_waits_for_limits_ = true;
  if (found.failure) return rest(lane, *found.failure);
  state.is_troubled = false;
  state.failure_pause = {};
  if (found.messages > 0) {
    state.poll_in = parts_.options.dispatcher.poll_interval;
    if (state.heard == look.heard) state.asks_due = true;
    return;  // there may be more: it stays hungry until a claim finds nothing
  }
  if (state.heard != look.heard || found.may_be_more) return;
  if (found.lacks_room && eases_ != look.eases) return;  // a limit was eased meanwhile
  if (!look.asks_due) {
    state.asks_due = true;
    return;
  }
  satisfy(lane);
  const SteadyTime poll_at = std::chrono::steady_clock::now() + state.poll_in;
  state.poll_in = std::min(state.poll_in * 2, state.max_poll);
  look_at(lane, std::min(found.next_at, poll_at));
}

// Notifications do not count meanwhile: a store that is in trouble is left alone for a while.
void SetScheduler::rest(const LanePtr& lane, const std::string& failure) {
  ++parts_.counters.failed_store_calls;
  LaneState& state = lane->state;
  const Duration longest = std::max(parts_.options.dispatcher.max_poll_interval, kFirstRest);
  state.failure_pause = std::clamp(state.failure_pause * 2, kFirstRest, longest);
  state.is_troubled = true;
  state.asks_due = true;  // a call that needs nothing goes first
  satisfy(lane);
  state.rests_until = std::chrono::steady_clock::now() + state.failure_pause;
  look_at(lane, state.rests_until);
  parts_.logger.log(
      LogLevel::warning, "claim failed, will be tried again",
      {{"store", lane->name()}, {"pause_ms", state.failure_pause}, {"reason", failure}});
}

}  // namespace oncebox::dispatcher
