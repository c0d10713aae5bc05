#include "claim_loop.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace oncebox::dispatcher {

namespace {

constexpr Duration kFirstFailurePause{100};

}  // namespace

/// Whoever answers it takes the messages in, so that they need not wait for this thread to wake.
/// The loop outlives the answer.
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
  TimePoint lease_until_{};  // of the one who has taken it
  std::atomic<bool> is_answered_ = false;
};

ClaimLoop::ClaimLoop(const Parts& parts, const Settings& settings)
    : parts_(parts), settings_(settings), poll_in_(settings.poll_interval) {}

void ClaimLoop::run(const std::stop_token& stop) {
  const std::stop_callback on_stop(stop,
                                   [this] { parts_.gate.signal().raise(ClaimReasons::kStop); });
  while (!stop.stop_requested()) {
    recall_offer();
    if (only_answered_ && parts_.gate.room().messages == 0) {
      only_answered_ = false;
      due_.reset();
    }
    if (!parts_.gate.wait_for_room()) continue;
    try {
      look();
      failure_pause_ = {};
    } catch (const std::exception& failure) {
      pause_after_failure(failure);
    }
  }
  recall_offer();
  while (offer_) {
    parts_.gate.signal().wait(ClaimReasons::kOffer);
    recall_offer();
  }
}

// After a claim that found everything comes one question for the next due time, and one more claim:
// what became due between the two would else be missed until the next poll.
void ClaimLoop::look() {
  const std::size_t room = parts_.gate.room().messages;
  if (room == 0) return;
  const TimePoint now = parts_.clock.now();
  const ClaimPlans plans = parts_.routes.plan(room, now);
  if (std::exchange(only_answered_, false)) return wait_for_work(plans);
  claimed_at_ = now;
  waits_since_.reset();
  works_ = parts_.gate.listener()->works.load();
  if (std::exchange(timed_out_, false)) ask_next_due(plans);

  limited_first_ = !limited_first_;  // so that neither can keep the other from a full buffer
  const Found first = claim(limited_first_ ? plans.limited : plans.unlimited);
  const Found second = claim(limited_first_ ? plans.unlimited : plans.limited);
  if (first == Found::more || second == Found::more) return;

  if (due_) return wait_for_work(plans);
  ask_next_due(plans);
}

void ClaimLoop::ask_next_due(const ClaimPlans& plans) {
  due_ = kMaxTime;
  for (const auto* plan : {&plans.unlimited, &plans.limited}) {
    if (!*plan) continue;
    due_ = std::min(*due_, parts_.store.next_due((*plan)->topics).value_or(kMaxTime));
  }
}

ClaimRequest ClaimLoop::request_for(const ClaimPlan& plan, const ClaimGate::Room& room) const {
  return {.owner = settings_.owner,
          .lease = settings_.lease,
          .limit = std::min(plan.limit, room.messages),
          .max_bytes = room.bytes,
          .topics = plan.topics,
          .max_deliveries = settings_.max_deliveries};
}

ClaimLoop::Found ClaimLoop::claim(const std::optional<ClaimPlan>& plan) {
  if (!plan) return Found::everything;
  const ClaimGate::Room room = parts_.gate.room();
  if (room.messages == 0) return Found::more;

  const ClaimRequest request = request_for(*plan, room);
  const TimePoint lease_until = parts_.clock.now() + settings_.lease;
  std::vector<ClaimedMessage> claimed = parts_.store.claim(request);

  ++parts_.counters.claims;
  if (claimed.empty()) {
    ++parts_.counters.empty_claims;
    return Found::everything;
  }
  parts_.counters.claim_batch.record(claimed.size());
  poll_in_ = settings_.poll_interval;
  std::size_t bytes = 0;
  for (const ClaimedMessage& message : claimed) bytes += message.message.payload.size();
  const bool full = claimed.size() == request.limit || bytes > request.max_bytes / 2;
  take_in(std::move(claimed), lease_until);
  return full ? Found::more : Found::everything;
}

