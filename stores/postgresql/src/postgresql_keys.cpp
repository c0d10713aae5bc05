#include "postgresql_keys.hpp"

#include <utility>

#include "oncebox/driver/answer_room.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::postgresql {

namespace {

// Without the result: that of the slot may be read later, when it is known which ones have room.
BeginOutcome begin_one(const BeginRequest& request, KeySlot& slot, AnswerRoom& room,
                       TimePoint now) {
  const BeginStatus status = begin_as_found(slot.known(), request.on_failed, now);
  if (status == BeginStatus::acquired) {
    hand_out(slot.state, request, request.owner, LeaseId::generate(now), now);
    slot.write();
  } else {
    slot.touch();
  }
  BeginOutcome outcome = begin_outcome(status, slot.state);
  if (slot.result_bytes) {
    outcome.result_left_out = !room.take(*slot.result_bytes);
    if (!outcome.result_left_out) slot.is_result_wanted = true;
  }
  return outcome;
}

CompleteOutcome complete_one(const CompleteRequest& request, KeySlot& slot, TimePoint now) {
  const auto as_found = complete_as_found(slot.known(), request.lease_id);
  if (as_found) return *as_found;
  set_processed(slot.state, request, now);
  slot.write(request.result ? &*request.result : nullptr);
  return CompleteOutcome::processed;
}

FailOutcome fail_one(const FailRequest& request, KeySlot& slot, TimePoint /*now*/) {
  const auto as_found = fail_as_found(slot.known(), request.lease_id);
  if (as_found) return *as_found;
  set_failed(slot.state, error_text(request));
  slot.write();
  return FailOutcome::failed;
}

ReleaseOutcome release_one(const ReleaseRequest& request, KeySlot& slot, TimePoint /*now*/) {
  const auto as_found = release_as_found(slot.known(), request.lease_id);
  if (as_found) return *as_found;
  set_released(slot.state);
  slot.write();
  return ReleaseOutcome::released;
}

KeyExtendOutcome extend_one(const KeyExtension& extension, KeySlot& slot, TimePoint now) {
  const KeyExtendOutcome outcome = extend_as_found(slot.known(), extension, now);
  if (!outcome.lease_until) return outcome;
  prolong(slot.state, *outcome.lease_until);
  slot.write();
  return outcome;
}

template <class Request>
std::vector<const IdempotencyKey*> keys_of(std::span<const Request> requests) {
  std::vector<const IdempotencyKey*> keys;
  keys.reserve(requests.size());
  for (const Request& request : requests) keys.push_back(&request.key);
  return keys;
}

}  // namespace

PostgresqlKeys::PostgresqlKeys(ConnectionPool& pool, const Names& names, const Clock* clock)
    : pool_(pool), clock_(clock), statements_(names) {}

std::optional<TimePoint> PostgresqlKeys::given_time() const {
  if (clock_ == nullptr) return std::nullopt;
  return clock_->now();
}

template <class Outcome, class Request>
std::vector<Outcome> PostgresqlKeys::run_batch(std::span<const Request> requests, Deadline deadline,
                                               Outcome (*step)(const Request&, KeySlot&,
                                                               TimePoint)) {
  const KeySlots empty_slots(keys_of(requests));
  return in_transaction(pool_, deadline, [&](Transaction& transaction) {
    KeySlots slots = empty_slots;
    const TimePoint now =
        slots.load(transaction, statements_, StoredResult::not_needed, given_time());
    std::vector<Outcome> outcomes;
    outcomes.reserve(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      outcomes.push_back(step(requests[i], slots.of(i), now));
    }
    slots.commit(transaction, statements_, now);
    return outcomes;
  });
}

std::vector<BeginOutcome> PostgresqlKeys::begin_batch(std::span<const BeginRequest> requests,
                                                      Deadline deadline) {
  const KeySlots empty_slots(keys_of(requests));
  return in_transaction(pool_, deadline, [&](Transaction& transaction) {
    KeySlots slots = empty_slots;
    const TimePoint now = slots.load(transaction, statements_, StoredResult::needed, given_time());
    AnswerRoom room(limits::kMaxBegunResultBytes);
    std::vector<BeginOutcome> outcomes;
    outcomes.reserve(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      outcomes.push_back(begin_one(requests[i], slots.of(i), room, now));
    }
    slots.commit(transaction, statements_, now);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (!outcomes[i].result_left_out) outcomes[i].result = slots.of(i).result;
    }
    return outcomes;
  });
}

