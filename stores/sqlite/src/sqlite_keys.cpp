#include "sqlite_keys.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/sql/read_rows.hpp"

namespace oncebox::sqlite {

namespace {

// In the order in which `kSelectKey` names them.
namespace key_column {
enum Column : int {
  id,
  key,
  status,
  attempts,
  first_seen_at,
  last_seen_at,
  keep_until,
  owner,
  lease_id,
  lease_until,
  error,
  result,
};
}  // namespace key_column

constexpr std::string_view kSelectKey = R"sql(
SELECT id, key, status, attempts, first_seen_at, last_seen_at, keep_until, owner, lease_id,
       lease_until, error, result
  FROM oncebox_key WHERE hash = ?1)sql";

constexpr std::string_view kInsert = R"sql(
INSERT INTO oncebox_key (
  status, attempts, first_seen_at, last_seen_at, keep_until, owner, lease_id, lease_until, error,
  result, hash, key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12))sql";

constexpr std::string_view kUpdate = R"sql(
UPDATE oncebox_key SET
  status = ?1, attempts = ?2, first_seen_at = ?3, last_seen_at = ?4, keep_until = ?5, owner = ?6,
  lease_id = ?7, lease_until = ?8, error = ?9, result = ?10
WHERE id = ?11)sql";

constexpr std::string_view kTouch = "UPDATE oncebox_key SET last_seen_at = ?1 WHERE id = ?2";

constexpr std::string_view kForget = R"sql(
DELETE FROM oncebox_key WHERE id IN (
  SELECT id FROM oncebox_key WHERE keep_until <= ?1 ORDER BY keep_until LIMIT ?2))sql";

[[noreturn]] void throw_corrupt(const Statement& row, std::string_view what) {
  throw Error(ErrorCode::corrupt,
              fmt::format("{} (row {} of oncebox_key)", what, row.int64(key_column::id)));
}

struct KeyRow {
  std::int64_t id = 0;
  KeyState state;
  std::optional<std::string> result;
};

KeyRow read_key(const Statement& row) {
  const auto corrupt = [&](std::string_view what) { throw_corrupt(row, what); };
  return {
      .id = row.int64(key_column::id),
      .state = sql::read_key_state<key_column::Column>(row, row.int64(key_column::status), corrupt),
      .result = row.optional_blob(key_column::result)};
}

// `select` is a prepared `kSelectKey`.
std::optional<KeyRow> find_row(Statement& select, const IdempotencyKey& key,
                               const sql::StorageKey& hash) {
  const ResetLater reset(select);
  if (!select.bind_blob(1, hash).step()) return std::nullopt;
  if (select.text(key_column::key) != key.str()) {
    throw_corrupt(select, "two keys share a storage key: the one asked for, and the stored one");
  }
  return read_key(select);
}

// The parameters that `kInsert` and `kUpdate` have in common.
void bind_key(Statement& statement, const KeyState& state,
              const std::optional<std::string>& result) {
  statement.bind(1, sql::code_of(state.status))
      .bind(2, state.attempts)
      .bind(3, state.first_seen_at)
      .bind(4, state.last_seen_at)
      .bind(5, state.keep_until)
      .bind(6, std::string_view(state.owner))
      .bind(8, state.lease_until)
      .bind(9, state.error);
  if (state.lease_id) {
    statement.bind_blob(7, state.lease_id->uuid().bytes());
  } else {
    statement.bind_null(7);
  }
  if (result) {
    statement.bind_blob(10, *result);
  } else {
    statement.bind_null(10);
  }
}

}  // namespace

SqliteKeys::SqliteKeys(Connection& writer_connection, Writer& writer, ReaderPool& readers,
                       const Clock& clock)
    : connection_(writer_connection),
      writer_(writer),
      readers_(readers),
      clock_(clock),
      select_(writer_connection.prepare(kSelectKey)),
      insert_(writer_connection.prepare(kInsert)),
      update_(writer_connection.prepare(kUpdate)),
      touch_(writer_connection.prepare(kTouch)),
      forget_(writer_connection.prepare(kForget)) {}

template <class Outcome, class Request>
std::vector<Outcome> SqliteKeys::run_batch(std::span<const Request> requests,
                                           Outcome (SqliteKeys::*step)(const Request&, Slot&,
                                                                       TimePoint)) {
  // Hashed by the caller's own thread: everybody waits for the writer's.
  std::vector<sql::StorageKey> hashes;
  hashes.reserve(requests.size());
  for (const Request& request : requests) hashes.push_back(sql::storage_key(request.key));

  return writer_.run(Flush::required, [&] {
    const TimePoint now = clock_.now();
    AnswerRoom room(limits::kMaxBegunResultBytes);
    std::vector<Outcome> outcomes;
    outcomes.reserve(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Slot slot = look_up(requests[i].key, hashes[i], room, now);
      outcomes.push_back((this->*step)(requests[i], slot, now));
    }
    return outcomes;
  });
}

