#include "queue_sql.hpp"

#include <fmt/format.h>

#include <string>

#include "oncebox/sql/attempt_code.hpp"
#include "queue_row.hpp"

namespace oncebox::postgresql {

std::string now_sql(std::string_view parameter) {
  return fmt::format("coalesce({}::timestamptz, date_trunc('milliseconds', statement_timestamp()))",
                     parameter);
}

namespace {

std::string read_sql(std::string_view rows) {
  return fmt::format(
      "SELECT octet_length(m.payload), {}, s.in_run, {} FROM {} CROSS JOIN LATERAL ({}) s",
      claim_bytes(), state_columns(), rows, state_of_message());
}

// The windows are over the messages that are there, in the order of the keys. The first of them
// comes whatever its size.
std::string find_sql(ListPayloads payloads) {
  return fmt::format(R"sql(
SELECT {now}, m.place, m.found, {columns}
  FROM (SELECT m.*, u.place, {bytes} AS bytes,
               sum({bytes}) OVER (ORDER BY u.place) AS total, count(*) OVER () AS found
          FROM unnest($1::uuid[]) WITH ORDINALITY u(key, place)
          JOIN {{message}} m ON m.key = u.key) m
 CROSS JOIN LATERAL ({state}) s
 WHERE m.total <= $3::bigint OR m.total = m.bytes
 ORDER BY m.place)sql",
                     fmt::arg("now", now_sql("$2")), fmt::arg("columns", row_columns(payloads)),
                     fmt::arg("bytes", row_bytes(payloads)), fmt::arg("state", state_of_message()));
}

constexpr std::string_view kRowsByKey =
    "unnest($1::uuid[]) u(key) JOIN {message} m ON m.key = u.key";
constexpr std::string_view kRowsById = "unnest($1::bigint[]) u(id) JOIN {message} m ON m.id = u.id";

constexpr std::string_view kReadDigests = R"sql(
SELECT m.id, sha256(m.payload)
  FROM unnest($1::bigint[]) u(id) JOIN {message} m ON m.id = u.id)sql";

// New ones have stage 1, and those that may stand behind the place from which claims look on 7.
std::string enqueue_sql(int stage) {
  return fmt::format(R"sql(
WITH fresh AS (
  INSERT INTO {{message}} (id, key, source, message_id, first_seen_at, topic, payload, headers,
                         hash_algorithm, hash, priority, partition_key, due_at, expires_at)
  SELECT (SELECT nextval('{{numbers}}')) * {ids} + u.place, u.key, u.source, u.message_id, {now},
         u.topic, u.payload, u.headers, u.hash_algorithm, u.hash,
         coalesce(u.priority, 0::smallint), u.partition_key, u.due_at, u.expires_at
    FROM {source}
  ON CONFLICT (key) DO NOTHING
  RETURNING id, first_seen_at, topic, priority, partition_key, due_at, expires_at,
            {bytes} AS payload_bytes)
INSERT INTO {{work}} (id, enqueue_order, eligible_at, last_seen_at, due_at, expires_at,
                    payload_bytes, attempt, deliveries, lapses, content_version, claimed_version,
                    duplicates, revivals, stage, priority, topic, partition_key)
SELECT id, id, greatest(first_seen_at, due_at), first_seen_at, due_at, expires_at,
       payload_bytes, 0, 0, 0, 1, 0,
       0, 0, CASE WHEN partition_key IS NULL THEN {stage} ELSE 2 END, priority, topic, partition_key
  FROM fresh
RETURNING id)sql",
                     fmt::arg("ids", kIdsPerNumber), fmt::arg("stage", stage),
                     fmt::arg("bytes", claim_bytes()),
                     fmt::arg("now", now_sql(fmt::format("${}", kEnqueueColumns.size() + 1))),
                     fmt::arg("source", RowArrays::source(kEnqueueColumns)));
}

