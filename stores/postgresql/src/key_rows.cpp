#include "key_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/sql/read_rows.hpp"
#include "row_arrays.hpp"

namespace oncebox::postgresql {

namespace {

// Of results in one statement: far below what the server takes in one message.
constexpr std::size_t kMaxStatementBytes = std::size_t{32} << 20;
// So small that those of a whole batch are no more than it may answer.
constexpr std::int32_t kMaxBytesAtOnce = limits::kMaxBegunResultBytes / limits::kMaxBatchItems;

// Every statement that answers rows names them in this order.
namespace key_column {
enum Column : int {
  hash,
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
  result_bytes,  // of `lock` alone
};
}  // namespace key_column

// Likewise of `results`.
namespace result_column {
enum Column : int { hash, result };
}  // namespace result_column

constexpr std::array kKeyColumns{Column{"hash", SqlType::uuid},
                                 Column{"key", SqlType::text},
                                 Column{"status", SqlType::smallint},
                                 Column{"attempts", SqlType::integer},
                                 Column{"first_seen_at", SqlType::timestamptz},
                                 Column{"last_seen_at", SqlType::timestamptz},
                                 Column{"keep_until", SqlType::timestamptz},
                                 Column{"owner", SqlType::text},
                                 Column{"lease_id", SqlType::uuid},
                                 Column{"lease_until", SqlType::timestamptz},
                                 Column{"error", SqlType::text},
                                 Column{"result", SqlType::bytea}};

// A row that conflicts is returned too, touched, unless the key may be acquired: that is left to
// the rules in C++. Status 0 is in progress, 3 is processed.
constexpr std::string_view kBegin = R"sql(
INSERT INTO {key} AS stored
  (hash, key, owner, lease_id, status, attempts, first_seen_at, last_seen_at, lease_until,
   keep_until)
SELECT $1::uuid, $2::text, $3::text, $4::uuid, 0, 1, time.now, time.now,
       time.now + $5::bigint * interval '1 millisecond',
       time.now + greatest($5::bigint, $6::bigint) * interval '1 millisecond'
  FROM (SELECT coalesce($7::timestamptz, date_trunc('milliseconds', now())) AS now) AS time
ON CONFLICT (hash) DO UPDATE SET last_seen_at = excluded.last_seen_at
  WHERE stored.key = excluded.key AND stored.keep_until > excluded.last_seen_at
    AND (stored.status = 3
         OR (stored.status = 0 AND stored.lease_until > excluded.last_seen_at))
RETURNING hash, key, status, attempts, first_seen_at, last_seen_at, keep_until, owner, lease_id,
          lease_until, error, result)sql";

// Without a lease id whatever is not processed yet; with one only what its holder has.
constexpr std::string_view kComplete = R"sql(
INSERT INTO {key} AS stored
  (hash, key, owner, lease_id, status, attempts, first_seen_at, last_seen_at, keep_until, result)
SELECT $1::uuid, $2::text, '', $3::uuid, 3, 0, time.now, time.now,
       time.now + $4::bigint * interval '1 millisecond', $5::bytea
  FROM (SELECT coalesce($6::timestamptz, date_trunc('milliseconds', now())) AS now) AS time
ON CONFLICT (hash) DO UPDATE
  SET status = 3, lease_id = excluded.lease_id, lease_until = NULL,
      keep_until = excluded.keep_until, error = NULL, result = excluded.result
  WHERE stored.key = excluded.key AND stored.keep_until > excluded.last_seen_at
    AND stored.status <> 3
    AND (excluded.lease_id IS NULL
         OR (stored.status = 0 AND stored.lease_id = excluded.lease_id)))sql";

// A row that it had to wait for is answered as the other transaction left it. Of results those come
// at once that have at most $2 bytes; of the others it is to be known first which are needed.
constexpr std::string_view kLock = R"sql(
SELECT hash, key, status, attempts, first_seen_at, last_seen_at, keep_until, owner, lease_id,
       lease_until, error, CASE WHEN octet_length(result) <= $2::integer THEN result END,
       octet_length(result)
  FROM {key} WHERE hash = ANY($1::uuid[]) ORDER BY hash FOR UPDATE)sql";

constexpr std::string_view kResults = "SELECT hash, result FROM {key} WHERE hash = ANY($1::uuid[])";

constexpr std::string_view kNow =
    "SELECT coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp()))";

