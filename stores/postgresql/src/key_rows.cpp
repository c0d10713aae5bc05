#include "key_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "oncebox/error.hpp"

namespace oncebox::postgresql {

namespace {

// A statement's parameters stay far below what the server takes in one message.
constexpr std::size_t kMaxStatementBytes = std::size_t{32} << 20;

// The place of a status is the number that stands for it in the table: add only at the end.
constexpr std::array kStatuses{KeyStatus::in_progress, KeyStatus::released, KeyStatus::failed,
                               KeyStatus::processed};

std::int16_t code_of(KeyStatus status) noexcept {
  return static_cast<std::int16_t>(std::find(kStatuses.begin(), kStatuses.end(), status) -
                                   kStatuses.begin());
}

// In the order in which the statements name them.
namespace column {
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
};
}  // namespace column

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

// A row that it had to wait for is answered as the other transaction left it.
constexpr std::string_view kLock = R"sql(
SELECT hash, key, status, attempts, first_seen_at, last_seen_at, keep_until, owner, lease_id,
       lease_until, error, CASE WHEN $2::boolean THEN result END
  FROM {key} WHERE hash = ANY($1::uuid[]) ORDER BY hash FOR UPDATE)sql";

constexpr std::string_view kNow =
    "SELECT coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp()))";

constexpr std::string_view kFind = R"sql(
SELECT hash, key, status, attempts, first_seen_at, last_seen_at, keep_until, owner, lease_id,
       lease_until, error, result
  FROM {key}
 WHERE hash = ANY($1::uuid[])
   AND keep_until > coalesce($2::timestamptz, date_trunc('milliseconds', now())))sql";

constexpr std::string_view kInsert = R"sql(
INSERT INTO {key}
  (hash, key, status, attempts, first_seen_at, last_seen_at, keep_until, owner, lease_id,
   lease_until, error, result)
SELECT * FROM unnest(
  $1::uuid[], $2::text[], $3::smallint[], $4::integer[], $5::timestamptz[], $6::timestamptz[],
  $7::timestamptz[], $8::text[], $9::uuid[], $10::timestamptz[], $11::text[], $12::bytea[])
ON CONFLICT DO NOTHING)sql";

constexpr std::string_view kUpdate = R"sql(
UPDATE {key} AS stored
   SET status = new.status, attempts = new.attempts, first_seen_at = new.first_seen_at,
       last_seen_at = new.last_seen_at, keep_until = new.keep_until, owner = new.owner,
       lease_id = new.lease_id, lease_until = new.lease_until, error = new.error,
       result = new.result
  FROM unnest(
         $1::uuid[], $2::text[], $3::smallint[], $4::integer[], $5::timestamptz[],
         $6::timestamptz[], $7::timestamptz[], $8::text[], $9::uuid[], $10::timestamptz[],
         $11::text[], $12::bytea[])
       AS new (hash, key, status, attempts, first_seen_at, last_seen_at, keep_until, owner,
               lease_id, lease_until, error, result)
 WHERE stored.hash = new.hash AND stored.key = new.key)sql";

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

std::optional<LeaseId> read_lease_id(const Result& rows, int row) {
  if (rows.is_null(row, column::lease_id)) return std::nullopt;
  const Uuid uuid = rows.uuid(row, column::lease_id);
  if (uuid.is_nil()) {
    throw_corrupt("the stored lease id of a key is no UUID", rows.uuid(row, column::hash));
  }
  return LeaseId(uuid);
}

KeyStatus read_status(const Result& rows, int row) {
  const int code = rows.small_integer(row, column::status);
  if (code < 0 || code >= std::ssize(kStatuses)) {
    throw_corrupt("a key has no known status", rows.uuid(row, column::hash));
  }
  return kStatuses.at(static_cast<std::size_t>(code));
}

// Rows as the parameters of `kInsert` and `kUpdate`: an array for each column.
class RowArrays {
 public:
  [[nodiscard]] bool empty() const noexcept { return hash_.size() == 0; }
  [[nodiscard]] bool is_full() const noexcept { return bytes_ >= kMaxStatementBytes; }

  void add(const KeySlot& slot) {
    const KeyState& state = slot.state;
    hash_.add(slot.hash);
    key_.add(std::string_view(slot.key->str()));
    status_.add(code_of(state.status));
    attempts_.add(static_cast<std::int32_t>(state.attempts));
    first_seen_at_.add(state.first_seen_at);
    last_seen_at_.add(state.last_seen_at);
    keep_until_.add(state.keep_until);
    owner_.add(std::string_view(state.owner));
    if (state.lease_id) {
      lease_id_.add(state.lease_id->uuid().bytes());
    } else {
      lease_id_.add_null();
    }
    lease_until_.add(state.lease_until);
    error_.add(state.error);
    if (slot.new_result != nullptr) {
      result_.add(std::string_view(*slot.new_result));
      bytes_ += slot.new_result->size();
    } else {
      result_.add_null();
    }
    if (state.error) bytes_ += state.error->size();
    bytes_ += slot.key->str().size() + state.owner.size() + kFixedBytes;
  }