std::optional<BeginOutcome> PostgresqlKeys::begin_at_once(const BeginRequest& request,
                                                          Deadline deadline) {
  const std::optional<TimePoint> now = given_time();
  const LeaseId lease_id = LeaseId::generate(now.value_or(SystemClock::current()));
  const Parameters parameters = Parameters()
                                    .add(sql::storage_key(request.key))
                                    .add(std::string_view(request.key.str()))
                                    .add(std::string_view(request.owner))
                                    .add(lease_id.uuid().bytes())
                                    .add(std::int64_t{request.lease.count()})
                                    .add(std::int64_t{kept_for(request.retention).count()})
                                    .add(now);
  const Result rows = run_alone(pool_, statements_.begin, parameters, Exchange::commits, deadline);
  if (rows.empty()) return std::nullopt;
  KeyRow row = read_key_row(rows, 0, request.key);
  const bool is_ours = row.state.lease_id == lease_id;
  BeginOutcome outcome =
      begin_outcome(is_ours ? BeginStatus::acquired
                            : begin_as_found(&row.state, request.on_failed, row.state.last_seen_at),
                    row.state);
  outcome.result = std::move(row.result);
  return outcome;
}

std::optional<CompleteOutcome> PostgresqlKeys::complete_at_once(const CompleteRequest& request,
                                                                Deadline deadline) {
  Parameters parameters;
  parameters.add(sql::storage_key(request.key)).add(std::string_view(request.key.str()));
  if (request.lease_id) {
    parameters.add(request.lease_id->uuid().bytes());
  } else {
    parameters.add_null();
  }
  parameters.add(std::int64_t{kept_for(request.retention).count()})
      .add(request.result)
      .add(given_time());
  const Result rows =
      run_alone(pool_, statements_.complete, parameters, Exchange::commits, deadline);
  if (rows.changed() == 0) return std::nullopt;
  return CompleteOutcome::processed;
}

std::vector<BeginOutcome> PostgresqlKeys::do_begin(std::span<const BeginRequest> requests) {
  const Deadline deadline = pool_.deadline();
  if (requests.size() == 1) {
    if (auto outcome = begin_at_once(requests.front(), deadline)) return {std::move(*outcome)};
  }
  return begin_batch(requests, deadline);
}

std::vector<CompleteOutcome> PostgresqlKeys::do_complete(
    std::span<const CompleteRequest> requests) {
  const Deadline deadline = pool_.deadline();
  if (requests.size() == 1) {
    if (const auto outcome = complete_at_once(requests.front(), deadline)) return {*outcome};
  }
  return run_batch(requests, deadline, &complete_one);
}

std::vector<FailOutcome> PostgresqlKeys::do_fail(std::span<const FailRequest> requests) {
  return run_batch(requests, pool_.deadline(), &fail_one);
}

std::vector<ReleaseOutcome> PostgresqlKeys::do_release(std::span<const ReleaseRequest> requests) {
  return run_batch(requests, pool_.deadline(), &release_one);
}

std::vector<KeyExtendOutcome> PostgresqlKeys::do_extend(std::span<const KeyExtension> extensions) {
  return run_batch(extensions, pool_.deadline(), &extend_one);
}

std::vector<std::optional<KeyRecord>> PostgresqlKeys::do_find(
    std::span<const IdempotencyKey> keys) {
  std::vector<const IdempotencyKey*> borrowed;
  borrowed.reserve(keys.size());
  for (const IdempotencyKey& key : keys) borrowed.push_back(&key);
  KeySlots slots(borrowed);
  const Parameters parameters = Parameters().add(slots.hashes()).add(given_time());
  slots.read(run_alone(pool_, statements_.find, parameters, Exchange::changes_nothing));

  std::vector<std::optional<KeyRecord>> records(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const KeySlot& slot = slots.of(i);
    if (slot.is_known) records[i] = to_record(keys[i], slot.state, slot.result);
  }
  return records;
}

std::size_t PostgresqlKeys::do_cleanup(std::size_t limit) {
  const Parameters parameters =
      Parameters().add(given_time()).add(static_cast<std::int64_t>(limit));
  return run_alone(pool_, statements_.forget, parameters, Exchange::commits).changed();
}

}  // namespace oncebox::postgresql
