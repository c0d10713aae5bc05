#include "dispatcher/claim_loop.hpp"

#include <algorithm>
#include <utility>

namespace oncebox::dispatcher {

namespace {

constexpr Duration kFirstFailurePause{100};

}  // namespace

ClaimLoop::ClaimLoop(const Parts& parts, const Settings& settings)
    : parts_(parts), settings_(settings), poll_in_(settings.poll_interval) {}

void ClaimLoop::run(const std::stop_token& stop) {
  const std::stop_callback on_stop(stop,
                                   [this] { parts_.gate.signal().raise(ClaimReasons::kStop); });
  while (!stop.stop_requested()) {
    if (!parts_.gate.wait_for_room()) continue;
    try {
      look();
      failure_pause_ = {};
    } catch (const std::exception& failure) {
      pause_after_failure(failure);
    }
  }
}

// After a claim that found everything comes one question for the next due time, and one more claim:
// what became due between the two would else be missed until the next poll.
void ClaimLoop::look() {
  const std::size_t room = parts_.gate.room().messages;
  if (room == 0) return;
  claimed_at_ = parts_.clock.now();
  const ClaimPlans plans = parts_.routes.plan(room, claimed_at_);
  if (std::exchange(timed_out_, false)) ask_next_due(plans);

  limited_first_ = !limited_first_;  // so that neither can keep the other from a full buffer
  const Found first = claim(limited_first_ ? plans.limited : plans.unlimited);
  const Found second = claim(limited_first_ ? plans.unlimited : plans.limited);
  if (first == Found::more || second == Found::more) return;

  if (due_) return wait_for_work(plans.room_at);
  ask_next_due(plans);
}

void ClaimLoop::ask_next_due(const ClaimPlans& plans) {
  due_ = kMaxTime;
  for (const auto* plan : {&plans.unlimited, &plans.limited}) {
    if (!*plan) continue;
    due_ = std::min(*due_, parts_.store.next_due((*plan)->topics).value_or(kMaxTime));
  }
}

ClaimLoop::Found ClaimLoop::claim(const std::optional<ClaimPlan>& plan) {
  if (!plan) return Found::everything;
  const ClaimGate::Room room = parts_.gate.room();
  if (room.messages == 0) return Found::more;

  ClaimRequest request{.owner = settings_.owner,
                       .lease = settings_.lease,
                       .limit = std::min(plan->limit, room.messages),
                       .max_bytes = room.bytes,
                       .topics = plan->topics,
                       .max_deliveries = settings_.max_deliveries};
  runnable_.reserve(request.limit);
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
  const auto admitted = parts_.table.admit(std::move(claimed), lease_until);
  const TimePoint now = parts_.clock.now();
  runnable_.clear();
  for (InFlight* message : admitted) {
    if (message == nullptr) continue;
    parts_.gate.on_admitted(message->bytes);
    const Message& content = message->claimed->message;
    message->route = parts_.routes.find(content.topic.str());
    if (message->route == nullptr) {
      finish(*message, parts_.calls.refuse(*message->claimed));
    } else if (parts_.routes.is_paused(content.topic.str())) {
      finish(*message, Release{});
    } else {
      message->route->admit(now);
      runnable_.push_back(message);
    }
  }
  if (!parts_.ready.push(runnable_)) {
    for (InFlight* message : runnable_) parts_.workers.give_back(*message);
  }
  // Once more, for a pause that came in between.
  release_paused();
}

void ClaimLoop::finish(InFlight& message, Verdict verdict) {
  message.stage = InFlight::Stage::finished;
  message.verdict = std::move(verdict);
  parts_.settler.submit(message);
}

void ClaimLoop::release_paused() {
  if (!parts_.routes.any_paused()) return;
  const auto paused = parts_.ready.extract([&](const InFlight& message) {
    return parts_.routes.is_paused(message.claimed->message.topic.str());
  });
  for (InFlight* message : paused) parts_.workers.give_back(*message);
}

void ClaimLoop::wait_for_work(TimePoint room_at) {
  // A time that had come before the claim did not help it: the store's clock is behind ours.
  TimePoint due = std::min(*std::exchange(due_, std::nullopt), room_at);
  if (due <= claimed_at_) due = kMaxTime;

  const SteadyTime started = std::chrono::steady_clock::now();
  for (;;) {
    due = std::min(due, parts_.gate.take_due());
    const TimePoint now = parts_.clock.now();
    if (due <= now) return;
    const Duration wait = std::min(due - now, poll_in_);
    const auto woken = parts_.gate.signal().wait_until(ClaimReasons::kAny, started + wait);
    if (woken == ClaimReasons::kDue) continue;
    if (woken != 0) return;
    timed_out_ = true;
    if (wait == poll_in_) poll_in_ = std::min(poll_in_ * 2, settings_.max_poll_interval);
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
  // Notifications do not count: a store that is in trouble is left alone for a while.
  parts_.gate.signal().wait_until(ClaimReasons::kLook | ClaimReasons::kStop,
                                  std::chrono::steady_clock::now() + failure_pause_);
}

}  // namespace oncebox::dispatcher
