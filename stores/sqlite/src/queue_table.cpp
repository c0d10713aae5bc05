#include "queue_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "oncebox/error.hpp"
#include "oncebox/sql/attempt_code.hpp"
#include "oncebox/sql/header_json.hpp"
#include "oncebox/sql/storage_key.hpp"

namespace oncebox::sqlite {

namespace {

std::string for_queue(std::string_view queue, std::string_view sql) {
  return fmt::format(fmt::runtime(sql), fmt::arg("queue", queue));
}

/// Of the messages that these deliveries still hold those that fulfil the condition, too.
std::string acknowledge_sql(std::string_view queue, std::string_view condition) {
  return fmt::format(R"sql(
UPDATE oncebox_{queue}_state
   SET stage = 4, owner = NULL, delivery = NULL, locked_until = NULL, finished_at = ?3
  FROM json_each(?1) listed
 WHERE oncebox_{queue}_state.id = CAST(listed.key AS INTEGER) AND stage = 3 AND owner = ?2
   AND delivery = listed.value AND claimed_version = content_version AND partition_key IS NULL
   {condition}
RETURNING oncebox_{queue}_state.id)sql",
                     fmt::arg("queue", queue), fmt::arg("condition", condition));
}

}  // namespace

QueueTable::Statements::Statements(Connection& connection, std::string_view queue)
    : find_id(connection.prepare(select_rows(queue, ListPayloads::include, "WHERE m.id = ?1"))),
      insert_message(connection.prepare(for_queue(queue, R"sql(
INSERT INTO oncebox_{queue}_message (
  id, key, source, message_id, first_seen_at, payload, headers, hash_algorithm, hash, segment)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (segment, key) DO NOTHING)sql"))),
      insert_state(connection.prepare(sqlite::insert_state(queue))),
      insert_accepted(connection.prepare(for_queue(queue, R"sql(
INSERT INTO oncebox_{queue}_state (
  id, stage, topic, rank, eligible_at, enqueue_order, attempt, deliveries, lapses,
  content_version, claimed_version, duplicates, last_seen_at, due_at, expires_at, backoff_until,
  partition_key, revivals)
VALUES (?1, ?2, ?3, ?4, ?5, ?1, 0, 0, 0, 1, 0, 0, ?6, ?7, ?8, 0, ?9, 0))sql"))),
      update_state(connection.prepare(sqlite::update_state(queue))),
      update_content(connection.prepare(for_queue(queue, R"sql(
UPDATE oncebox_{queue}_message
   SET payload = ?2, headers = ?3, hash_algorithm = ?4, hash = ?5
 WHERE id = ?1)sql"))),
      touch(connection.prepare(for_queue(queue, R"sql(
UPDATE oncebox_{queue}_state
   SET last_seen_at = ?2, duplicates = min(duplicates + ?3, ?4)
 WHERE id = ?1)sql"))),
      delete_message(connection.prepare(
          for_queue(queue, "DELETE FROM oncebox_{queue}_message WHERE id = ?1"))),
      delete_state(
          connection.prepare(for_queue(queue, "DELETE FROM oncebox_{queue}_state WHERE id = ?1"))),
      load_counters(connection.prepare(R"sql(
SELECT last_id, last_delivery, segment, segment_keys FROM oncebox_counter WHERE queue = ?1)sql")),
      save_counters(connection.prepare(R"sql(
UPDATE oncebox_counter SET last_id = ?2, last_delivery = ?3, segment = ?4, segment_keys = ?5
 WHERE queue = ?1)sql")),
      add_done(connection.prepare(R"sql(
INSERT INTO oncebox_done_count (queue, topic, count) VALUES (?1, ?2, ?3)
ON CONFLICT (queue, topic) DO UPDATE SET count = count + ?3)sql")),
      lane_rows(connection.prepare(for_queue(queue, R"sql(
SELECT eligible_at, enqueue_order, id FROM oncebox_{queue}_state
 WHERE stage = 1 AND topic = ?1 AND rank = ?2 AND eligible_at <= ?3
   AND (eligible_at, enqueue_order) > (?4, ?5)
 ORDER BY eligible_at, enqueue_order LIMIT ?6)sql"))),
      listed_rows(connection.prepare(select_listed_rows(queue))),
      lease(connection.prepare(for_queue(queue, R"sql(
UPDATE oncebox_{queue}_state
   SET stage = 3, owner = ?2, delivery = ?3 + listed.key, locked_until = ?4, leased_at = ?5,
       worker = ?6, deliveries = deliveries + 1, claimed_version = content_version
  FROM json_each(?1) listed
 WHERE oncebox_{queue}_state.id = listed.value)sql"))),
      leased_topics(connection.prepare(for_queue(
          queue, "SELECT topic, count(*) FROM oncebox_{queue}_state WHERE stage = 3 GROUP BY 1"))),
      // Looking for attempts of the others would cost these, too.
      acknowledge_untried(connection.prepare(
          acknowledge_sql(queue, "AND attempt + lapses + revivals = 0 AND content_version = 1"))),
      acknowledge_tried(connection.prepare(acknowledge_sql(queue, ""))),
      // A success is added only to other attempts.
      add_successes(connection.prepare(for_queue(queue, R"sql(
INSERT INTO oncebox_{queue}_attempt (
  id, number, worker, begun_at, ended_at, outcome, error_kind, error)
SELECT s.id, (SELECT max(number) FROM oncebox_{queue}_attempt WHERE id = s.id) + 1,
       (SELECT name FROM oncebox_{queue}_worker WHERE id = s.worker),
       s.leased_at, s.finished_at, ?2, '', ''
  FROM json_each(?1) listed CROSS JOIN oncebox_{queue}_state s ON s.id = listed.value
 WHERE EXISTS (SELECT 1 FROM oncebox_{queue}_attempt WHERE id = s.id)
RETURNING id, number)sql"))),
      lapsed(connection.prepare(for_queue(queue, R"sql(
SELECT id FROM oncebox_{queue}_state
 WHERE stage = 3 AND locked_until <= ?1
 ORDER BY locked_until LIMIT ?2)sql"))),
      expired(connection.prepare(for_queue(queue, R"sql(
SELECT id FROM oncebox_{queue}_state
 WHERE stage IN (1, 2) AND expires_at IS NOT NULL AND expires_at <= ?1
 ORDER BY expires_at LIMIT ?2)sql"))),
      done_until(connection.prepare(for_queue(queue, R"sql(
SELECT id FROM oncebox_{queue}_state
 WHERE stage = 4 AND stage IN (4, 5) AND finished_at <= ?1 ORDER BY finished_at LIMIT ?2)sql"))),
      dead_until(connection.prepare(for_queue(queue, R"sql(
SELECT id FROM oncebox_{queue}_state
 WHERE stage = 5 AND stage IN (4, 5) AND finished_at <= ?1 ORDER BY finished_at LIMIT ?2)sql"))),
      partition_first(connection.prepare(for_queue(queue, R"sql(
SELECT id, enqueue_order FROM oncebox_{queue}_state
 WHERE partition_key = ?1 AND stage = ?2 AND partition_key IS NOT NULL AND stage BETWEEN 1 AND 3
 ORDER BY enqueue_order LIMIT 1)sql"))),
      partition_exposed(connection.prepare(for_queue(queue, R"sql(
UPDATE oncebox_{queue}_state SET stage = 2
 WHERE partition_key = ?1 AND stage = 1
   AND partition_key IS NOT NULL AND stage BETWEEN 1 AND 3)sql"))),
      set_stage(connection.prepare(
          for_queue(queue, "UPDATE oncebox_{queue}_state SET stage = ?2 WHERE id = ?1"))),
      past_totals(connection.prepare(for_queue(queue, R"sql(
SELECT count(*), coalesce(sum(length(payload)), 0) FROM oncebox_{queue}_past_content
 WHERE id = ?1)sql"))),
      insert_past(connection.prepare(for_queue(queue, R"sql(
INSERT INTO oncebox_{queue}_past_content (
  id, content_version, replaced_at, replaced_by, reason, hash_algorithm, hash, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8))sql"))),
      delete_past(connection.prepare(
          for_queue(queue, "DELETE FROM oncebox_{queue}_past_content WHERE id = ?1"))),
      see_worker(connection.prepare(for_queue(queue, R"sql(
UPDATE oncebox_{queue}_worker SET last_seen_at = ?2 WHERE name = ?1 RETURNING id)sql"))),
      add_worker(connection.prepare(for_queue(queue, R"sql(
INSERT INTO oncebox_{queue}_worker (name, since, last_seen_at) VALUES (?1, ?2, ?2)
RETURNING id)sql"))),
      forget_workers(connection.prepare(for_queue(queue, R"sql(
DELETE FROM oncebox_{queue}_worker
 WHERE last_seen_at <= ?1
   AND id NOT IN (SELECT worker FROM oncebox_{queue}_state
                   WHERE stage = 3 AND worker IS NOT NULL))sql"))),
      last_attempt(connection.prepare(for_queue(
          queue, "SELECT coalesce(max(number), 0) FROM oncebox_{queue}_attempt WHERE id = ?1"))),
      insert_attempt(connection.prepare(for_queue(queue, R"sql(
INSERT INTO oncebox_{queue}_attempt (
  id, number, worker, begun_at, ended_at, outcome, error_kind, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8))sql"))),
      delete_attempts(connection.prepare(for_queue(
          queue, "DELETE FROM oncebox_{queue}_attempt WHERE id = ?1 AND number <= ?2"))) {}

QueueTable::QueueTable(Connection& connection, std::string_view queue, TopicNumbers& topics,
                       const Settings& settings)
    : connection_(connection),
      queue_(queue),
      kept_attempts_(settings.kept_attempts),
      topics_(topics),
      lanes_(connection, queue),
      keys_(connection, queue, settings.keys_per_segment, settings.filter),
      sql_(connection, queue) {}

void QueueTable::load_keys() {
  connection_.execute("BEGIN");
  try {
    begin_call();
    keys_.load(counters().segment);
    connection_.execute("COMMIT");
    keys_.committed();
  } catch (...) {
    if (connection_.in_transaction()) connection_.execute("ROLLBACK");
    throw;
  }
}

void QueueTable::begin_call() {
  counters_.reset();
  done_added_.clear();
  partitions_touched_.clear();
}

void QueueTable::end_call() {
  settle_partitions();
  for (const auto& [topic, added] : done_added_) {
    sql_.add_done.bind(1, std::string_view(queue_)).bind(2, topic).bind(3, added).run();
  }
  if (counters_ && counters_->changed) {
    sql_.save_counters.bind(1, std::string_view(queue_))
        .bind(2, counters_->last_id)
        .bind(3, counters_->last_delivery)
        .bind(4, counters_->segment)
        .bind(5, counters_->segment_keys)
        .run();
  }
}

void QueueTable::settle_partitions() {
  for (const std::string& key : partitions_touched_) settle_partition(key);
  partitions_touched_.clear();
}

QueueTable::Counters& QueueTable::counters() {
  if (!counters_) {
    Statement& load = sql_.load_counters;
    const ResetLater reset(load);
    if (!load.bind(1, std::string_view(queue_)).step()) {
      throw Error(ErrorCode::corrupt, "the counters of a queue are missing");
    }
    counters_ = Counters{.last_id = load.int64(0),
                         .last_delivery = load.int64(1),
                         .segment = load.int64(2),
                         .segment_keys = load.int64(3)};
  }
  return *counters_;
}

std::optional<QueueRow> QueueTable::find(const MessageKey& key) {
  const std::optional<std::int64_t> id = keys_.find(sql::storage_key(key), counters().segment);
  if (!id) return std::nullopt;
  QueueRow row = get(*id);
  if (row.key != key) {
    throw Error(ErrorCode::corrupt, "two message keys share a storage key; the message is refused");
  }
  return row;
}

QueueRow QueueTable::get(std::int64_t id) {
  Statement& find = sql_.find_id;
  const ResetLater reset(find);
  if (!find.bind(1, id).step()) {
    throw Error(ErrorCode::corrupt, "a message has a state but no content");
  }
  return read_row(find, topics_.names());
}

std::optional<std::int64_t> QueueTable::insert_message(const MessageKey& key,
                                                       const sql::StorageKey& storage_key,
                                                       const Message* message,
                                                       const std::optional<ContentHash>& hash,
                                                       TimePoint now) {
  Counters& numbers = counters();
  const std::int64_t id = numbers.last_id + 1;
  const std::optional<std::string> headers =
      message != nullptr ? sql::to_json(message->headers) : std::nullopt;
  Statement& insert = sql_.insert_message;
  const ResetLater reset(insert);
  insert.bind(1, id)
      .bind_blob(2, storage_key)
      .bind(3, std::string_view(key.source.str()))
      .bind(4, std::string_view(key.message_id.str()))
      .bind(5, now)
      .bind(7, headers)
      .bind(10, numbers.segment);
  if (message != nullptr) {
    insert.bind_blob(6, message->payload.bytes());
  } else {
    insert.bind_null(6);
  }
  if (hash) {
    insert.bind(8, std::string_view(hash->algorithm())).bind_blob(9, hash->digest());
  } else {
    insert.bind_null(8).bind_null(9);
  }
  insert.run();
  if (connection_.changes() == 0) return std::nullopt;
  numbers.changed = true;
  numbers.last_id = id;
  if (++numbers.segment_keys >= static_cast<std::int64_t>(keys_.keys_per_segment())) {
    ++numbers.segment;
    numbers.segment_keys = 0;
  }
  return id;
}

bool QueueTable::insert(const Message& message, TimePoint now) {
  const sql::StorageKey storage_key = sql::storage_key(message.key);
  if (keys_.find_in_full(storage_key, counters().segment)) return false;
  const std::optional<std::int64_t> id =
      insert_message(message.key, storage_key, &message, message.hash, now);
  if (!id) return false;
  sql_.insert_accepted.bind(1, *id)
      .bind(2, static_cast<int>(message.partition_key ? Stage::blocked : Stage::exposed))
      .bind(3, topics_.number_of(message.topic))
      .bind(4, -message.priority.value())
      .bind(5, std::max(now, message.due_at.value_or(now)))
      .bind(6, now)
      .bind(7, message.due_at)
      .bind(8, message.expires_at);
  if (message.partition_key) {
    sql_.insert_accepted.bind(9, std::string_view(message.partition_key->str()));
    partitions_touched_.insert(message.partition_key->str());
  } else {
    sql_.insert_accepted.bind_null(9);
  }
  sql_.insert_accepted.run();
  return true;
}

std::optional<QueueRow> QueueTable::add_seen(const MessageKey& key,
                                             const std::optional<ContentHash>& hash,
                                             TimePoint now) {
  const std::optional<std::int64_t> id =
      insert_message(key, sql::storage_key(key), nullptr, hash, now);
  if (!id) throw Error(ErrorCode::internal, "a key that was not found cannot be inserted");
  QueueRow row{{.id = *id, .key = key, .state = {}}, Stage::seen};
  row.state.hash = hash;
  row.state.history.first_seen_at = now;
  row.state.history.last_seen_at = now;
  bind_state(sql_.insert_state, row.id, row.stage, 0, row.state);
  sql_.insert_state.run();
  return row;
}

std::int64_t QueueTable::topic_number(const QueueRow& row) {
  return row.content ? topics_.number_of(row.content->topic) : 0;
}

void QueueTable::save(QueueRow& row) {
  const Stage stage = stage_of(row.state);
  const std::int64_t topic = topic_number(row);
  if (row.stage != Stage::done && stage == Stage::done) ++done_added_[topic];
  row.stage = stage;
  bind_state(sql_.update_state, row.id, stage, topic, row.state);
  sql_.update_state.run();
  if (row.state.partition_key) partitions_touched_.insert(row.state.partition_key->str());
}

void QueueTable::save_content(const QueueRow& row) {
  const std::optional<std::string> headers =
      row.content ? sql::to_json(row.content->headers) : std::nullopt;
  Statement& update = sql_.update_content;
  const ResetLater reset(update);
  update.bind(1, row.id).bind(3, headers);
  if (row.content) {
    update.bind_blob(2, row.content->payload.bytes());
  } else {
    update.bind_null(2);
  }
  if (row.state.hash) {
    update.bind(4, std::string_view(row.state.hash->algorithm()))
        .bind_blob(5, row.state.hash->digest());
  } else {
    update.bind_null(4).bind_null(5);
  }
  update.run();
}

void QueueTable::touch(const QueueRow& row, TimePoint now, int duplicates) {
  sql_.touch.bind(1, row.id)
      .bind(2, now)
      .bind(3, duplicates)
      .bind(4, std::numeric_limits<int>::max())
      .run();
}

void QueueTable::remove(const QueueRow& row) {
  sql_.delete_message.bind(1, row.id).run();
  sql_.delete_state.bind(1, row.id).run();
  // An edit is a revival.
  if (row.state.revivals.count > 0) sql_.delete_past.bind(1, row.id).run();
  if (may_have_attempts(row.state)) {
    sql_.delete_attempts.bind(1, row.id).bind(2, std::numeric_limits<int>::max()).run();
  }
  if (row.stage == Stage::done) --done_added_[topic_number(row)];
  if (row.state.partition_key) partitions_touched_.insert(row.state.partition_key->str());
}

PastContentTotals QueueTable::past_content_totals(const QueueRow& row) {
  Statement& totals = sql_.past_totals;
  const ResetLater reset(totals);
  if (!totals.bind(1, row.id).step()) return {};
  return {.contents = static_cast<std::size_t>(totals.int64(0)),
          .bytes = static_cast<std::size_t>(totals.int64(1))};
}

void QueueTable::keep(const QueueRow& row, const PastContent& past) {
  Statement& insert = sql_.insert_past;
  const ResetLater reset(insert);
  insert.bind(1, row.id)
      .bind(2, past.content_version)
      .bind(3, past.replaced_at)
      .bind(4, std::string_view(past.replaced_by))
      .bind(5, std::string_view(past.reason))
      .bind_blob(8, past.payload.bytes());
  if (past.hash) {
    insert.bind(6, std::string_view(past.hash->algorithm())).bind_blob(7, past.hash->digest());
  } else {
    insert.bind_null(6).bind_null(7);
  }
  insert.run();
}

void QueueTable::keep(const QueueRow& row, const Attempt& attempt) {
  Statement& last = sql_.last_attempt;
  const ResetLater reset_last(last);
  const std::int64_t before = last.bind(1, row.id).step() ? last.int64(0) : 0;
  if (attempt.outcome == AttemptOutcome::succeeded && before == 0) return;
  const std::int64_t number = before + 1;
  Statement& insert = sql_.insert_attempt;
  const ResetLater reset_insert(insert);
  insert.bind(1, row.id)
      .bind(2, number)
      .bind(4, attempt.begun_at)
      .bind(5, attempt.ended_at)
      .bind(6, sql::attempt_code(attempt.outcome))
      .bind(7, std::string_view(attempt.error_kind))
      .bind(8, std::string_view(attempt.error));
  if (attempt.worker) {
    insert.bind(3, std::string_view(attempt.worker->str()));
  } else {
    insert.bind_null(3);
  }
  insert.run();
  drop_old_attempts(row.id, number);
}

void QueueTable::drop_old_attempts(std::int64_t id, std::int64_t last_number) {
  const std::int64_t last_dropped = last_number - static_cast<std::int64_t>(kept_attempts_);
  if (last_dropped > 0) sql_.delete_attempts.bind(1, id).bind(2, last_dropped).run();
}

std::uint64_t QueueTable::next_enqueue_order() {
  Counters& numbers = counters();
  numbers.changed = true;
  return static_cast<std::uint64_t>(++numbers.last_id);
}

std::vector<std::int64_t> QueueTable::ids(Statement& statement) {
  std::vector<std::int64_t> found;
  const ResetLater reset(statement);
  while (statement.step()) found.push_back(statement.int64(0));
  return found;
}

std::vector<std::int64_t> QueueTable::lapsed(TimePoint now, std::size_t limit) {
  return ids(sql_.lapsed.bind(1, now).bind(2, limit));
}

std::vector<std::int64_t> QueueTable::expired(TimePoint now, std::size_t limit) {
  return ids(sql_.expired.bind(1, now).bind(2, limit));
}

std::vector<std::int64_t> QueueTable::finished(Stage stage, TimePoint until, std::size_t limit) {
  Statement& statement = stage == Stage::done ? sql_.done_until : sql_.dead_until;
  return ids(statement.bind(1, until).bind(2, limit));
}

// Of the messages of a partition only the oldest may be claimed, and none while one is held.
void QueueTable::settle_partition(const std::string& key) {
  sql_.partition_exposed.bind(1, std::string_view(key)).run();
  if (first_in_partition(key, Stage::leased)) return;
  const std::optional<std::int64_t> first = first_in_partition(key, Stage::blocked);
  if (first) sql_.set_stage.bind(1, *first).bind(2, static_cast<int>(Stage::exposed)).run();
}

std::optional<std::int64_t> QueueTable::first_in_partition(const std::string& key, Stage stage) {
  Statement& first = sql_.partition_first;
  const ResetLater reset(first);
  first.bind(1, std::string_view(key)).bind(2, static_cast<int>(stage));
  if (!first.step()) return std::nullopt;
  return first.int64(0);
}

}  // namespace oncebox::sqlite