constexpr std::string_view kFind = R"sql(
SELECT hash, key, status, attempts, first_seen_at, last_seen_at, keep_until, owner, lease_id,
       lease_until, error, result
  FROM {key}
 WHERE hash = ANY($1::uuid[])
   AND keep_until > coalesce($2::timestamptz, date_trunc('milliseconds', now())))sql";

constexpr std::string_view kTouch = R"sql(
UPDATE {key} SET last_seen_at = $2::timestamptz WHERE hash = ANY($1::uuid[]))sql";

// As an array, the rows are chosen once, whatever the planner thinks of.
constexpr std::string_view kForget = R"sql(
DELETE FROM {key} WHERE hash = ANY(ARRAY(
  SELECT hash FROM {key}
   WHERE keep_until <= coalesce($1::timestamptz, date_trunc('milliseconds', now()))
   ORDER BY keep_until LIMIT $2::bigint FOR UPDATE SKIP LOCKED)))sql";

[[noreturn]] void throw_corrupt(std::string_view what, const Uuid& hash) {
  throw Error(ErrorCode::corrupt, fmt::format("{} (hash {})", what, hash.to_string()));
}

void put(RowArrays& rows, const KeySlot& slot) {
  const KeyState& state = slot.state;
  rows.put(slot.hash)
      .put(std::string_view(slot.key->str()))
      .put(sql::code_of(state.status))
      .put(static_cast<std::int32_t>(state.attempts))
      .put(state.first_seen_at)
      .put(state.last_seen_at)
      .put(state.keep_until)
      .put(std::string_view(state.owner));
  const auto lease_id =
      state.lease_id ? std::optional(state.lease_id->uuid().bytes()) : std::optional<Uuid::Bytes>();
  const auto result = slot.new_result != nullptr ? std::optional<std::string_view>(*slot.new_result)
                                                 : std::optional<std::string_view>();
  rows.put(lease_id).put(state.lease_until).put(state.error).put(result);
}

}  // namespace

KeyStatements::KeyStatements(const Names& names)
    : begin{"key_begin", names.fill(kBegin)},
      complete{"key_complete", names.fill(kComplete)},
      lock{"key_lock", names.fill(kLock)},
      results{"key_results", names.fill(kResults)},
      now{"key_now", names.fill(kNow)},
      find{"key_find", names.fill(kFind)},
      insert{"key_insert",
             names.fill(fmt::format("INSERT INTO {{key}} ({}) SELECT {} FROM {}",
                                    RowArrays::names(kKeyColumns), RowArrays::values(kKeyColumns),
                                    RowArrays::source(kKeyColumns)))},
      update{"key_update", names.fill(fmt::format("UPDATE {{key}} AS stored SET {} FROM {} "
                                                  "WHERE stored.hash = u.hash",
                                                  RowArrays::assignments(kKeyColumns),
                                                  RowArrays::source(kKeyColumns)))},
      touch{"key_touch", names.fill(kTouch)},
      forget{"key_forget", names.fill(kForget)} {}

KeyRow read_key_row(const Result& rows, int row, const IdempotencyKey& key) {
  if (rows.bytes(row, key_column::key) != key.str()) {
    throw_corrupt("two keys share a storage key: the one asked for, and the stored one",
                  rows.uuid(row, key_column::hash));
  }
  const ResultRow stored(rows, row);
  const auto corrupt = [&](std::string_view what) {
    throw_corrupt(what, stored.uuid(key_column::hash));
  };
  return {.state = sql::read_key_state<key_column::Column>(stored, stored.int16(key_column::status),
                                                           corrupt),
          .result = stored.optional_text(key_column::result)};
}

void KeySlot::touch() noexcept {
  if (change == Change::none) change = Change::touched;
}

void KeySlot::write(const std::string* result_to_store) noexcept {
  change = Change::written;
  is_known = true;
  new_result = result_to_store;
}

KeySlots::KeySlots(std::span<const IdempotencyKey* const> keys) : slot_of_(keys.size()) {
  std::vector<sql::StorageKey> hashes;
  hashes.reserve(keys.size());
  for (const IdempotencyKey* const key : keys) hashes.push_back(sql::storage_key(*key));

  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return hashes[a] < hashes[b]; });
  slots_.reserve(keys.size());
  for (const std::size_t n : order) {
    if (slots_.empty() || slots_.back().hash != hashes[n]) slots_.emplace_back(*keys[n], hashes[n]);
    if (*slots_.back().key != *keys[n]) {
      throw_corrupt("two keys of one call share a storage key", Uuid(hashes[n]));
    }
    slot_of_[n] = slots_.size() - 1;
  }
}

