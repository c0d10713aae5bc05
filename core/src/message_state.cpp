#include "oncebox/driver/message_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "oncebox/internal/mix.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

// A revival gives the message the whole of its policy again. The end of its delay is a due time.
Duration age_at(const MessageState& state, TimePoint now) noexcept {
  TimePoint since = state.not_before(state.history.first_seen_at);
  if (state.revivals.last_at) since = std::max(since, *state.revivals.last_at);
  return now - since;
}

// Its holder, if there is one, cannot settle it any more.
void die_unsettled(MessageState& state, TimePoint now) noexcept {
  if (state.lease) ++state.history.lapses;
  finish(state, Status::dead, now);
}

// An operator ended the attempt, unless its lease had run out before.
std::optional<Attempt> attempt_ended_by(AttemptOutcome outcome, const MessageState& state,
                                        const std::string& error, TimePoint now) {
  if (!state.lease || !state.lease->live_at(now)) return lapsed_attempt(state);
  return Attempt{.worker = state.lease->worker,
                 .begun_at = state.lease->leased_at,
                 .ended_at = now,
                 .outcome = outcome,
                 .error = error};
}

void back_off(MessageState& state, TimePoint until) noexcept {
  state.backoff_until = until;
  state.eligible_at = state.not_before(until);
}

Duration delay_of(const Abandon& abandon, Duration of_policy) noexcept {
  if (!abandon.delay) return of_policy;
  return abandon.delay_is_least ? std::max(*abandon.delay, of_policy) : *abandon.delay;
}

// An empty text keeps the error that is there.
void note_error(MessageState& state, std::string error) noexcept {
  if (!error.empty()) state.history.last_error = std::move(error);
}

}  // namespace

ShownState shown_state(const MessageState& state, PartitionPlace place, TimePoint now) noexcept {
  const auto waiting = [](WaitingFor what) { return ShownState{State::waiting, what}; };
  switch (state.status) {
    case Status::seen:
      return {State::seen};
    case Status::done:
      return {State::done};
    case Status::dead:
      return {State::dead};
    case Status::processing:
      break;
  }
  if (state.enqueue_order == 0) return waiting(WaitingFor::content);
  if (state.lease) {
    if (state.lease->live_at(now)) return {State::leased};
    const bool is_due = state.not_before(state.lease->locked_until) <= now;
    return is_due ? ShownState{State::ready} : waiting(WaitingFor::due);
  }
  if (place == PartitionPlace::blocked) return waiting(WaitingFor::partition);
  if (state.eligible_at <= now) return {State::ready};
  const bool backs_off = state.backoff_until >= state.eligible_at;
  return waiting(backs_off ? WaitingFor::backoff : WaitingFor::due);
}

ShownState while_paused(ShownState shown) noexcept {
  if (shown.state != State::ready) return shown;
  return {State::waiting, WaitingFor::pause};
}

ObservedState observed_state(State state) noexcept {
  switch (state) {
    case State::seen:
      return ObservedState::seen;
    case State::waiting:
      return ObservedState::waiting;
    case State::ready:
      return ObservedState::ready;
    case State::leased:
      return ObservedState::leased;
    case State::done:
      return ObservedState::done;
    case State::dead:
      return ObservedState::dead;
  }
  return ObservedState::seen;
}

bool hashes_differ(const std::optional<ContentHash>& stored,
                   const std::optional<ContentHash>& offered) noexcept {
  return stored && offered && stored->comparable_with(*offered) && *stored != *offered;
}

std::optional<bool> same_by_hash(const std::optional<ContentHash>& stored_hash,
                                 const Message& message) noexcept {
  if (!stored_hash || !message.hash || !stored_hash->comparable_with(*message.hash)) {
    return std::nullopt;
  }
  return *stored_hash == *message.hash;
}

bool same_content(const std::optional<ContentHash>& stored_hash, const Payload& stored_payload,
                  const Message& message) noexcept {
  const std::optional<bool> same = same_by_hash(stored_hash, message);
  return same ? *same : stored_payload == message.payload;
}