// The rows are found by their ids alone, not by a join with what the caller says of each: the table
// is empty at one moment and full at the next, and when the planner believes it to be empty, it
// goes through all of it for each of the caller's rows. So the caller compares the deliveries
// before it commits. Only who is leased has an owner.
std::string acknowledge_sql(std::string_view condition, std::string_view attempts) {
  return fmt::format(R"sql(
WITH acknowledged AS (
  DELETE FROM {{work}}
   WHERE id = ANY($1::bigint[]) AND owner = $2::uuid
     AND delivery BETWEEN $3::bigint AND $4::bigint
     AND claimed_version = content_version AND partition_key IS NULL{condition}
  RETURNING id, delivery, topic, last_seen_at, enqueue_order, attempt, deliveries, lapses,
            content_version, duplicates, revivals, revived_at, revival_reason, last_error,
            leased_at, worker),
counted AS (
  INSERT INTO {{done_count}} (topic, count)
  SELECT topic, count(*) FROM acknowledged GROUP BY topic),
finished AS (
  INSERT INTO {{done}} (id, finished_at, last_seen_at, enqueue_order, attempt, deliveries, lapses,
                      content_version, duplicates, revivals, revived_at, revival_reason, last_error)
  SELECT id, {now}, last_seen_at, enqueue_order, attempt, deliveries, lapses,
         content_version, duplicates, revivals, revived_at, revival_reason, last_error
    FROM acknowledged){attempts}
SELECT id, delivery FROM acknowledged)sql",
                     fmt::arg("condition", condition), fmt::arg("attempts", attempts),
                     fmt::arg("now", now_sql("$5")));
}

// Those that have none, see `may_have_attempts`. Looking for attempts of the others would cost
// these, too.
std::string acknowledge_untried_sql() {
  return acknowledge_sql("\n     AND attempt + lapses + revivals = 0 AND content_version = 1", "");
}

// `added` is a part of the statement that tells the id and number of attempts.
std::string drop_old_attempts_sql(std::size_t kept_attempts) {
  return fmt::format(R"sql(
DELETE FROM {{attempt}} a
 WHERE a.id = ANY(ARRAY(SELECT id FROM added WHERE number > {kept}))
   AND a.number <= (SELECT n.number - {kept} FROM added n WHERE n.id = a.id))sql",
                     fmt::arg("kept", kept_attempts));
}

// A success is added only to other attempts. Whoever else adds one ends the delivery, and then
// nothing is acknowledged here: so the numbers are those of this moment.
std::string acknowledge_tried_sql(std::size_t kept_attempts) {
  return acknowledge_sql(
      "", fmt::format(R"sql(,
tried AS MATERIALIZED (
  SELECT d.id, d.leased_at, (SELECT name FROM {{worker}} w WHERE w.id = d.worker) AS worker,
         (SELECT max(number) FROM {{attempt}} a WHERE a.id = d.id) AS before
    FROM acknowledged d
   WHERE d.attempt + d.lapses + d.revivals > 0 OR d.content_version > 1),
added AS (
  INSERT INTO {{attempt}} (id, number, worker, begun_at, ended_at, outcome, error_kind, error)
  SELECT id, before + 1, worker, leased_at, {now}, {succeeded}, '', ''
    FROM tried WHERE before IS NOT NULL
  RETURNING id, number),
dropped AS ({drop}))sql",
                      fmt::arg("now", now_sql("$5")),
                      fmt::arg("succeeded", sql::attempt_code(AttemptOutcome::succeeded)),
                      fmt::arg("drop", drop_old_attempts_sql(kept_attempts))));
}

const std::string kExtend = fmt::format(R"sql(
UPDATE {{work}} w
   SET locked_until = greatest(w.locked_until, {now} + u.lease_ms * interval '1 millisecond')
  FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bigint[]) u(key, delivery, owner, lease_ms)
  JOIN {{message}} m ON m.key = u.key
 CROSS JOIN LATERAL (SELECT ctid AS place FROM {{work}} WHERE id = m.id OFFSET 0) p
 WHERE w.ctid = p.place AND w.owner = u.owner AND w.delivery = coalesce(u.delivery, w.delivery)
RETURNING m.key, w.locked_until)sql",
                                        fmt::arg("now", now_sql("$5")));

// In this file rows of the work table are found by conditions that leave the planner no choice:
// `id = ANY(…)`, or a lookup of its own (OFFSET 0) for each given row. Joined with it, a table that
// was empty when vacuum last looked is taken for one row, and read as a whole for every given one.

