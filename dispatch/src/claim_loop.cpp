#include "claim_loop.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "oncebox/limits.hpp"

namespace oncebox::dispatcher {

/// The enqueuing thread that answers it also takes the messages in, so that they need not wait for
/// the claiming thread to wake. The loop outlives the answer.
class ClaimLoop::Offer final : public ClaimOffer {
 public:
  Offer(ClaimLoop& loop, ClaimRequest request, std::uint64_t works)
      : ClaimOffer(std::move(request)),
        loop_(loop),
        signal_(loop.parts_.gate.listener()),
        works_(works) {}

  [[nodiscard]] bool is_answered() const noexcept { return is_answered_.load(); }
  [[nodiscard]] TimePoint lease_until() const noexcept { return lease_until_; }

 private:
  bool on_take() noexcept override {
    lease_until_ = loop_.parts_.clock.now() + request().lease;
    // What was announced since the claim is to be handed out first.
    return signal_->works.load() == works_;
  }

  void on_answer(std::vector<ClaimedMessage> claimed) noexcept override {
    if (!claimed.empty()) loop_.take_offered(std::move(claimed), lease_until_);
    is_answered_ = true;  // the loop may be gone from here on
    signal_->signal.raise(ClaimReasons::kOffer);
  }

  ClaimLoop& loop_;
  const std::shared_ptr<ClaimSignal> signal_;
  const std::uint64_t works_;
  TimePoint lease_until_{};  // of the messages that it was answered with
  std::atomic<bool> is_answered_ = false;
};

ClaimLoop::ClaimLoop(const Parts& parts, const Settings& settings)
    : parts_(parts),
      settings_(settings),
      cycle_({.poll = settings.poll_interval,
              .longest_poll = settings.max_poll_interval,
              .longest_rest = settings.max_poll_interval}) {}

void ClaimLoop::run(const std::stop_token& stop) {
  const std::stop_callback on_stop(stop,
                                   [this] { parts_.gate.signal().raise(ClaimReasons::kStop); });
  while (!stop.stop_requested()) {
    recall_offer();
    const WakeSignal::Reasons woken = parts_.gate.wait_for_room();
    hear(woken);
    if ((woken & ClaimReasons::kUrgent) != 0) continue;
    const ClaimCycle::Step step = cycle_.next(parts_.clock.steady());
    if (step.claims()) {
      look(step.what);
    } else if (step.what == ClaimCycle::Do::wait) {
      wait_for_work();
    } else {
      hear(parts_.gate.signal().wait_until(ClaimReasons::kLook | ClaimReasons::kStop, step.until));
    }
  }
  recall_offer();
  while (offer_) {
    parts_.gate.signal().wait(ClaimReasons::kOffer);
    recall_offer();
  }
}

void ClaimLoop::hear(WakeSignal::Reasons woken) {
  if ((woken & ClaimReasons::kWork) != 0) cycle_.on_news();
  if ((woken & ClaimReasons::kRoom) != 0) cycle_.on_eased();
  if ((woken & ClaimReasons::kLook) != 0) cycle_.on_look();
}

void ClaimLoop::look(ClaimCycle::Do what) {
  const std::size_t room = parts_.gate.room().messages;
  if (room == 0) return;
  const auto now = ClaimCycle::Now::of(parts_.clock);
  works_ = parts_.gate.listener()->works.load();
  const std::uint64_t look = looks_asked_.load();
  cycle_.begin(what, now);
  try {
    const ClaimCycle::Found found = claim(what, room, now.wall);
    cycle_.found(found, ClaimCycle::Now::of(parts_.clock));
    report(what, look, found);
  } catch (const std::exception& failure) {
    on_failure(failure);
  }
}

// Only a claim that asked before when something is due has looked everywhere.
void ClaimLoop::report(ClaimCycle::Do what, std::uint64_t look, const ClaimCycle::Found& found) {
  if (what != ClaimCycle::Do::ask_due_and_claim || found.lacks_room) return;
  if (found.claimed != ClaimCycle::Claimed::nothing) return;
  {
    const detail::Lock lock(report_mutex_);
    found_nothing_ = {look, found.due.value_or(kMaxTime)};
  }
  parts_.idle.on_change();
}

std::uint64_t ClaimLoop::ask_to_look() {
  const std::uint64_t look = ++looks_asked_;
  parts_.gate.signal().raise(ClaimReasons::kLook);
  return look;
}

bool ClaimLoop::has_found_nothing(std::uint64_t look, Duration due_within) const {
  const detail::Lock lock(report_mutex_);
  if (found_nothing_.look < look || is_being_offered_) return false;
  if (due_within <= Duration::zero()) return true;
  return found_nothing_.due > parts_.clock.now() + std::min(due_within, limits::kMaxDelay);
}

ClaimLoop::ClaimCycle::Found ClaimLoop::claim(ClaimCycle::Do what, std::size_t room,
                                              TimePoint now) {
  ClaimPlans plans = parts_.routes.plan(room, now);
  ClaimCycle::Found found{.lacks_room = plans.lacks_room, .room_at = plans.room_at};
  if (what == ClaimCycle::Do::ask_due_and_claim) {
    found.due = ask_next_due(plans);
    plans = parts_.routes.plan(room, now);  // topics may have been paused meanwhile
    found.lacks_room |= plans.lacks_room;
    found.room_at = std::min(found.room_at, plans.room_at);
  }
  limited_first_ = !limited_first_;  // so that neither can keep the other from a full buffer
  const auto first = claim(limited_first_ ? plans.limited : plans.unlimited);
  const auto second = claim(limited_first_ ? plans.unlimited : plans.limited);
  found.claimed = std::max(first, second);
  unlimited_ = std::move(plans.unlimited);
  return found;
}

std::optional<TimePoint> ClaimLoop::ask_next_due(const ClaimPlans& plans) {
  parts_.gate.take_due();  // the store knows of it
  std::optional<TimePoint> earliest;
  for (const auto* plan : {&plans.unlimited, &plans.limited}) {
    if (!*plan) continue;
    const std::optional<TimePoint> due = parts_.store.next_due((*plan)->topics);
    if (due && (!earliest || *due < *earliest)) earliest = due;
  }
  return earliest;
}

ClaimRequest ClaimLoop::request_for(const ClaimPlan& plan, const ClaimGate::Room& room) const {
  return {.owner = settings_.owner,
          .lease = settings_.lease,
          .limit = std::min(plan.limit, room.messages),
          .max_bytes = room.bytes,
          .topics = plan.topics,
          .worker = settings_.worker};
}

ClaimLoop::ClaimCycle::Claimed ClaimLoop::claim(const std::optional<ClaimPlan>& plan) {
  if (!plan) return ClaimCycle::Claimed::nothing;
  const ClaimGate::Room room = parts_.gate.room();
  if (room.messages == 0) return ClaimCycle::Claimed::full;

  const ClaimRequest request = request_for(*plan, room);
  const TimePoint lease_until = parts_.clock.now() + settings_.lease;
  ClaimResult claimed = parts_.store.claim(request);
  parts_.counters.note(claimed.reaped);

  ++parts_.counters.claims;
  if (claimed.empty()) {
    // There may be more than what it had to clear away first.
    if (claimed.reaped.total() > 0) return ClaimCycle::Claimed::some;
    ++parts_.counters.empty_claims;
    return ClaimCycle::Claimed::nothing;
  }
  parts_.counters.claim_batch.record(claimed.size());
  std::size_t bytes = 0;
  for (const ClaimedMessage& message : claimed) bytes += bytes_of(message);
  const bool full = claimed.size() == request.limit || bytes > request.max_bytes / 2;
  take_in(std::move(claimed.messages), lease_until);
  return full ? ClaimCycle::Claimed::full : ClaimCycle::Claimed::some;
}

void ClaimLoop::take_in(std::vector<ClaimedMessage>&& claimed, TimePoint lease_until) {
  parts_.admission.take_in(parts_.table, parts_.origin, std::move(claimed), lease_until);
}

// As many as can be begun with at once: the others are for whoever claims first, perhaps in another
// process. And of topics without limits only, so that an offer that is being answered and a claim
// do not share the room of a limit. Without an offer, for lack of memory for example, claims find
// what is enqueued.
void ClaimLoop::make_offer() noexcept try {
  recall_offer();  // it may have been answered by now
  if (offer_ || !unlimited_) return;
  ClaimGate::Room room = parts_.gate.room();
  room.messages = std::min(room.messages, parts_.gate.idle_workers());
  if (room.messages == 0) return;
  room.bytes = std::max<std::size_t>(room.bytes / 4, 1);  // leaves room to claim while it is taken
  offer_ = std::make_shared<Offer>(*this, request_for(*unlimited_, room), works_);
  parts_.store.offer(offer_);
} catch (const std::exception& failure) {
  parts_.logger.log(LogLevel::warning, "no offer made, messages will be claimed",
                    {{"store", parts_.store_name}, {"reason", failure.what()}});
}

// An enqueuing thread that has taken the offer is not waited for: it may wait for the database.
void ClaimLoop::recall_offer() {
  if (!offer_) return;
  const bool is_over = offer_->withdraw() || offer_->is_answered();
  is_being_offered_ = !is_over;
  if (!is_over) {
    return parts_.gate.expect({offer_->request().limit, offer_->request().max_bytes});
  }
  // The messages can be claimed again when their lease ends: the store was asked before.
  if (offer_->is_answered()) {
    cycle_.on_due(offer_->lease_until(), ClaimCycle::Now::of(parts_.clock));
  }
  offer_.reset();
  parts_.gate.expect({});
  parts_.idle.on_change();
}

void ClaimLoop::take_offered(std::vector<ClaimedMessage>&& claimed, TimePoint lease_until) noexcept
    try {
  ++parts_.counters.claims;
  parts_.counters.claim_batch.record(claimed.size());
  take_in(std::move(claimed), lease_until);
} catch (const std::exception& failure) {
  parts_.logger.log(LogLevel::warning, "messages not taken, their leases will lapse",
                    {{"store", parts_.store_name}, {"reason", failure.what()}});
}

// Ends when the cycle wants to claim, and when the offer was answered: then there may be less room.
void ClaimLoop::wait_for_work() {
  bool wants_to_offer = true;
  for (;;) {
    const auto now = ClaimCycle::Now::of(parts_.clock);
    const TimePoint due = parts_.gate.take_due();
    if (due != kMaxTime) cycle_.on_due(due, now);
    const ClaimCycle::Step step = cycle_.next(now.steady);
    if (step.what != ClaimCycle::Do::wait) return;
    const bool is_offering = offer_ && !offer_->is_answered();
    if (wants_to_offer && !is_offering) make_offer();
    const auto woken = parts_.gate.signal().wait_until(ClaimReasons::kAny, step.until);
    hear(woken);
    if ((woken & (ClaimReasons::kOffer | ClaimReasons::kStop)) != 0) return;
    wants_to_offer = (woken & ClaimReasons::kIdle) != 0;
  }
}

void ClaimLoop::on_failure(const std::exception& failure) {
  ++parts_.counters.failed_store_calls;
  const Duration pause = cycle_.failed(ClaimCycle::Now::of(parts_.clock));
  parts_.logger.log(
      LogLevel::warning, "claim failed, will be tried again",
      {{"store", parts_.store_name}, {"pause_ms", pause}, {"reason", failure.what()}});
}

}  // namespace oncebox::dispatcher
