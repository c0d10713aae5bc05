#include "naive_keys.hpp"

#include <algorithm>
#include <utility>

#include "oncebox/defaults.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::conformance {

namespace {

/// Whether this lease id was given to the last who began the key, and the work goes on. It may have
/// lapsed.
bool holds(const NaiveKey& key, const LeaseId& lease_id) {
  return key.record.status == KeyStatus::in_progress && key.lease_id == lease_id;
}

/// Whether the same call has had its effect before.
bool repeats(const NaiveKey& key, KeyStatus outcome, const LeaseId& lease_id) {
  return key.record.status == outcome && key.lease_id == lease_id;
}

}  // namespace

NaiveKey* NaiveKeys::known(const IdempotencyKey& key, TimePoint now) {
  for (NaiveKey& other : keys_) {
    if (other.record.key == key && other.record.keep_until > now) return &other;
  }
  return nullptr;
}

NaiveKey& NaiveKeys::create(const IdempotencyKey& key, TimePoint now) {
  std::erase_if(keys_, [&](const NaiveKey& other) { return other.record.key == key; });
  keys_.push_back({.record = {.key = key, .first_seen_at = now, .last_seen_at = now}});
  return keys_.back();
}

std::vector<BeginOutcome> NaiveKeys::begin(std::span<const BeginRequest> requests, TimePoint now) {
  std::vector<BeginOutcome> outcomes;
  std::size_t answered = 0;
  for (const BeginRequest& request : requests) {
    BeginOutcome outcome = begin_one(request, now);
    const std::size_t bytes = outcome.result.value_or("").size();
    if (answered + bytes > limits::kMaxBegunResultBytes) {
      outcome.result.reset();
      outcome.result_left_out = true;
    } else {
      answered += bytes;
    }
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

BeginOutcome NaiveKeys::begin_one(const BeginRequest& request, TimePoint now) {
  NaiveKey* key = known(request.key, now);
  if (key != nullptr) {
    KeyRecord& record = key->record;
    record.last_seen_at = now;
    BeginOutcome refused{.attempts = record.attempts};
    if (record.status == KeyStatus::processed) {
      refused.status = BeginStatus::processed;
      refused.result = record.result;
      return refused;
    }
    if (record.status == KeyStatus::in_progress && *record.lease_until > now) {
      refused.status = BeginStatus::busy;
      refused.lease_until = record.lease_until;
      return refused;
    }
    if (record.status == KeyStatus::failed && request.on_failed == FailedKeyPolicy::suppress) {
      refused.status = BeginStatus::failed;
      refused.error = record.error;
      return refused;
    }
  } else {
    key = &create(request.key, now);
  }
  KeyRecord& record = key->record;
  record.status = KeyStatus::in_progress;
  ++record.attempts;
  record.owner = request.owner;
  record.lease_until = now + request.lease;
  record.keep_until =
      std::max(now + request.retention.value_or(defaults::kKeyRetention), now + request.lease);
  record.error.reset();
  return {.status = BeginStatus::acquired,
          .lease_until = record.lease_until,
          .attempts = record.attempts};
}

void NaiveKeys::adopt_lease(const IdempotencyKey& key, const LeaseId& lease_id) {
  for (NaiveKey& other : keys_) {
    if (other.record.key == key) other.lease_id = lease_id;
  }
}

CompleteOutcome NaiveKeys::complete(const CompleteRequest& request, TimePoint now) {
  NaiveKey* key = known(request.key, now);
  if (key != nullptr && request.lease_id) {
    if (repeats(*key, KeyStatus::processed, *request.lease_id)) return CompleteOutcome::processed;
    if (!holds(*key, *request.lease_id)) return CompleteOutcome::lease_lost;
  }
  if (key == nullptr) key = &create(request.key, now);
  KeyRecord& record = key->record;
  if (record.status == KeyStatus::processed) return CompleteOutcome::processed;
  record.status = KeyStatus::processed;
  record.lease_until.reset();
  record.error.reset();
  record.result = request.result;
  record.keep_until = now + request.retention.value_or(defaults::kKeyRetention);
  key->lease_id = request.lease_id;
  return CompleteOutcome::processed;
}

FailOutcome NaiveKeys::fail(const FailRequest& request, TimePoint now) {
  NaiveKey* key = known(request.key, now);
  if (key == nullptr) return FailOutcome::lease_lost;
  if (repeats(*key, KeyStatus::failed, request.lease_id)) return FailOutcome::failed;
  if (!holds(*key, request.lease_id)) return FailOutcome::lease_lost;
  key->record.status = KeyStatus::failed;
  key->record.lease_until.reset();
  key->record.error = clip_text(request.error, limits::kMaxErrorBytes);
  return FailOutcome::failed;
}

ReleaseOutcome NaiveKeys::release(const ReleaseRequest& request, TimePoint now) {
  NaiveKey* key = known(request.key, now);
  if (key == nullptr) return ReleaseOutcome::unknown;
  if (key->record.status == KeyStatus::processed) return ReleaseOutcome::processed;
  if (repeats(*key, KeyStatus::released, request.lease_id)) return ReleaseOutcome::released;
  if (!holds(*key, request.lease_id)) return ReleaseOutcome::lease_lost;
  key->record.status = KeyStatus::released;
  key->record.lease_until.reset();
  return ReleaseOutcome::released;
}

KeyExtendOutcome NaiveKeys::extend(const KeyExtension& extension, TimePoint now) {
  NaiveKey* key = known(extension.key, now);
  if (key == nullptr || !holds(*key, extension.lease_id)) return {};
  KeyRecord& record = key->record;
  record.lease_until = std::max(*record.lease_until, now + extension.lease);
  record.keep_until = std::max(record.keep_until, *record.lease_until);
  return {record.lease_until};
}

std::optional<KeyRecord> NaiveKeys::find(const IdempotencyKey& key, TimePoint now) const {
  for (const NaiveKey& other : keys_) {
    if (other.record.key == key && other.record.keep_until > now) return other.record;
  }
  return std::nullopt;
}

std::size_t NaiveKeys::cleanup(TimePoint now) {
  return std::erase_if(keys_, [&](const NaiveKey& key) { return key.record.keep_until <= now; });
}

}  // namespace oncebox::conformance
