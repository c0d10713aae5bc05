// The part of the scheduler that decides which store is claimed from, and claims.

#include <algorithm>
#include <chrono>
#include <utility>

#include "oncebox/engine/exception_text.hpp"
#include "set_scheduler.hpp"

namespace oncebox::dispatcher {

namespace {

/// A message counts so often, because the call of its handler may have a copy.
constexpr std::size_t kCopies = 2;
/// A store that holds less than one part in so many of the buffer holds little.
constexpr std::size_t kLittlePart = 64;

}  // namespace

SetScheduler::LaneRoom SetScheduler::room_for(const StoreLane& lane, std::size_t places) const {
  const DispatcherOptions& options = parts_.options.dispatcher;
  const std::size_t share = selection().share(*options.max_buffered, hungry_.size());
  const std::size_t left = share - std::min<std::size_t>(share, lane.origin().waiting);
  // Whole batches, or half of what it may have, so that claims do not crumble.
  const std::size_t whole = share == *options.max_buffered ? share : (share + 1) / 2;
  const std::size_t needed = std::clamp<std::size_t>(whole, 1, options.batch_size);
  if (left < needed) return {.shortfall = needed - left};
  const std::size_t wanted = std::min(left, options.batch_size);
  if (places < wanted) return {.shortfall = wanted - places};
  const std::size_t bytes = bytes_for(lane);
  return {.messages = bytes == 0 || lane.table().free() < wanted ? 0 : wanted, .bytes = bytes};
}

// Eighths of the buffer:
//   4  are shared: a store may take more while it holds less than is free, so that whatever hangs
//      leaves something to the next; while no other one holds any, it may take all;
//   1  is what all claims bring that can be under way when that is used up;
//   1  is for stores that hold little, and less than is left of these six;
//   1  is what all claims bring that can be under way when that is used up;
//   1  is for stores that hold nothing: each always may take its part.
std::size_t SetScheduler::bytes_for(const StoreLane& lane) const {
  const std::size_t buffer = parts_.options.dispatcher.buffer_bytes;
  const std::size_t held = bytes_held_.load();
  const std::size_t own = lane.origin().bytes.load();
  const auto left_of = [held](std::size_t bytes) { return bytes - std::min(bytes, held); };
  const std::size_t shared = buffer / 2;
  const std::size_t little = std::min(left_of(buffer / 4 * 3), buffer / kLittlePart);
  const bool is_alone = own >= held;
  const std::size_t most = is_alone ? shared : std::max(left_of(shared), little);
  const auto part = [buffer](std::size_t parts) {
    return std::max<std::size_t>(buffer / (8 * kCopies * parts), 1);
  };
  if (own < most) {
    return part(std::min(parts_.options.calls_per_server * lanes_on_.size(), lanes_.size()));
  }
  return own > 0 ? 0 : part(lanes_.size());
}

void SetScheduler::make_hungry(std::uint64_t lane) noexcept {
  const detail::Lock lock(mutex_);
  const auto found = lanes_.find(lane);
  if (found == lanes_.end() || is_stopping_) return;
  StoreLane& wanted = *found->second;
  if (wanted.state.is_removed || wanted.is_hungry()) return;
  hungry_.insert(std::move(wanted.hungry_entry));
}

void SetScheduler::satisfy(StoreLane& lane) noexcept {
  if (lane.is_hungry()) lane.hungry_entry = hungry_.extract(&lane);
}

const engine::StoreCalls::Lane* SetScheduler::choose(
    const StoreCalls::Candidates& candidates) noexcept {
  const detail::Lock lock(mutex_);
  if (!is_started_ || is_stopping_) return nullptr;
  StoreLane* lane = nullptr;
  try {
    lane = choose_lane(candidates);
  } catch (const std::exception&) {
    lane = first_lane(candidates);  // there is no memory to choose
  }
  return lane == nullptr ? nullptr : lane->calls.get();
}

// Claims under way are not counted: one that hangs must not keep room from others.
std::size_t SetScheduler::free_places() const {
  const std::size_t most = *parts_.options.dispatcher.max_buffered;
  return most - std::min(parts_.ready.size(), most);
}

StoreLane* SetScheduler::first_lane(const StoreCalls::Candidates& candidates) {
  const detail::Lock selecting(selection_mutex_);
  const std::size_t places = free_places();
  for (StoreLane* lane : hungry_) {
    if (!candidates.has(*lane->calls)) continue;
    const LaneRoom room = room_for(*lane, places);
    if (room.messages == 0) continue;
    prepare_claim(*lane, room);
    return lane;
  }
  return nullptr;
}

void SetScheduler::prepare_claim(StoreLane& lane, const LaneRoom& room) const {
  lane.state.messages = room.messages;
  lane.state.bytes = room.bytes;
  lane.state.eases = eases_;
}

StoreLane* SetScheduler::choose_lane(const StoreCalls::Candidates& candidates) {
  const DispatcherOptions& options = parts_.options.dispatcher;
  // Said before looking: a thread that makes room after the look sees it.
  const std::size_t wanted_before = wants_room_ ? wake_at_size_.load() : 0;
  wake_at_size_ = *options.max_buffered;
  wants_room_ = true;
  const std::size_t places = free_places();
  const std::size_t buffered = *options.max_buffered - places;

  const detail::Lock selecting(selection_mutex_);
  candidates_.clear();
  candidate_lanes_.clear();
  bool any_free = false;
  std::size_t shortfall = buffered;
  for (StoreLane* lane : hungry_) {
    bool is_free = candidates.has(*lane->calls);
    LaneRoom room;
    if (is_free) {
      room = room_for(*lane, places);
      is_free = room.messages > 0;
      if (!is_free) shortfall = std::min(shortfall, room.shortfall);
    }
    any_free |= is_free;
    candidates_.push_back({lane->name(), lane->table().size(), is_free, lane->member()->server()});
    candidate_lanes_.push_back({lane, room});
  }
  if (!any_free) {
    wake_at_size_ = std::max(buffered - shortfall, wanted_before);
    return nullptr;
  }
  const auto chosen = selection().choose(candidates_);
  if (!chosen || *chosen >= candidates_.size() || !candidates_[*chosen].is_free) return nullptr;
  const auto& [lane, room] = candidate_lanes_[*chosen];
  prepare_claim(*lane, room);
  return lane;
}

engine::CallEnded SetScheduler::look(StoreLane& lane) {
  const ClaimCycle::Step step = begin_claim(lane);
  if (!step.claims()) return {.store = CallEnded::Store::unknown, .again = step.until};
  const Found found = claim(lane, step.what);
  if (lane.table().size() > 0) {
    lane.calls->want_at(parts_.clock.steady() + lane.keeper().round(), CallKind::keep);
  }
  const CallEnded ended = end_claim(lane, found);
  give_back_if_removed(lane);
  calls_.reconsider();  // there may be room again, or it is another store's turn
  return ended;
}

engine::ClaimCycle::Step SetScheduler::begin_claim(StoreLane& lane) {
  const detail::Lock lock(mutex_);
  if (lane.state.is_removed || is_stopping_) return {.what = ClaimCycle::Do::wait};
  const auto now = ClaimCycle::Now::of(parts_.clock);
  const ClaimCycle::Step step = lane.cycle.next(now.steady);
  if (step.claims()) {
    lane.state.is_claiming = true;
    lane.state.look = looks_asked_;
    lane.cycle.begin(step.what, now);
  } else {
    satisfy(lane);
  }
  return step;
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

SetScheduler::Found SetScheduler::claim(StoreLane& lane, ClaimCycle::Do what) {
  Found found;
  try {
    if (!lane.listens) lane.store().listen(lane.listener);
    lane.listens = true;
    const TimePoint now = parts_.clock.now();
    found.has_asked = what == ClaimCycle::Do::ask_due_and_claim;
    if (found.has_asked) found.due = lane.store().next_due();
    ClaimPlans plans;
    bool limited_first = false;
    {
      const detail::Lock planning(planning_mutex_);
      plans = parts_.routes.plan(lane.state.messages, now);
      if (plans.limited) plans.limited->reserve(now);
      limited_first = std::exchange(limited_first_, !limited_first_);
    }
    const Reservation reservation(*this, plans.limited, now);
    found.lacks_room = plans.lacks_room;
    found.room_at = plans.room_at;
    for (const auto* plan : {limited_first ? &plans.limited : &plans.unlimited,
                             limited_first ? &plans.unlimited : &plans.limited}) {
      if (*plan) claim(lane, **plan, found);
    }
  } catch (...) {
    found.has_failed = true;
    found.failure = detail::current_exception_text();
  }
  return found;
}

void SetScheduler::claim(StoreLane& lane, const ClaimPlan& plan, Found& found) {
  const DispatcherOptions& options = parts_.options.dispatcher;
  const std::size_t limit = std::min(plan.limit, lane.state.messages - found.messages);
  if (limit == 0 || found.bytes >= lane.state.bytes) {
    found.claimed = ClaimCycle::Claimed::full;
    return;
  }
  const ClaimRequest request{.owner = *options.owner,
                             .lease = options.lease,
                             .limit = limit,
                             .max_bytes = lane.state.bytes - found.bytes,
                             .topics = plan.topics,
                             .worker = options.worker_name};
  const TimePoint lease_until = parts_.clock.now() + options.lease;
  ClaimResult claimed = lane.store().claim(request);
  parts_.counters.note(claimed.reaped);
  ++parts_.counters.claims;
  if (claimed.empty()) {
    // There may be more than what it had to clear away first.
    if (claimed.reaped.total() > 0) {
      found.claimed = std::max(found.claimed, ClaimCycle::Claimed::some);
    } else {
      ++parts_.counters.empty_claims;
    }
    return;
  }
  parts_.counters.claim_batch.record(claimed.size());
  found.messages += claimed.size();
  for (const ClaimedMessage& message : claimed) found.bytes += bytes_of(message);
  found.claimed = std::max(found.claimed, claimed.size() == limit ? ClaimCycle::Claimed::full
                                                                  : ClaimCycle::Claimed::some);
  admission_->take_in(lane.table(), lane.origin(), std::move(claimed.messages), lease_until,
                      [this, &lane] {
                        const detail::Lock selecting(selection_mutex_);
                        return selection().place(lane.name(), parts_.ready.served());
                      });
}

engine::CallEnded SetScheduler::end_claim(StoreLane& lane, const Found& found) {
  const auto now = ClaimCycle::Now::of(parts_.clock);
  Duration pause{};
  SteadyTime look_at{};
  {
    const detail::Lock lock(mutex_);
    lane.state.is_claiming = false;
    if (found.lacks_room) any_waits_for_limits_ = true;
    if (found.has_failed) {
      pause = lane.cycle.failed(now);
    } else {
      if (eases_ != lane.state.eases) lane.cycle.on_eased();
      lane.cycle.found(found, now);
      const bool has_looked_everywhere = found.has_asked && !found.lacks_room;
      if (has_looked_everywhere && found.claimed == ClaimCycle::Claimed::nothing) {
        lane.state.found_nothing = lane.state.look;
        lane.state.due = found.due.value_or(kMaxTime);
      }
    }
    look_at = plan(lane).look_at;
    if (look_at > now.steady) satisfy(lane);
  }
  if (!found.has_failed) return {.again = look_at};
  ++parts_.counters.failed_store_calls;
  parts_.logger.log(LogLevel::warning, "claim failed, will be tried again",
                    {{"store", lane.name()}, {"pause_ms", pause}, {"reason", found.failure}});
  return {.store = CallEnded::Store::failed, .again = look_at};
}

// What a claim has brought of a store that was removed meanwhile.
void SetScheduler::give_back_if_removed(const StoreLane& lane) {
  {
    const detail::Lock lock(mutex_);
    if (!lane.state.is_removed) return;
  }
  for (InFlight* message : take_waiting(lane)) workers_->give_back(*message);
}

}  // namespace oncebox::dispatcher