std::vector<BeginOutcome> SqliteKeys::do_begin(std::span<const BeginRequest> requests) {
  return run_batch(requests, &SqliteKeys::begin_one);
}

std::vector<CompleteOutcome> SqliteKeys::do_complete(std::span<const CompleteRequest> requests) {
  return run_batch(requests, &SqliteKeys::complete_one);
}

std::vector<FailOutcome> SqliteKeys::do_fail(std::span<const FailRequest> requests) {
  return run_batch(requests, &SqliteKeys::fail_one);
}

std::vector<ReleaseOutcome> SqliteKeys::do_release(std::span<const ReleaseRequest> requests) {
  return run_batch(requests, &SqliteKeys::release_one);
}

std::vector<KeyExtendOutcome> SqliteKeys::do_extend(std::span<const KeyExtension> extensions) {
  return run_batch(extensions, &SqliteKeys::extend_one);
}

std::vector<std::optional<KeyRecord>> SqliteKeys::do_find(std::span<const IdempotencyKey> keys) {
  return readers_.run([&](Connection& connection) {
    Statement select = connection.prepare(kSelectKey);
    const TimePoint now = clock_.now();
    std::vector<std::optional<KeyRecord>> records;
    records.reserve(keys.size());
    for (const IdempotencyKey& key : keys) {
      std::optional<KeyRow> row = find_row(select, key, sql::storage_key(key));
      records.emplace_back();
      if (!row || row->state.forgotten_at(now)) continue;
      records.back() = to_record(key, std::move(row->state), std::move(row->result));
    }
    return records;
  });
}

// A removal that is lost with the power is noticed by nobody: the key is forgotten either way.
std::size_t SqliteKeys::do_cleanup(std::size_t limit) {
  return writer_.run(Flush::may_wait, [&] {
    forget_.bind(1, clock_.now()).bind(2, limit).run();
    return static_cast<std::size_t>(connection_.changes());
  });
}

BeginOutcome SqliteKeys::begin_one(const BeginRequest& request, Slot& slot, TimePoint now) {
  const BeginStatus status = begin_as_found(slot.known(), request.on_failed, now);
  if (status == BeginStatus::acquired) {
    hand_out(slot.state, request, request.owner, LeaseId::generate(now), now);
    store(slot);
  } else {
    touch_.bind(1, now).bind(2, slot.row_id.value()).run();
  }
  BeginOutcome outcome = begin_outcome(status, slot.state);
  if (slot.result) outcome.result_left_out = !slot.room.take(slot.result->size());
  if (!outcome.result_left_out) outcome.result = std::move(slot.result);
  return outcome;
}

CompleteOutcome SqliteKeys::complete_one(const CompleteRequest& request, Slot& slot,
                                         TimePoint now) {
  const auto as_found = complete_as_found(slot.known(), request.lease_id);
  if (as_found) return *as_found;
  set_processed(slot.state, request, now);
  store(slot, request.result);
  return CompleteOutcome::processed;
}

FailOutcome SqliteKeys::fail_one(const FailRequest& request, Slot& slot, TimePoint /*now*/) {
  const auto as_found = fail_as_found(slot.known(), request.lease_id);
  if (as_found) return *as_found;
  set_failed(slot.state, error_text(request));
  store(slot);
  return FailOutcome::failed;
}

ReleaseOutcome SqliteKeys::release_one(const ReleaseRequest& request, Slot& slot,
                                       TimePoint /*now*/) {
  const auto as_found = release_as_found(slot.known(), request.lease_id);
  if (as_found) return *as_found;
  set_released(slot.state);
  store(slot);
  return ReleaseOutcome::released;
}

KeyExtendOutcome SqliteKeys::extend_one(const KeyExtension& extension, Slot& slot, TimePoint now) {
  const KeyExtendOutcome outcome = extend_as_found(slot.known(), extension, now);
  if (!outcome.lease_until) return outcome;
  prolong(slot.state, *outcome.lease_until);
  store(slot);
  return outcome;
}

SqliteKeys::Slot SqliteKeys::look_up(const IdempotencyKey& key, const sql::StorageKey& hash,
                                     AnswerRoom& room, TimePoint now) {
  Slot slot{.key = key,
            .hash = hash,
            .room = room,
            .row_id = {},
            .state = new_key_state(now),
            .result = {}};
  std::optional<KeyRow> row = find_row(select_, key, hash);
  if (!row) return slot;
  slot.row_id = row->id;
  slot.is_known = !row->state.forgotten_at(now);
  if (slot.is_known) {
    slot.state = std::move(row->state);
    slot.result = std::move(row->result);
  }
  return slot;
}

void SqliteKeys::store(const Slot& slot, const std::optional<std::string>& result) {
  Statement& statement = slot.row_id ? update_ : insert_;
  bind_key(statement, slot.state, result);
  if (slot.row_id) {
    statement.bind(11, *slot.row_id);
  } else {
    statement.bind_blob(11, slot.hash).bind(12, std::string_view(slot.key.str()));
  }
  statement.run();
}

}  // namespace oncebox::sqlite