ArrayValue KeySlots::hashes() const {
  ArrayValue hashes(SqlType::uuid);
  for (const KeySlot& slot : slots_) hashes.add(slot.hash);
  return hashes;
}

KeySlot& KeySlots::slot_of_row(const Result& rows, int row) {
  const Uuid hash = rows.uuid(row, key_column::hash);
  const auto slot =
      std::lower_bound(slots_.begin(), slots_.end(), hash.bytes(),
                       [](const KeySlot& a, const sql::StorageKey& b) { return a.hash < b; });
  if (slot == slots_.end() || slot->hash != hash.bytes()) {
    throw_corrupt("PostgreSQL answered a key that nobody asked for", hash);
  }
  return *slot;
}

void KeySlots::read(const Result& rows) {
  const bool has_sizes = rows.columns() > key_column::result_bytes;
  for (int row = 0; row < rows.rows(); ++row) {
    KeySlot& slot = slot_of_row(rows, row);
    KeyRow stored = read_key_row(rows, row, *slot.key);
    slot.has_row = true;
    slot.is_known = true;
    slot.state = std::move(stored.state);
    slot.result = std::move(stored.result);
    if (has_sizes && !rows.is_null(row, key_column::result_bytes)) {
      slot.result_bytes = static_cast<std::size_t>(rows.int32(row, key_column::result_bytes));
    }
  }
}

void KeySlots::read_results(const Result& rows) {
  for (int row = 0; row < rows.rows(); ++row) {
    slot_of_row(rows, row).result = rows.optional_text(row, result_column::result);
  }
}

TimePoint KeySlots::load(Transaction& transaction, const KeyStatements& statements,
                         StoredResult result, const std::optional<TimePoint>& now) {
  const std::int32_t max_bytes = result == StoredResult::needed ? kMaxBytesAtOnce : -1;
  const Parameters lock = Parameters().add(hashes()).add(max_bytes);
  const Parameters time = Parameters().add(now);
  const std::array commands{Command{&statements.lock, &lock}, Command{&statements.now, &time}};
  const std::vector<Result> results = transaction.run_all(commands);
  read(results[0]);
  const TimePoint loaded_at = results[1].time(0, 0);
  for (KeySlot& slot : slots_) {
    if (slot.is_known && !slot.state.forgotten_at(loaded_at)) continue;
    slot.is_known = false;
    slot.state = new_key_state(loaded_at);
    slot.result.reset();
    slot.result_bytes.reset();
  }
  return loaded_at;
}

std::vector<Parameters> KeySlots::written(bool has_row) const {
  std::vector<Parameters> statements;
  std::size_t bytes = kMaxStatementBytes;
  std::optional<RowArrays> rows;
  for (const KeySlot& slot : slots_) {
    if (slot.change != KeySlot::Change::written || slot.has_row != has_row) continue;
    if (bytes >= kMaxStatementBytes) {
      if (rows) statements.push_back(rows->take());
      rows.emplace(kKeyColumns);
      bytes = 0;
    }
    put(*rows, slot);
    bytes += slot.new_result != nullptr ? slot.new_result->size() : 0;
  }
  if (rows) statements.push_back(rows->take());
  return statements;
}

void KeySlots::commit(Transaction& transaction, const KeyStatements& statements, TimePoint now) {
  std::vector<Command> commands;
  ArrayValue wanted(SqlType::uuid);
  for (const KeySlot& slot : slots_) {
    if (slot.is_result_wanted && !slot.result) wanted.add(slot.hash);
  }
  const bool wants_results = wanted.size() != 0;
  const Parameters results = Parameters().add(std::move(wanted));
  if (wants_results) commands.push_back({&statements.results, &results});
  const std::vector<Parameters> inserted = written(false);
  for (const Parameters& rows : inserted) commands.push_back({&statements.insert, &rows});
  const std::vector<Parameters> updated = written(true);
  for (const Parameters& rows : updated) commands.push_back({&statements.update, &rows});

  ArrayValue touched(SqlType::uuid);
  for (const KeySlot& slot : slots_) {
    if (slot.change == KeySlot::Change::touched) touched.add(slot.hash);
  }
  const bool touches = touched.size() != 0;
  const Parameters touch = Parameters().add(std::move(touched)).add(now);
  if (touches) commands.push_back({&statements.touch, &touch});
  const std::vector<Result> answers = transaction.commit(commands);
  if (wants_results) read_results(answers.front());
}

}  // namespace oncebox::postgresql