// An index is read in its order, so all callers lock in the same one.
constexpr std::string_view kLockKeys = R"sql(
SELECT w.id
  FROM {work} w
 WHERE w.id = ANY(ARRAY(SELECT m.id FROM {message} m WHERE m.key = ANY($1::uuid[])))
   FOR UPDATE)sql";

constexpr std::string_view kLockIds = R"sql(
SELECT id FROM {work} WHERE id = ANY($1::bigint[]) FOR UPDATE SKIP LOCKED)sql";

// Read after the locks were taken, which may have taken a while.
constexpr std::string_view kReadTime = R"sql(
SELECT coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())))sql";
constexpr std::string_view kReadTimeAndNumber = R"sql(
SELECT coalesce($1::timestamptz, date_trunc('milliseconds', clock_timestamp())),
       nextval('{numbers}'))sql";

std::string insert_sql(std::string_view table, std::span<const Column> columns) {
  return fmt::format("INSERT INTO {{{}}} ({}) SELECT {} FROM {}", table, RowArrays::names(columns),
                     RowArrays::values(columns), RowArrays::source(columns));
}

std::string update_work_sql() {
  return fmt::format(R"sql(
UPDATE {{work}} w SET {}
  FROM {}
 CROSS JOIN LATERAL (SELECT ctid AS place FROM {{work}} WHERE id = u.id OFFSET 0) p
 WHERE w.ctid = p.place)sql",
                     RowArrays::assignments(kWorkColumns), RowArrays::source(kWorkColumns));
}

std::string update_messages_sql() {
  return fmt::format(R"sql(
UPDATE {{message}} m
   SET topic = u.topic,
       payload = CASE WHEN u.keeps_payload THEN m.payload ELSE u.payload END,
       headers = CASE WHEN u.keeps_headers THEN m.headers ELSE u.headers END,
       hash_algorithm = u.hash_algorithm, hash = u.hash, priority = u.priority,
       partition_key = u.partition_key, due_at = u.due_at, expires_at = u.expires_at
  FROM {}
 WHERE m.id = u.id)sql",
                     RowArrays::source(kContentColumns));
}

std::string finish_work_sql() {
  return fmt::format(R"sql(
WITH finished AS (
  INSERT INTO {{done}} ({}) SELECT {} FROM {} RETURNING id),
gone AS (
  DELETE FROM {{work}} WHERE id = ANY($1::bigint[]) RETURNING topic)
INSERT INTO {{done_count}} (topic, count) SELECT topic, count(*) FROM gone GROUP BY topic)sql",
                     RowArrays::names(kDoneColumns), RowArrays::values(kDoneColumns),
                     RowArrays::source(kDoneColumns));
}

constexpr std::string_view kTouchDone = R"sql(
UPDATE {done} d
   SET last_seen_at = u.last_seen_at,
       duplicates = least(d.duplicates::bigint + u.duplicates, 2147483647)::integer
  FROM unnest($1::bigint[], $2::timestamptz[], $3::integer[]) u(id, last_seen_at, duplicates)
 WHERE d.id = u.id)sql";

constexpr std::string_view kRemove = R"sql(
WITH gone_done AS (
  DELETE FROM {done} WHERE id = ANY($1::bigint[])
  RETURNING id, revivals, attempt + lapses + revivals > 0 OR content_version > 1 AS was_tried),
counted AS (
  INSERT INTO {done_count} (topic, count)
  SELECT m.topic, -count(*) FROM gone_done d JOIN {message} m ON m.id = d.id GROUP BY m.topic),
gone_work AS (
  DELETE FROM {work} WHERE id = ANY($1::bigint[])
  RETURNING id, revivals, attempt + lapses + revivals > 0 OR content_version > 1 AS was_tried),
gone AS (SELECT * FROM gone_work UNION ALL SELECT * FROM gone_done),
forgotten AS (
  DELETE FROM {past_content}
   WHERE id = ANY(ARRAY(SELECT id FROM gone WHERE revivals > 0))),
forgotten_attempts AS (
  DELETE FROM {attempt} WHERE id = ANY(ARRAY(SELECT id FROM gone WHERE was_tried)))