void ClaimLoop::take_in(std::vector<ClaimedMessage>&& claimed, TimePoint lease_until) {
  parts_.admission.take_in(parts_.table, parts_.origin, std::move(claimed), lease_until);
}

// As many as can be begun with at once: the others are for whoever claims first, perhaps in another
// process. And of topics without limits only, so that an offer that is being answered and a claim
// do not share the room of a limit.
void ClaimLoop::make_offer(const std::optional<ClaimPlan>& plan) {
  recall_offer();  // it may have been answered by now
  if (offer_ || !plan) return;
  ClaimGate::Room room = parts_.gate.room();
  room.messages = std::min(room.messages, parts_.gate.idle_workers());
  if (room.messages == 0) return;
  room.bytes = std::max<std::size_t>(room.bytes / 4, 1);  // leaves room to claim while it is taken
  offer_ = std::make_shared<Offer>(*this, request_for(*plan, room), works_);
  parts_.store.offer(offer_);
}

// Somebody who has taken the offer is not waited for: he may be waiting for the database.
void ClaimLoop::recall_offer() {
  if (!offer_) return;
  const bool is_over = offer_->withdraw() || offer_->is_answered();
  if (!is_over) {
    return parts_.gate.expect({offer_->request().limit, offer_->request().max_bytes});
  }
  if (due_ && offer_->is_answered()) due_ = std::min(*due_, offer_->lease_until());
  offer_.reset();
  parts_.gate.expect({});
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

void ClaimLoop::wait_for_work(const ClaimPlans& plans) {
  // A time that had come before the claim did not help it: the store's clock is behind ours.
  TimePoint due = std::min(*std::exchange(due_, std::nullopt), plans.room_at);
  if (due <= claimed_at_) due = kMaxTime;

  // Answers do not postpone the poll.
  if (!waits_since_) waits_since_ = std::chrono::steady_clock::now();
  const SteadyTime poll_at = *waits_since_ + poll_in_;
  make_offer(plans.unlimited);
  for (;;) {
    due = std::min(due, parts_.gate.take_due());
    const TimePoint now = parts_.clock.now();
    if (due <= now) return;
    const SteadyTime due_at = std::chrono::steady_clock::now() + std::min(due - now, poll_in_);
    const auto woken =
        parts_.gate.signal().wait_until(ClaimReasons::kAny, std::min(due_at, poll_at));
    constexpr WakeSignal::Reasons kNothingToClaim = ClaimReasons::kDue | ClaimReasons::kIdle;
    const WakeSignal::Reasons others = woken & ~kNothingToClaim;
    if (woken != 0 && others == 0) {
      const bool is_offering = offer_ && !offer_->is_answered();
      if ((woken & ClaimReasons::kIdle) != 0 && !is_offering) make_offer(plans.unlimited);
      continue;
    }
    if (others == ClaimReasons::kOffer) {
      only_answered_ = true;
      due_ = std::min(due, parts_.gate.take_due());
      return;
    }
    if (woken != 0) return;
    timed_out_ = true;
    const bool is_poll = std::chrono::steady_clock::now() >= poll_at;
    if (is_poll) poll_in_ = std::min(poll_in_ * 2, settings_.max_poll_interval);
    return;
  }
}

void ClaimLoop::pause_after_failure(const std::exception& failure) {
  ++parts_.counters.failed_store_calls;
  const Duration longest = std::max(settings_.max_poll_interval, kFirstFailurePause);
  failure_pause_ = std::clamp(failure_pause_ * 2, kFirstFailurePause, longest);
  parts_.logger.log(
      LogLevel::warning, "claim failed, will be tried again",
      {{"store", parts_.store_name}, {"pause_ms", failure_pause_}, {"reason", failure.what()}});
  due_.reset();
  only_answered_ = false;
  // Notifications do not count: a store that is in trouble is left alone for a while.
  parts_.gate.signal().wait_until(ClaimReasons::kLook | ClaimReasons::kStop,
                                  std::chrono::steady_clock::now() + failure_pause_);
}

}  // namespace oncebox::dispatcher