bool stays_as_first(Status status, const EnqueueOptions& options) noexcept {
  const bool comes_back = status == Status::dead && options.on_dead == DeadPolicy::revive;
  return options.on_hash_mismatch == HashMismatchPolicy::keep_first && !comes_back;
}

EnqueueStatus duplicate_status(Status status) noexcept {
  if (status == Status::done) return EnqueueStatus::duplicate_done;
  if (status == Status::dead) return EnqueueStatus::duplicate_dead;
  return EnqueueStatus::duplicate;
}

void count_duplicate(MessageHistory& history) noexcept {
  if (history.duplicates < std::numeric_limits<int>::max()) ++history.duplicates;
}

void take_schedule(MessageState& state, const Message& message) noexcept {
  state.priority = message.priority;
  state.due_at = message.due_at;
  state.expires_at = message.expires_at;
}

void reschedule(MessageState& state, TimePoint now) noexcept {
  const TimePoint target = std::max(state.not_before(now), state.backoff_until);
  if (state.eligible_at <= now && target <= now) return;
  state.eligible_at = target;
}

bool mend_times(MessageState& state, TimePoint now) noexcept {
  if (state.status != Status::processing || state.enqueue_order == 0) return false;
  const TimePoint earliest = std::max(state.not_before(now), state.backoff_until);
  const bool waits_too_long = state.eligible_at > earliest;
  if (waits_too_long) state.eligible_at = earliest;
  const bool is_leased_later =
      state.lease && state.lease->leased_at && *state.lease->leased_at > now;
  if (is_leased_later) {
    state.lease->locked_until -= *state.lease->leased_at - now;
    state.lease->leased_at = now;
  }
  return waits_too_long || is_leased_later;
}

std::string error_text(const std::string& text) { return clip_text(text, limits::kMaxErrorBytes); }

std::string error_text(const Verdict& verdict) {
  if (const auto* abandon = std::get_if<Abandon>(&verdict)) return error_text(abandon->error);
  if (const auto* fail = std::get_if<Fail>(&verdict)) return error_text(fail->error);
  return {};
}

std::uint64_t retry_chance(DeliveryNumber failed) noexcept {
  return detail::mixed(static_cast<std::uint64_t>(failed) * 0x9e3779b97f4a7c15U);
}

std::optional<Attempt> ended_attempt(const MessageState& state, const Verdict& verdict,
                                     TimePoint now) {
  if (std::holds_alternative<Release>(verdict)) return std::nullopt;
  const auto* fail = std::get_if<Fail>(&verdict);
  if (fail != nullptr && fail->untried) return std::nullopt;
  Attempt attempt{
      .worker = state.lease->worker, .begun_at = state.lease->leased_at, .ended_at = now};
  if (state.claimed_version != state.history.content_version) {
    attempt.outcome = AttemptOutcome::superseded;
    return attempt;
  }
  const auto fail_with = [&](AttemptOutcome outcome, const auto& failure) {
    attempt.outcome = outcome;
    attempt.error_kind = clip_text(failure.error_kind, limits::kMaxErrorKindBytes);
    attempt.error = error_text(failure.error);
  };
  if (const auto* abandon = std::get_if<Abandon>(&verdict)) {
    fail_with(AttemptOutcome::abandoned, *abandon);
  } else if (fail != nullptr) {
    fail_with(AttemptOutcome::failed, *fail);
  }
  return attempt;
}

std::optional<Attempt> lapsed_attempt(const MessageState& state) {
  if (!state.lease) return std::nullopt;
  return Attempt{.worker = state.lease->worker,
                 .begun_at = state.lease->leased_at,
                 .ended_at = state.lease->locked_until,
                 .outcome = AttemptOutcome::lapsed};
}