DELETE FROM {message} m USING gone WHERE m.id = gone.id)sql";

// The rows of these messages are locked by the caller. A success is added only to other attempts.
std::string keep_attempts_sql(std::size_t kept_attempts) {
  return fmt::format(R"sql(
WITH given AS MATERIALIZED (
  SELECT u.*, (SELECT max(number) FROM {{attempt}} a WHERE a.id = u.id) AS before FROM {source}),
added AS (
  INSERT INTO {{attempt}} ({names}, number)
  SELECT {values}, coalesce(before, 0) + 1 FROM given u
   WHERE outcome <> {succeeded} OR before IS NOT NULL
  RETURNING id, number))sql",
                     fmt::arg("source", RowArrays::source(kAttemptColumns)),
                     fmt::arg("names", RowArrays::names(kAttemptColumns)),
                     fmt::arg("values", RowArrays::values(kAttemptColumns)),
                     fmt::arg("succeeded", sql::attempt_code(AttemptOutcome::succeeded))) +
         drop_old_attempts_sql(kept_attempts);
}

constexpr std::string_view kReadAttempts = R"sql(
SELECT m.key, a.number, a.worker, a.begun_at, a.ended_at, a.outcome, a.error_kind, a.error
  FROM {message} m JOIN {attempt} a ON a.id = m.id
 WHERE m.key = ANY($1::uuid[]) ORDER BY a.id, a.number)sql";

constexpr std::string_view kPastTotals = R"sql(
SELECT id, count(*), sum(octet_length(payload))::bigint
  FROM {past_content} WHERE id = ANY($1::bigint[]) GROUP BY id)sql";

// The rows of these messages are locked by the caller.
constexpr std::string_view kKeepContents = R"sql(
INSERT INTO {past_content} (id, content_version, replaced_at, replaced_by, reason, hash_algorithm,
                            hash, payload)
SELECT m.id, u.content_version, $3::timestamptz, $4::text, $5::text, m.hash_algorithm, m.hash,
       m.payload
  FROM unnest($1::bigint[], $2::integer[]) u(id, content_version)
  JOIN {message} m ON m.id = u.id)sql";

// Of the messages of a partition only the oldest may be claimed, and none while one is held.
// Whoever changes that holds the partition's lock; a claim, which only makes a claimable one held,
// need not.
// OFFSET 0 makes each question a lookup of its own: joined, they would read every such row.
constexpr std::string_view kBlockPartitions = R"sql(
UPDATE {work} w SET stage = 2
 WHERE w.partition_key = ANY($1::text[]) AND w.partition_key IS NOT NULL AND w.stage IN (1, 7)
   AND (EXISTS (SELECT FROM {work} held
                 WHERE held.partition_key = w.partition_key AND held.partition_key IS NOT NULL
                   AND held.stage = 3 OFFSET 0)
     OR EXISTS (SELECT FROM {work} older
                 WHERE older.partition_key = w.partition_key AND older.partition_key IS NOT NULL
                   AND older.stage = 2 AND older.enqueue_order < w.enqueue_order OFFSET 0)))sql";

constexpr std::string_view kUnblockPartitions = R"sql(
UPDATE {work} w SET stage = 7
  FROM unnest($1::text[]) u(partition_key)
 CROSS JOIN LATERAL (
   SELECT id FROM {work} first
    WHERE first.partition_key = u.partition_key AND first.partition_key IS NOT NULL
      AND first.stage = 2
    ORDER BY first.enqueue_order LIMIT 1) first
 WHERE w.id = first.id
   AND NOT EXISTS (SELECT FROM {work} other
                    WHERE other.partition_key = u.partition_key
                      AND other.partition_key IS NOT NULL AND other.stage = 1 OFFSET 0)
   AND NOT EXISTS (SELECT FROM {work} other
                    WHERE other.partition_key = u.partition_key
                      AND other.partition_key IS NOT NULL AND other.stage = 3 OFFSET 0)
   AND NOT EXISTS (SELECT FROM {work} other
                    WHERE other.partition_key = u.partition_key
                      AND other.partition_key IS NOT NULL AND other.stage = 7 OFFSET 0))sql";

