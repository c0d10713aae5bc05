// The part of the scheduler that decides which store is claimed from, and claims.

#include <algorithm>
#include <chrono>
#include <utility>

#include "set_scheduler.hpp"

namespace oncebox::dispatcher {

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
              .what = lane->cycle.next(parts_.clock.steady()).what,
              .eases = eases_};
}

void SetScheduler::look(const Look& look, Lock& lock) {
  const TroubledJob job(*look.lane);
  LaneState& state = look.lane->state;
  state.is_claiming = true;
  look.lane->cycle.begin(look.what, ClaimCycle::Now::of(parts_.clock));
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

SetScheduler::Found SetScheduler::claim(const Look& look) {
  Found found;
  try {
    if (!look.lane->state.listens) look.lane->store().listen(look.lane->listener);
    look.lane->state.listens = true;
    const TimePoint now = parts_.clock.now();
    if (look.what == ClaimCycle::Do::ask_due_and_claim) found.due = look.lane->store().next_due();
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
    found.room_at = plans.room_at;
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
    found.claimed = ClaimCycle::Claimed::full;
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
  found.claimed = std::max(found.claimed, claimed.size() == limit ? ClaimCycle::Claimed::full
                                                                  : ClaimCycle::Claimed::some);
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
    const SteadyTime first_round = parts_.clock.steady() + lane->keeper().round();
    if (first_round < state.keep_at) {
      state.keep_at = first_round;
      add_timer(lane, LaneTimer::Kind::keep, first_round);
    }
  }
  if (found.lacks_room) any_waits_for_limits_ = true;
  if (found.failure) {
    rest(lane, *found.failure);
  } else {
    state.is_troubled = false;
    if (eases_ != look.eases) lane->cycle.on_eased();
    lane->cycle.found(found, ClaimCycle::Now::of(parts_.clock));
  }
  plan_look(lane);
}

void SetScheduler::rest(const LanePtr& lane, const std::string& failure) {
  ++parts_.counters.failed_store_calls;
  lane->state.is_troubled = true;
  const Duration pause = lane->cycle.failed(ClaimCycle::Now::of(parts_.clock));
  parts_.logger.log(LogLevel::warning, "claim failed, will be tried again",
                    {{"store", lane->name()}, {"pause_ms", pause}, {"reason", failure}});
}

}  // namespace oncebox::dispatcher
