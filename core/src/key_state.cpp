#include "oncebox/driver/key_state.hpp"

#include <algorithm>
#include <utility>

#include "oncebox/defaults.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

// Whether the same call has had its effect before.
bool repeats(const KeyState& state, KeyStatus outcome,
             const std::optional<LeaseId>& lease_id) noexcept {
  return state.status == outcome && state.lease_id == lease_id;
}

}  // namespace

KeyState new_key_state(TimePoint now) noexcept {
  return {.first_seen_at = now, .last_seen_at = now, .keep_until = now};
}

BeginStatus begin_as_found(const KeyState* known, FailedKeyPolicy on_failed,
                           TimePoint now) noexcept {
  if (known == nullptr) return BeginStatus::acquired;
  switch (known->status) {
    case KeyStatus::in_progress: {
      const bool live = !known->lease_until || *known->lease_until > now;
      return live ? BeginStatus::busy : BeginStatus::acquired;
    }
    case KeyStatus::released:
      return BeginStatus::acquired;
    case KeyStatus::failed:
      return on_failed == FailedKeyPolicy::suppress ? BeginStatus::failed : BeginStatus::acquired;
    case KeyStatus::processed:
      return BeginStatus::processed;
  }
  return BeginStatus::busy;
}

std::optional<CompleteOutcome> complete_as_found(const KeyState* known,
                                                 const std::optional<LeaseId>& lease_id) noexcept {
  if (known == nullptr) return std::nullopt;
  if (lease_id && !known->held_under(*lease_id)) {
    return repeats(*known, KeyStatus::processed, lease_id) ? CompleteOutcome::processed
                                                           : CompleteOutcome::lease_lost;
  }
  if (known->status == KeyStatus::processed) return CompleteOutcome::processed;
  return std::nullopt;
}

std::optional<FailOutcome> fail_as_found(const KeyState* known, const LeaseId& lease_id) noexcept {
  if (known == nullptr) return FailOutcome::lease_lost;
  if (repeats(*known, KeyStatus::failed, lease_id)) return FailOutcome::failed;
  if (!known->held_under(lease_id)) return FailOutcome::lease_lost;
  return std::nullopt;
}

std::optional<ReleaseOutcome> release_as_found(const KeyState* known,
                                               const LeaseId& lease_id) noexcept {
  if (known == nullptr) return ReleaseOutcome::unknown;
  if (known->status == KeyStatus::processed) return ReleaseOutcome::processed;
  if (repeats(*known, KeyStatus::released, lease_id)) return ReleaseOutcome::released;
  if (!known->held_under(lease_id)) return ReleaseOutcome::lease_lost;
  return std::nullopt;
}

KeyExtendOutcome extend_as_found(const KeyState* known, const KeyExtension& extension,
                                 TimePoint now) noexcept {
  if (known == nullptr || !known->held_under(extension.lease_id)) return {};
  const TimePoint until = now + extension.lease;
  return {std::max(known->lease_until.value_or(until), until)};
}

Duration kept_for(const std::optional<Duration>& retention) noexcept {
  return retention.value_or(defaults::kKeyRetention);
}

void hand_out(KeyState& state, const BeginRequest& request, std::string owner,
              const LeaseId& lease_id, TimePoint now) noexcept {
  const TimePoint lease_until = now + request.lease;
  state.status = KeyStatus::in_progress;
  ++state.attempts;
  state.last_seen_at = now;
  state.owner = std::move(owner);
  state.lease_id = lease_id;
  state.lease_until = lease_until;
  state.keep_until = std::max(now + kept_for(request.retention), lease_until);
  state.error.reset();
}

void set_processed(KeyState& state, const CompleteRequest& request, TimePoint now) noexcept {
  state.status = KeyStatus::processed;
  state.lease_id = request.lease_id;
  state.lease_until.reset();
  state.keep_until = now + kept_for(request.retention);
  state.error.reset();
}

void set_failed(KeyState& state, std::string error) noexcept {
  state.status = KeyStatus::failed;
  state.lease_until.reset();
  state.error = std::move(error);
}

void set_released(KeyState& state) noexcept {
  state.status = KeyStatus::released;
  state.lease_until.reset();
}

void prolong(KeyState& state, TimePoint lease_until) noexcept {
  state.lease_until = lease_until;
  state.keep_until = std::max(state.keep_until, lease_until);
}

std::string error_text(const FailRequest& request) {
  return clip_text(request.error, limits::kMaxErrorBytes);
}

BeginOutcome begin_outcome(BeginStatus status, const KeyState& state) {
  const bool acquired = status == BeginStatus::acquired;
  return {.status = status,
          .lease_id = acquired ? state.lease_id : std::nullopt,
          .lease_until = state.lease_until,
          .attempts = state.attempts,
          .error = state.error};
}

KeyRecord to_record(IdempotencyKey key, KeyState state, std::optional<std::string> result) {
  return {.key = std::move(key),
          .status = state.status,
          .attempts = state.attempts,
          .first_seen_at = state.first_seen_at,
          .last_seen_at = state.last_seen_at,
          .owner = std::move(state.owner),
          .lease_until = state.lease_until,
          .keep_until = state.keep_until,
          .result = std::move(result),
          .error = std::move(state.error)};
}

}  // namespace oncebox