const std::string kFindLapsed = fmt::format(R"sql(
SELECT id, partition_key FROM {{work}}
 WHERE stage = 3 AND locked_until <= {now}
   AND locked_until > coalesce($2::timestamptz, '-infinity')
 ORDER BY locked_until LIMIT $3::integer)sql",
                                            fmt::arg("now", now_sql("$1")));

const std::string kFindExpired = fmt::format(R"sql(
SELECT id, partition_key FROM {{work}}
 WHERE stage IN (1, 2, 7) AND expires_at IS NOT NULL AND expires_at <= {now}
 ORDER BY expires_at LIMIT $2::integer)sql",
                                             fmt::arg("now", now_sql("$1")));

const std::string kCleanUpDone = fmt::format(R"sql(
WITH old AS MATERIALIZED (
  SELECT ctid FROM {{done}}
   WHERE finished_at <= {now} - $2::bigint * interval '1 millisecond'
   ORDER BY finished_at LIMIT $3::integer FOR UPDATE SKIP LOCKED),
gone AS (
  DELETE FROM {{done}} WHERE ctid = ANY(ARRAY(SELECT ctid FROM old))
  RETURNING id, revivals, attempt + lapses + revivals > 0 OR content_version > 1 AS was_tried),
forgotten AS (
  DELETE FROM {{past_content}}
   WHERE id = ANY(ARRAY(SELECT id FROM gone WHERE revivals > 0))),
forgotten_attempts AS (
  DELETE FROM {{attempt}} WHERE id = ANY(ARRAY(SELECT id FROM gone WHERE was_tried))),
removed AS (DELETE FROM {{message}} m USING gone WHERE m.id = gone.id RETURNING m.topic),
counted AS (
  INSERT INTO {{done_count}} (topic, count)
  SELECT topic, -count(*) FROM removed GROUP BY topic)
SELECT count(*) FROM removed)sql",
                                             fmt::arg("now", now_sql("$1")));

const std::string kCleanUpDead = fmt::format(R"sql(
WITH old AS MATERIALIZED (
  SELECT ctid FROM {{work}}
   WHERE stage = 5 AND finished_at <= {now} - $2::bigint * interval '1 millisecond'
   ORDER BY finished_at LIMIT $3::integer FOR UPDATE SKIP LOCKED),
gone AS (
  DELETE FROM {{work}} WHERE ctid = ANY(ARRAY(SELECT ctid FROM old))
  RETURNING id, revivals, attempt + lapses + revivals > 0 OR content_version > 1 AS was_tried),
forgotten AS (
  DELETE FROM {{past_content}}
   WHERE id = ANY(ARRAY(SELECT id FROM gone WHERE revivals > 0))),
forgotten_attempts AS (
  DELETE FROM {{attempt}} WHERE id = ANY(ARRAY(SELECT id FROM gone WHERE was_tried))),
removed AS (DELETE FROM {{message}} m USING gone WHERE m.id = gone.id RETURNING m.id)
SELECT count(*) FROM removed)sql",
                                             fmt::arg("now", now_sql("$1")));

// In one order, so that two claims do not wait for each other.
const std::string kLockLimits = fmt::format(R"sql(
SELECT pattern, is_exact, policy, spent_until, {now}
  FROM {{topic_policy}} WHERE queue = $1::text
 ORDER BY pattern, is_exact FOR UPDATE)sql",
                                            fmt::arg("now", now_sql("$2")));

constexpr std::string_view kLeasedTopics = R"sql(
SELECT topic, sum(messages)::bigint
  FROM (SELECT topic, 1 AS messages FROM {work}
         WHERE stage = 3 AND locked_until IS NOT NULL
        UNION ALL
        SELECT topic, last_id - first_id + 1 FROM {run}
         WHERE stage = 3 AND locked_until IS NOT NULL) leased
 GROUP BY topic)sql";

