#include "model_key_run.hpp"

#include <algorithm>
#include <ostream>
#include <string>

#include "model_disagreement.hpp"
#include "model_run.hpp"

namespace oncebox::conformance {

namespace {

/// What an acquisition answers, but for the id that the store chooses.
struct BeginAnswer {
  BeginStatus status;
  bool has_lease_id;
  Moment lease_until;
  int attempts;
  std::optional<std::string> result;
  bool result_left_out;
  std::optional<std::string> error;

  friend bool operator==(const BeginAnswer&, const BeginAnswer&) = default;
};

void PrintTo(const BeginAnswer& answer, std::ostream* out) {
  *out << '{' << to_string(answer.status) << (answer.has_lease_id ? " with" : " without")
       << " lease id, until " << testing::PrintToString(answer.lease_until) << ", attempts "
       << answer.attempts << ", result " << testing::PrintToString(answer.result)
       << (answer.result_left_out ? " (left out)" : "") << ", error "
       << testing::PrintToString(answer.error) << '}';
}

BeginAnswer answer_of(const BeginOutcome& outcome, bool has_lease_id) {
  return {.status = outcome.status,
          .has_lease_id = has_lease_id,
          .lease_until = at(outcome.lease_until),
          .attempts = outcome.attempts,
          .result = outcome.result,
          .result_left_out = outcome.result_left_out,
          .error = outcome.error};
}

LeaseId nobodys_lease() { return LeaseId::parse("01940000-0000-7000-8000-00000000dead"); }

}  // namespace

KeyRun::KeyRun(Harness& harness) : harness_(harness), handles_{harness.open(), harness.open()} {}

KeyRun::Call KeyRun::call_on(std::size_t handle) {
  return {.handle = handle, .store = handles_.at(handle)->keys(), .now = harness_.now()};
}

KeyRun::Acquisition KeyRun::acquisition(const LeaseRef& ref) const {
  Acquisition acquisition{vocabulary::idempotency_key(0), nobodys_lease()};
  if (!acquisitions_.empty()) {
    const std::size_t back = std::min(ref.back, acquisitions_.size() - 1);
    acquisition = acquisitions_[acquisitions_.size() - 1 - back];
  }
  if (ref.other_key) acquisition.key = vocabulary::idempotency_key(*ref.other_key);
  return acquisition;
}

CompleteRequest KeyRun::request_of(const CompleteDraft& draft) const {
  const Acquisition held = acquisition(draft.lease);
  CompleteRequest request{.key = held.key, .lease_id = held.lease_id};
  if (draft.unconditional) {
    request.key = vocabulary::idempotency_key(*draft.unconditional);
    request.lease_id.reset();
  }
  if (draft.result) request.result = vocabulary::payload(*draft.result).bytes();
  request.retention = draft.retention;
  return request;
}

void KeyRun::apply(const KeyStep& step) {
  const Call call = call_on(step.handle);
  std::visit([&](const auto& operation) { run(call, operation); }, step.operation);
}

void KeyRun::run(const Call& call, const BeginKeys& step) {
  std::vector<BeginRequest> requests;
  for (const BeginDraft& draft : step.requests) {
    requests.push_back({.key = vocabulary::idempotency_key(draft.key),
                        .owner = draft.owner == 0 ? "" : "worker " + std::to_string(draft.owner),
                        .lease = draft.lease,
                        .retention = draft.retention,
                        .on_failed = draft.on_failed});
  }
  const std::vector<BeginOutcome> outcomes = call.store.begin(requests);
  std::vector<BeginAnswer> answers;
  for (const BeginOutcome& outcome : outcomes) {
    answers.push_back(answer_of(outcome, outcome.lease_id.has_value()));
  }
  std::vector<BeginAnswer> expected;
  for (const BeginOutcome& outcome : model_.begin(requests, call.now)) {
    expected.push_back(answer_of(outcome, outcome.status == BeginStatus::acquired));
  }
  require_same("outcomes of begin", answers, expected);

  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!outcomes[i].lease_id) continue;
    const LeaseId& lease_id = *outcomes[i].lease_id;
    const bool known = std::ranges::count(acquisitions_, lease_id, &Acquisition::lease_id) > 0;
    require(!known, "a lease id was given twice: " + lease_id.to_string());
    model_.adopt_lease(requests[i].key, lease_id);
    acquisitions_.push_back({requests[i].key, lease_id});
  }
}

