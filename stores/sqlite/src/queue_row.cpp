#include "queue_row.hpp"

#include <fmt/format.h>

#include <utility>

#include "oncebox/sql/read_rows.hpp"

namespace oncebox::sqlite {

namespace {

// In the order in which `select_rows` names them.
namespace column {
enum Column : int {
  id,
  source,
  message_id,
  first_seen_at,
  headers,
  hash_algorithm,
  hash,
  topic,
  stage,
  rank,
  eligible_at,
  enqueue_order,
  attempt,
  deliveries,
  lapses,
  content_version,
  claimed_version,
  duplicates,
  last_seen_at,
  owner,
  delivery,
  locked_until,
  finished_at,
  due_at,
  expires_at,
  backoff_until,
  partition_key,
  revivals,
  revived_at,
  revival_reason,
  last_error,
  leased_at,
  worker,
  payload,
};
}  // namespace column

constexpr std::string_view kSelect = R"sql(
SELECT m.id, m.source, m.message_id, m.first_seen_at, m.headers, m.hash_algorithm, m.hash,
       s.topic, s.stage, s.rank, s.eligible_at, s.enqueue_order, s.attempt, s.deliveries, s.lapses,
       s.content_version, s.claimed_version, s.duplicates, s.last_seen_at, s.owner, s.delivery,
       s.locked_until, s.finished_at, s.due_at, s.expires_at, s.backoff_until, s.partition_key,
       s.revivals, s.revived_at, s.revival_reason, s.last_error, s.leased_at, {worker}, {payload}
  FROM {from}
 {conditions})sql";

constexpr std::string_view kEveryRow =
    "oncebox_{queue}_message m JOIN oncebox_{queue}_state s ON s.id = m.id";

// CROSS JOIN keeps the order in which the tables are visited.
constexpr std::string_view kListedRows = R"sql(json_each(?1) listed
  CROSS JOIN oncebox_{queue}_message m ON m.id = listed.value
  CROSS JOIN oncebox_{queue}_state s ON s.id = m.id)sql";

// Only of one that is leased: elsewhere the number is of an earlier lease.
constexpr std::string_view kWorkerName =
    "CASE s.stage WHEN 3 THEN (SELECT name FROM oncebox_{queue}_worker WHERE id = s.worker) END";

constexpr std::string_view kInsertState = R"sql(
INSERT INTO oncebox_{queue}_state (
  id, stage, topic, rank, eligible_at, enqueue_order, attempt, deliveries, lapses,
  content_version, claimed_version, duplicates, last_seen_at, owner, delivery, locked_until,
  finished_at, due_at, expires_at, backoff_until, partition_key, revivals, revived_at,
  revival_reason, last_error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
        ?21, ?22, ?23, ?24, ?25))sql";

constexpr std::string_view kUpdateState = R"sql(
UPDATE oncebox_{queue}_state SET
  stage = ?2, topic = ?3, rank = ?4, eligible_at = ?5, enqueue_order = ?6, attempt = ?7,
  deliveries = ?8, lapses = ?9, content_version = ?10, claimed_version = ?11, duplicates = ?12,
  last_seen_at = ?13, owner = ?14, delivery = ?15, locked_until = ?16, finished_at = ?17,
  due_at = ?18, expires_at = ?19, backoff_until = ?20, partition_key = ?21, revivals = ?22,
  revived_at = ?23, revival_reason = ?24, last_error = ?25
WHERE id = ?1)sql";

}  // namespace

std::string select_rows(std::string_view queue, ListPayloads payloads,
                        std::string_view conditions) {
  return fmt::format(
      fmt::runtime(kSelect),
      fmt::arg("from", fmt::format(fmt::runtime(kEveryRow), fmt::arg("queue", queue))),
      fmt::arg("conditions", conditions),
      fmt::arg("worker", fmt::format(fmt::runtime(kWorkerName), fmt::arg("queue", queue))),
      fmt::arg("payload", payloads == ListPayloads::include ? "m.payload" : "NULL"));
}

std::string select_listed_rows(std::string_view queue) {
  return fmt::format(
      fmt::runtime(kSelect),
      fmt::arg("from", fmt::format(fmt::runtime(kListedRows), fmt::arg("queue", queue))),
      fmt::arg("conditions", ""), fmt::arg("worker", "NULL"), fmt::arg("payload", "m.payload"));
}

QueueRow read_row(const Statement& row, TopicNames& topics) {
  std::optional<Topic> topic;
  if (!row.is_null(column::topic)) topic = topics.name_of(row.int64(column::topic));
  const auto stage = static_cast<Stage>(row.int32(column::stage));
  const Priority priority(-row.int32(column::rank));
  return {sql::read_message<column::Column>(row, stage, priority, std::move(topic)), stage};
}

std::string select_attempts(std::string_view queue) {
  return fmt::format(R"sql(
SELECT number, worker, begun_at, ended_at, outcome, error_kind, error
  FROM oncebox_{}_attempt WHERE id = ?1 ORDER BY number)sql",
                     queue);
}

std::vector<Attempt> read_attempts(Statement& attempts, std::int64_t id) {
  const ResetLater reset(attempts);
  attempts.bind(1, id);
  std::vector<Attempt> read;
  while (attempts.step()) read.push_back(sql::read_attempt(attempts));
  return read;
}

std::string insert_state(std::string_view queue) {
  return fmt::format(fmt::runtime(kInsertState), fmt::arg("queue", queue));
}

std::string update_state(std::string_view queue) {
  return fmt::format(fmt::runtime(kUpdateState), fmt::arg("queue", queue));
}

void bind_state(Statement& statement, std::int64_t id, Stage stage, std::int64_t topic,
                const MessageState& state) {
  const MessageHistory& history = state.history;
  statement.bind(1, id)
      .bind(2, static_cast<int>(stage))
      .bind(4, -state.priority.value())
      .bind(5, state.eligible_at)
      .bind(6, static_cast<std::int64_t>(state.enqueue_order))
      .bind(7, history.attempt)
      .bind(8, history.deliveries)
      .bind(9, history.lapses)
      .bind(10, history.content_version)
      .bind(11, state.claimed_version)
      .bind(12, history.duplicates)
      .bind(13, history.last_seen_at)
      .bind(17, state.finished_at)
      .bind(18, state.due_at)
      .bind(19, state.expires_at)
      .bind(20, state.backoff_until)
      .bind(22, state.revivals.count)
      .bind(23, state.revivals.last_at)
      .bind(24, state.revivals.last_reason)
      .bind(25, history.last_error);
  if (topic > 0) {
    statement.bind(3, topic);
  } else {
    statement.bind_null(3);
  }
  if (state.lease) {
    statement.bind_blob(14, bytes_of(state.lease->owner.uuid()))
        .bind(15, static_cast<std::int64_t>(state.lease->delivery))
        .bind(16, state.lease->locked_until);
  } else {
    statement.bind_null(14).bind_null(15).bind_null(16);
  }
  if (state.partition_key) {
    statement.bind(21, std::string_view(state.partition_key->str()));
  } else {
    statement.bind_null(21);
  }
}

std::string_view bytes_of(const Uuid& uuid) noexcept {
  return {reinterpret_cast<const char*>(uuid.bytes().data()), uuid.bytes().size()};
}

}  // namespace oncebox::sqlite