// Losing it in a crash of the server would do no harm, so nobody waits for the disk. A worker that
// is known takes no number of the sequence.
const std::string kSeeWorker = fmt::format(R"sql(
WITH moment AS MATERIALIZED (
  SELECT {now} AS now, set_config('synchronous_commit', 'off', true)),
known AS (
  UPDATE {{worker}} SET last_seen_at = (SELECT now FROM moment) WHERE name = $1::text
  RETURNING id),
fresh AS (
  INSERT INTO {{worker}} (name, since, last_seen_at)
  SELECT $1, now, now FROM moment WHERE NOT EXISTS (SELECT FROM known)
  ON CONFLICT (name) DO UPDATE SET last_seen_at = excluded.last_seen_at
  RETURNING id)
SELECT id FROM known UNION ALL SELECT id FROM fresh)sql",
                                           fmt::arg("now", now_sql("$2")));

const std::string kForgetWorkers = fmt::format(R"sql(
DELETE FROM {{worker}}
 WHERE last_seen_at <= {now} - $2::bigint * interval '1 millisecond'
   AND NOT EXISTS (SELECT FROM {{work}}
                    WHERE stage = 3 AND locked_until IS NOT NULL AND worker = {{worker}}.id
                   OFFSET 0)
   AND NOT EXISTS (SELECT FROM {{run}}
                    WHERE stage = 3 AND locked_until IS NOT NULL AND worker = {{worker}}.id
                   OFFSET 0))sql",
                                               fmt::arg("now", now_sql("$1")));

// What claims pass because it lies behind their places is told apart by its stage.
const std::string kMendWork = fmt::format(R"sql(
WITH moment AS MATERIALIZED (SELECT {now} AS now),
late AS MATERIALIZED (
  SELECT ctid AS place, greatest(due_at, backoff_until, (SELECT now FROM moment)) AS earliest
    FROM {{work}}
   WHERE (stage IN (1, 2, 3, 7)
      AND eligible_at > greatest(due_at, backoff_until, (SELECT now FROM moment)))
      OR (stage = 3 AND leased_at > (SELECT now FROM moment))
   LIMIT $2::integer FOR UPDATE SKIP LOCKED),
mended AS (
  UPDATE {{work}} w
     SET eligible_at = least(w.eligible_at, l.earliest),
         stage = CASE WHEN w.stage = 1 AND l.earliest <= m.now THEN 7 ELSE w.stage END,
         locked_until = w.locked_until - greatest(w.leased_at - m.now, interval '0'),
         leased_at = least(w.leased_at, m.now)
    FROM late l CROSS JOIN moment m
   WHERE w.ctid = l.place
  RETURNING w.id)
SELECT count(*) FROM mended)sql",
                                          fmt::arg("now", now_sql("$1")));

// The messages of a run became claimable when they were seen.
const std::string kMendRuns = fmt::format(R"sql(
WITH moment AS MATERIALIZED (SELECT {now} AS now),
late AS MATERIALIZED (
  SELECT ctid AS place FROM {{run}}
   WHERE seen_at > (SELECT now FROM moment)
      OR (stage = 3 AND leased_at > (SELECT now FROM moment))
   LIMIT $2::integer FOR UPDATE SKIP LOCKED),
mended AS (
  UPDATE {{run}} r
     SET seen_at = least(r.seen_at, m.now),
         locked_until = r.locked_until - greatest(r.leased_at - m.now, interval '0'),
         leased_at = least(r.leased_at, m.now)
    FROM late l CROSS JOIN moment m
   WHERE r.ctid = l.place
  RETURNING r.first_id)
SELECT count(*) FROM mended)sql",
                                          fmt::arg("now", now_sql("$1")));

constexpr std::string_view kAddUpDone = R"sql(
WITH several AS MATERIALIZED (
  SELECT ctid FROM {done_count} LIMIT 100000 FOR UPDATE SKIP LOCKED),
gone AS (
  DELETE FROM {done_count}
   WHERE ctid = ANY(ARRAY(SELECT ctid FROM several WHERE (SELECT count(*) FROM several) > 100))
  RETURNING topic, count)
INSERT INTO {done_count} (topic, count)
SELECT topic, sum(count) FROM gone GROUP BY topic HAVING sum(count) <> 0)sql";

}  // namespace