std::optional<Attempt> marked_attempt(const MessageState& state, MarkAs as,
                                      const std::string& error, TimePoint now) {
  if (!state.lease || as == MarkAs::processing) return std::nullopt;
  if (as == MarkAs::dead) return attempt_ended_by(AttemptOutcome::marked_dead, state, error, now);
  return Attempt{
      .worker = state.lease->worker, .begun_at = state.lease->leased_at, .ended_at = now};
}

std::optional<Attempt> cancelled_attempt(const MessageState& state, const OperatorAction& action,
                                         const std::string& error, TimePoint now) {
  if (!std::holds_alternative<Cancel>(action)) return std::nullopt;
  return attempt_ended_by(AttemptOutcome::cancelled, state, error, now);
}

// A superseded attempt counts nowhere but in the versions of the content.
bool may_have_attempts(const MessageState& state) noexcept {
  const MessageHistory& history = state.history;
  return history.attempt > 0 || history.lapses > 0 || state.revivals.count > 0 ||
         history.content_version > 1;
}

bool is_held_by(const MessageState& state, const Delivery& delivery) noexcept {
  if (!state.lease || state.lease->owner != delivery.owner) return false;
  return !delivery.number || *delivery.number == state.lease->delivery;
}

void hand_out(MessageState& state, MessageLease lease) noexcept {
  state.lease = std::move(lease);
  state.claimed_version = state.history.content_version;
  ++state.history.deliveries;
}

// Finding the policy of a topic takes as long as there are rules, and most messages of a claim have
// the topic of the one before.
void tell_attempt_limits(std::span<ClaimedMessage> claimed,
                         const TopicPolicies& policies) noexcept {
  const ClaimedMessage* before = nullptr;
  for (ClaimedMessage& one : claimed) {
    const Topic& topic = one.message.topic;
    one.attempt_limit = before != nullptr && before->message.topic == topic
                            ? before->attempt_limit
                            : policies.for_topic(topic.str()).retry.limit();
    before = &one;
  }
}

SettleOutcome apply_verdict(MessageState& state, const Verdict& verdict, std::string error,
                            const ResolvedPolicy& policy, TimePoint now) noexcept {
  const DeliveryNumber delivery = state.lease->delivery;
  state.lease.reset();
  if (const auto* release = std::get_if<Release>(&verdict)) {
    if (release->delay) back_off(state, now + *release->delay);
    return {.again_at = state.eligible_at};
  }
  if (state.claimed_version != state.history.content_version) {
    state.eligible_at = state.not_before(now);
    return {SettleStatus::superseded, state.eligible_at};
  }
  note_error(state, std::move(error));
  if (std::holds_alternative<Ack>(verdict)) {
    finish(state, Status::done, now);
    return {};
  }
  if (const auto* fail = std::get_if<Fail>(&verdict)) {
    if (!fail->untried) ++state.history.attempt;
    finish(state, Status::dead, now);
    return {.death = SettledDeath::failed};
  }
  const int attempt = ++state.history.attempt;
  const auto* abandon = std::get_if<Abandon>(&verdict);
  const PolicyOrigin origin = abandon->limit             ? PolicyOrigin::worker
                              : policy.limit_is_of_topic ? PolicyOrigin::topic
                                                         : PolicyOrigin::queue;
  const RetryPolicy& retry = policy.retry;
  if (abandon->limit.value_or(retry.limit()).is_last(attempt, age_at(state, now))) {
    finish(state, Status::dead, now);
    return {.death = SettledDeath::attempts, .policy = origin};
  }
  back_off(state, now + delay_of(*abandon, retry.delay_after(attempt, retry_chance(delivery))));
  return {.again_at = state.eligible_at, .policy = origin};
}

MarkOutcome apply_mark(MessageState& state, MarkAs as, std::string error, TimePoint now) noexcept {
  const bool is_done = state.status == Status::done;
  const bool is_dead = state.status == Status::dead;
  switch (as) {
    case MarkAs::processed:
      if (is_done) return MarkOutcome::already;
      finish(state, Status::done, now);
      return MarkOutcome::marked;
    case MarkAs::dead:
      if (is_done) return MarkOutcome::refused;
      note_error(state, std::move(error));
      if (is_dead) return MarkOutcome::already;
      die_unsettled(state, now);
      return MarkOutcome::marked;
    case MarkAs::processing:
      if (is_done || is_dead) return MarkOutcome::refused;
      state.status = Status::processing;
      state.lease.reset();
      return MarkOutcome::marked;
  }
  return MarkOutcome::refused;
}