  [[nodiscard]] Parameters take() {
    Parameters parameters;
    for (ArrayValue* const array :
         {&hash_, &key_, &status_, &attempts_, &first_seen_at_, &last_seen_at_, &keep_until_,
          &owner_, &lease_id_, &lease_until_, &error_, &result_}) {
      parameters.add(std::move(*array));
    }
    *this = RowArrays();
    return parameters;
  }

 private:
  static constexpr std::size_t kFixedBytes = 128;

  ArrayValue hash_{SqlType::uuid};
  ArrayValue key_{SqlType::text};
  ArrayValue status_{SqlType::smallint};
  ArrayValue attempts_{SqlType::integer};
  ArrayValue first_seen_at_{SqlType::timestamptz};
  ArrayValue last_seen_at_{SqlType::timestamptz};
  ArrayValue keep_until_{SqlType::timestamptz};
  ArrayValue owner_{SqlType::text};
  ArrayValue lease_id_{SqlType::uuid};
  ArrayValue lease_until_{SqlType::timestamptz};
  ArrayValue error_{SqlType::text};
  ArrayValue result_{SqlType::bytea};
  std::size_t bytes_ = 0;
};

}  // namespace

KeyStatements::KeyStatements(const Names& names)
    : begin{"key_begin", names.fill(kBegin)},
      complete{"key_complete", names.fill(kComplete)},
      lock{"key_lock", names.fill(kLock)},
      now{"key_now", names.fill(kNow)},
      find{"key_find", names.fill(kFind)},
      insert{"key_insert", names.fill(kInsert)},
      update{"key_update", names.fill(kUpdate)},
      touch{"key_touch", names.fill(kTouch)},
      forget{"key_forget", names.fill(kForget)} {}

KeyRow read_key_row(const Result& rows, int row, const IdempotencyKey& key) {
  if (rows.bytes(row, column::key) != key.str()) {
    throw_corrupt("two keys share a storage key: the one asked for, and the stored one",
                  rows.uuid(row, column::hash));
  }
  return {.state = {.status = read_status(rows, row),
                    .attempts = rows.integer(row, column::attempts),
                    .first_seen_at = rows.time(row, column::first_seen_at),
                    .last_seen_at = rows.time(row, column::last_seen_at),
                    .owner = std::string(rows.bytes(row, column::owner)),
                    .lease_id = read_lease_id(rows, row),
                    .lease_until = rows.optional_time(row, column::lease_until),
                    .keep_until = rows.time(row, column::keep_until),
                    .error = rows.optional_text(row, column::error)},
          .result = rows.optional_text(row, column::result)};
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

void KeySlots::read(const Result& rows) {
  for (int row = 0; row < rows.rows(); ++row) {
    const Uuid hash = rows.uuid(row, column::hash);
    const auto slot =
        std::lower_bound(slots_.begin(), slots_.end(), hash.bytes(),
                         [](const KeySlot& a, const sql::StorageKey& b) { return a.hash < b; });
    if (slot == slots_.end() || slot->hash != hash.bytes()) {
      throw_corrupt("PostgreSQL answered a key that nobody asked for", hash);
    }
    KeyRow stored = read_key_row(rows, row, *slot->key);
    slot->has_row = true;
    slot->is_known = true;
    slot->state = std::move(stored.state);
    slot->result = std::move(stored.result);
  }
}

TimePoint KeySlots::load(Transaction& transaction, const KeyStatements& statements,
                         StoredResult result, const std::optional<TimePoint>& now) {
  const Parameters lock = Parameters().add(hashes()).add(result == StoredResult::needed);
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
  }
  return loaded_at;
}

std::vector<Parameters> KeySlots::written(bool has_row) const {
  std::vector<Parameters> statements;
  RowArrays rows;
  for (const KeySlot& slot : slots_) {
    if (slot.change != KeySlot::Change::written || slot.has_row != has_row) continue;
    rows.add(slot);
    if (rows.is_full()) statements.push_back(rows.take());
  }
  if (!rows.empty()) statements.push_back(rows.take());
  return statements;
}

void KeySlots::insert_new(Transaction& transaction, const KeyStatements& statements) const {
  const std::vector<Parameters> inserted = written(false);
  if (inserted.empty()) return;
  std::vector<Command> commands;
  for (const Parameters& rows : inserted) commands.push_back({&statements.insert, &rows});
  const auto is_new = [](const KeySlot& slot) {
    return slot.change == KeySlot::Change::written && !slot.has_row;
  };
  auto missing = static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), is_new));
  for (const Result& result : transaction.run_all(commands)) missing -= result.changed();
  if (missing != 0) throw LostAgainstAnother("another process stored the same key");
}

void KeySlots::commit(Transaction& transaction, const KeyStatements& statements,
                      TimePoint now) const {
  insert_new(transaction, statements);
  std::vector<Command> commands;
  const std::vector<Parameters> updated = written(true);
  for (const Parameters& rows : updated) commands.push_back({&statements.update, &rows});

  ArrayValue touched(SqlType::uuid);
  for (const KeySlot& slot : slots_) {
    if (slot.change == KeySlot::Change::touched) touched.add(slot.hash);
  }
  const bool touches = touched.size() != 0;
  const Parameters touch = Parameters().add(std::move(touched)).add(now);
  if (touches) commands.push_back({&statements.touch, &touch});
  transaction.commit(commands);
}

}  // namespace oncebox::postgresql