QueueSql::QueueSql(const Names& names, std::string_view queue, const Settings& settings)
    : runs(names, queue) {
  const auto prepare = [&](Statement& statement, std::string_view name, std::string_view sql) {
    statement = {fmt::format("{}_{}", queue, name), names.fill(sql, queue)};
  };
  prepare(enqueue, "enqueue", enqueue_sql(1));
  prepare(enqueue_late, "enqueue_late", enqueue_sql(7));
  prepare(know_priorities, "know_priorities",
          "INSERT INTO {priority} (priority) SELECT unnest($1::smallint[]) ON CONFLICT DO NOTHING");
  claim = {fmt::format("{}_claim", queue), claim_sql(names, queue, "", settings.flush_claims)};
  constexpr int kSelection = 14;
  claim_topics = {
      fmt::format("{}_claim_topics", queue),
      claim_sql(names, queue, selection_sql("w.topic", kSelection), settings.flush_claims)};
  prepare(lock_limits, "lock_limits", kLockLimits);
  prepare(leased_topics, "leased_topics", kLeasedTopics);
  prepare(spend_limit, "spend_limit", R"sql(
UPDATE {topic_policy} SET spent_until = $4::bigint
 WHERE queue = $1::text AND pattern = $2::text AND is_exact = $3::integer)sql");
  prepare(savepoint, "savepoint", "SAVEPOINT claim");
  prepare(rollback_to_savepoint, "rollback_to_savepoint", "ROLLBACK TO SAVEPOINT claim");
  prepare(acknowledge, "acknowledge", acknowledge_untried_sql());
  prepare(acknowledge_tried, "acknowledge_tried", acknowledge_tried_sql(settings.kept_attempts));
  prepare(extend, "extend", kExtend);
  prepare(lock_partitions, "lock_partitions",
          "SELECT current_setting('transaction_isolation'), pg_advisory_xact_lock(number)"
          "  FROM unnest($1::bigint[]) number");
  prepare(lock_keys, "lock_keys", kLockKeys);
  prepare(lock_ids, "lock_ids", kLockIds);
  prepare(read_keys, "read_keys", read_sql(kRowsByKey));
  prepare(read_digests, "read_digests", kReadDigests);
  prepare(find, "find", find_sql(ListPayloads::omit));
  prepare(find_whole, "find_whole", find_sql(ListPayloads::include));
  prepare(read_ids, "read_ids", read_sql(kRowsById));
  prepare(read_time, "read_time", kReadTime);
  prepare(read_time_and_number, "read_time_and_number", kReadTimeAndNumber);
  prepare(insert_messages, "insert_messages", insert_sql("message", kMessageColumns));
  prepare(insert_work, "insert_work", insert_sql("work", kWorkColumns));
  prepare(update_work, "update_work", update_work_sql());
  prepare(update_messages, "update_messages", update_messages_sql());
  prepare(finish_work, "finish_work", finish_work_sql());
  prepare(touch_done, "touch_done", kTouchDone);
  prepare(remove, "remove", kRemove);
  prepare(keep_attempts, "keep_attempts", keep_attempts_sql(settings.kept_attempts));
  prepare(read_attempts, "read_attempts", kReadAttempts);
  prepare(past_totals, "past_totals", kPastTotals);
  prepare(keep_contents, "keep_contents", kKeepContents);
  prepare(block_partitions, "block_partitions", kBlockPartitions);
  prepare(unblock_partitions, "unblock_partitions", kUnblockPartitions);
  prepare(announce, "announce", "SELECT pg_notify($1::text, $2::text)");
  prepare(find_lapsed, "find_lapsed", kFindLapsed);
  prepare(find_expired, "find_expired", kFindExpired);
  prepare(clean_up_done, "clean_up_done", kCleanUpDone);
  prepare(clean_up_dead, "clean_up_dead", kCleanUpDead);
  prepare(add_up_done, "add_up_done", kAddUpDone);
  prepare(see_worker, "see_worker", kSeeWorker);
  prepare(newest, "newest", "SELECT first_seen_at FROM {message} ORDER BY id DESC LIMIT 1");
  prepare(mend_work, "mend_work", kMendWork);
  prepare(mend_runs, "mend_runs", kMendRuns);
  prepare(forget_workers, "forget_workers", kForgetWorkers);
}

}  // namespace oncebox::postgresql