void KeyRun::run(const Call& call, const CompleteKeys& step) {
  std::vector<CompleteRequest> requests;
  std::vector<CompleteOutcome> expected;
  for (const CompleteDraft& draft : step.requests) {
    requests.push_back(request_of(draft));
    expected.push_back(model_.complete(requests.back(), call.now));
  }
  require_same("outcomes of complete", call.store.complete(requests), expected);
}

void KeyRun::run(const Call& call, const FailKeys& step) {
  std::vector<FailRequest> requests;
  std::vector<FailOutcome> expected;
  for (const FailDraft& draft : step.requests) {
    const Acquisition held = acquisition(draft.lease);
    requests.push_back({held.key, held.lease_id, vocabulary::error(draft.error)});
    expected.push_back(model_.fail(requests.back(), call.now));
  }
  require_same("outcomes of fail", call.store.fail(requests), expected);
}

void KeyRun::run(const Call& call, const ReleaseKeys& step) {
  std::vector<ReleaseRequest> requests;
  std::vector<ReleaseOutcome> expected;
  for (const LeaseRef& lease : step.leases) {
    const Acquisition held = acquisition(lease);
    requests.push_back({held.key, held.lease_id});
    expected.push_back(model_.release(requests.back(), call.now));
  }
  require_same("outcomes of release", call.store.release(requests), expected);
}

void KeyRun::run(const Call& call, const ExtendKeys& step) {
  std::vector<KeyExtension> extensions;
  std::vector<KeyExtendOutcome> expected;
  for (const KeyExtensionDraft& draft : step.extensions) {
    const Acquisition held = acquisition(draft.lease);
    extensions.push_back({held.key, held.lease_id, draft.duration});
    expected.push_back(model_.extend(extensions.back(), call.now));
  }
  require_same("outcomes of extend", call.store.extend(extensions), expected);
}

void KeyRun::run(const Call& call, const FindKeys& step) {
  std::vector<IdempotencyKey> keys;
  std::vector<std::optional<KeyRecord>> expected;
  for (const std::size_t place : step.keys) {
    keys.push_back(vocabulary::idempotency_key(place));
    expected.push_back(model_.find(keys.back(), call.now));
  }
  require_same("records found", call.store.find(keys), expected);
}

void KeyRun::run(const Call& call, const IsProcessed& step) {
  const IdempotencyKey key = vocabulary::idempotency_key(step.key);
  const std::optional<KeyRecord> record = model_.find(key, call.now);
  require_same("answer of is_processed", call.store.is_processed(key),
               record && record->status == KeyStatus::processed);
}

void KeyRun::run(const Call& call, const MarkProcessed& step) {
  const IdempotencyKey key = vocabulary::idempotency_key(step.key);
  call.store.mark_processed(key);
  model_.complete({.key = key}, call.now);
}

void KeyRun::run(const Call& call, const CleanupKeys& step) {
  std::size_t removed = 0;
  std::size_t last = 0;
  do {
    last = call.store.cleanup(step.limit);
    require(last <= step.limit, "a cleanup removed more than its limit allows");
    removed += last;
  } while (last == step.limit);
  const std::size_t expected = model_.cleanup(call.now);
  const bool forgets_by_itself = handles_.at(call.handle)->capabilities().native_ttl;
  if (forgets_by_itself && removed < expected) return;
  require_same("sum of cleanup", removed, expected);
}

void KeyRun::run(const Call&, const AdvanceKeyTime& step) { harness_.advance(step.by); }

void KeyRun::run(const Call& call, const ReopenKeys&) {
  handles_.at(call.handle).reset();
  handles_.at(call.handle) = harness_.open();
}

void KeyRun::compare_states() {
  FindKeys every_key;
  for (std::size_t place = 0; place < vocabulary::kIdempotencyKeys; ++place) {
    every_key.keys.push_back(place);
  }
  run(call_on(0), every_key);
  run(call_on(1), every_key);
}

void run_key_sequence(Harness& harness, const KeySequence& sequence) {
  KeyRun run(harness);
  run_steps(run, sequence.steps);
}

}  // namespace oncebox::conformance