void finish(MessageState& state, Status status, TimePoint now) noexcept {
  state.status = status;
  state.lease.reset();
  state.finished_at = now;
}

std::optional<std::string> cause_of_death(const MessageState& state, const ResolvedPolicy& policy,
                                          TimePoint now) {
  if (state.lease) {
    const int lapses = state.history.lapses + 1;
    if (policy.is_delivered_too_often(state.history.attempt, lapses)) {
      return fmt::format("lease expired {} times", lapses);
    }
  }
  if (state.expired_at(now)) return "expired";
  return std::nullopt;
}

void lapse(MessageState& state) noexcept {
  ++state.history.lapses;
  state.eligible_at = state.not_before(state.lease->locked_until);
  state.lease.reset();
}

void bury(MessageState& state, std::string cause, TimePoint now) noexcept {
  state.history.last_error = std::move(cause);
  die_unsettled(state, now);
}

void bring_back(MessageState& state, TimePoint eligible_at, std::string reason,
                TimePoint now) noexcept {
  state.status = state.enqueue_order > 0 ? Status::processing : Status::seen;
  state.history.attempt = 0;
  state.history.deliveries = 0;
  state.history.lapses = 0;
  state.backoff_until = {};
  state.eligible_at = eligible_at;
  state.finished_at.reset();
  ++state.revivals.count;
  state.revivals.last_at = now;
  state.revivals.last_reason.reset();
  if (!reason.empty()) state.revivals.last_reason = std::move(reason);
}

void revive_after(MessageState& state, Duration delay, std::string reason, TimePoint now) noexcept {
  const TimePoint claimable_at = state.not_before(now + delay);
  if (delay > Duration::zero() && state.enqueue_order > 0) state.due_at = claimable_at;
  if (state.expired_at(claimable_at)) state.expires_at.reset();
  bring_back(state, claimable_at, std::move(reason), now);
}

std::string cancellation_text(const std::string& reason) {
  return reason.empty() ? "cancelled" : error_text("cancelled: " + reason);
}

bool is_cancellation_text(std::string_view error) noexcept {
  return error == "cancelled" || error.starts_with("cancelled: ");
}

ActOutcome outcome_of(ActEffect effect) noexcept {
  switch (effect) {
    case ActEffect::none:
      return ActOutcome::refused;
    case ActEffect::expires_first:
      return ActOutcome::expires_first;
    case ActEffect::changed:
    case ActEffect::removed:
      break;
  }
  return ActOutcome::changed;
}

ActEffect apply_action(MessageState& state, const OperatorAction& action, const ShownState& shown,
                       std::string error, TimePoint now) noexcept {
  if (!applies_to(action, shown.state, shown.waiting_for)) return ActEffect::none;
  if (expires_before(action, state.expires_at)) return ActEffect::expires_first;
  if (std::holds_alternative<Delete>(action) || std::holds_alternative<Purge>(action)) {
    return ActEffect::removed;
  }
  if (std::holds_alternative<Cancel>(action)) {
    state.history.last_error = std::move(error);
    die_unsettled(state, now);
    return ActEffect::changed;
  }
  // The age of a message counts from its due time, so one that has passed is kept.
  if (const auto* at = std::get_if<Reschedule>(&action)) {
    state.due_at = std::max(at->due_at, now);
  } else if (state.due_at) {
    state.due_at = std::min(*state.due_at, now);
  }
  state.backoff_until = {};
  reschedule(state, now);
  return ActEffect::changed;
}

void take_edit(MessageState& state, ContentHash hash) noexcept {
  state.hash = std::move(hash);
  ++state.history.content_version;
}

}  // namespace oncebox
