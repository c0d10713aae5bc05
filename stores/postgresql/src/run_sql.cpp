#include "run_sql.hpp"

#include <fmt/format.h>

#include "queue_row.hpp"
#include "queue_sql.hpp"

namespace oncebox::postgresql {

namespace {

// All messages or none: what is known is looked at in another way, and then all at once. Whoever
// stores one of the keys at the same moment makes this fail as a whole.
std::string arrived_sql(std::string_view now, std::string_view condition = "") {
  return fmt::format(R"sql(
WITH number AS MATERIALIZED (
  SELECT nextval('{{numbers}}') * {ids} AS first
   WHERE NOT EXISTS (SELECT FROM {{message}} WHERE key = ANY($2::uuid[])){condition}),
arrived AS (
  INSERT INTO {{message}} (id, key, source, message_id, first_seen_at, topic, payload, headers,
                         hash_algorithm, hash, priority, due_at, expires_at)
  SELECT n.first + u.place, u.key, u.source, u.message_id, {now}, u.topic, u.payload, u.headers,
         u.hash_algorithm, u.hash, coalesce(u.priority, 0::smallint), u.due_at, u.expires_at
    FROM number n CROSS JOIN {messages}))sql",
                     fmt::arg("ids", kIdsPerNumber), fmt::arg("now", now),
                     fmt::arg("condition", condition),
                     fmt::arg("messages", RowArrays::source(kArrivalColumns)));
}

// A message that is leased at once is as good as claimed: by these rules for topics, or not at all.
std::string by_rules(std::size_t parameter) {
  return fmt::format("${}::bigint = (SELECT version FROM {{policy_version}})", parameter);
}

std::string arrive_sql() {
  constexpr std::size_t kRuns = 1 + kArrivalColumns.size();
  constexpr std::size_t kSingles = kRuns + kArrivingRunColumns.size();
  constexpr std::size_t kNowPlace = kSingles + kArrivingSingleColumns.size();
  const std::string now = now_sql(fmt::format("${}", kNowPlace));
  return arrived_sql(now) +
         fmt::format(R"sql(,
runs AS (
  INSERT INTO {{run}} (first_id, last_id, seen_at, stage, priority, topic, payload_bytes)
  SELECT n.first + u.first_place, n.first + u.last_place, {now}, 1, u.priority, u.topic,
         u.payload_bytes
    FROM number n CROSS JOIN {runs}),
singles AS (
  INSERT INTO {{work}} (id, enqueue_order, eligible_at, last_seen_at, due_at, expires_at,
                      payload_bytes, attempt, deliveries, lapses, content_version, claimed_version,
                      duplicates, revivals, stage, priority, topic)
  SELECT n.first + u.place, n.first + u.place, greatest({now}, u.due_at), {now}, u.due_at,
         u.expires_at, u.payload_bytes, 0, 0, 0, 1, 0, 0, 0, 1, u.priority, u.topic
    FROM number n CROSS JOIN {singles})
SELECT first FROM number)sql",
                     fmt::arg("now", now),
                     fmt::arg("runs", RowArrays::source(kArrivingRunColumns, kRuns)),
                     fmt::arg("singles", RowArrays::source(kArrivingSingleColumns, kSingles)));
}

std::string arrive_leased_sql() {
  constexpr std::size_t kRuns = 1 + kArrivalColumns.size();
  constexpr std::size_t kNowPlace = kRuns + kArrivingRunColumns.size();
  const std::string now = now_sql(fmt::format("${}", kNowPlace));
  return arrived_sql(now, " AND " + by_rules(kNowPlace + 4)) +
         fmt::format(R"sql(
INSERT INTO {{run}} (first_id, last_id, seen_at, stage, priority, topic, payload_bytes, owner,
                   delivery, locked_until, leased_at, worker)
SELECT n.first + u.first_place, n.first + u.last_place, {now}, 3, u.priority, u.topic,
       u.payload_bytes, ${owner}::uuid, nextval('{{deliveries}}'),
       {now} + ${lease}::bigint * interval '1 millisecond', {now}, ${worker}::integer
  FROM number n CROSS JOIN {runs}
RETURNING first_id, delivery, seen_at, locked_until)sql",
                     fmt::arg("now", now), fmt::arg("owner", kNowPlace + 1),
                     fmt::arg("lease", kNowPlace + 2), fmt::arg("worker", kNowPlace + 3),
                     fmt::arg("runs", RowArrays::source(kArrivingRunColumns, kRuns)));
}

// Somebody waits for it at this moment, so it is as short as can be: no arrays, and a run of one,
// which has fewer columns and indexes than a row of work.
std::string arrive_alone_leased_sql() {
  return fmt::format(R"sql(
WITH fresh AS (
  INSERT INTO {{message}} (id, key, source, message_id, first_seen_at, topic, payload, headers,
                         hash_algorithm, hash, priority)
  SELECT nextval('{{numbers}}') * {ids}, $1::uuid, $2::text, $3::text, {now}, $4::text, $5::bytea,
         $6::text, $7::text, $8::bytea, $9::integer::smallint
   WHERE {rules}
  ON CONFLICT (key) DO NOTHING
  RETURNING id, first_seen_at, topic, priority, octet_length(payload) AS payload_bytes)
INSERT INTO {{run}} (first_id, last_id, seen_at, stage, priority, topic, payload_bytes, owner,
                   delivery, locked_until, leased_at, worker)
SELECT id, id, first_seen_at, 3, priority, topic, payload_bytes, $11::uuid,
       nextval('{{deliveries}}'), first_seen_at + $12::bigint * interval '1 millisecond',
       first_seen_at, $13::integer
  FROM fresh
RETURNING first_id, delivery, seen_at, locked_until)sql",
                     fmt::arg("ids", kIdsPerNumber), fmt::arg("now", now_sql("$10")),
                     fmt::arg("rules", by_rules(14)));
}

// The run, if any, in which a message stands is the last that begins at it or before it, and not
// further away than runs are long: without that bound the entries of runs that are gone would be
// passed. `table` is "run" or "done_run", `id` an expression.
std::string run_before(std::string_view table, std::string_view id) {
  return fmt::format(R"sql((SELECT * FROM {{{table}}}
      WHERE first_id BETWEEN {id} - {reach} AND {id} ORDER BY first_id DESC LIMIT 1))sql",
                     fmt::arg("table", table), fmt::arg("id", id),
                     fmt::arg("reach", kMaxRunLength - 1));
}

// A ready message that is taken out may stand behind the place from which claims look on.
constexpr std::string_view kIntoWork = R"sql(
INSERT INTO {work} (id, enqueue_order, eligible_at, last_seen_at, locked_until, delivery, owner,
                    payload_bytes, attempt, deliveries, lapses, content_version, claimed_version,
                    duplicates, revivals, stage, priority, topic, leased_at, worker)
SELECT i.id, i.id, i.seen_at, i.seen_at, i.locked_until, i.delivery + (i.id - i.first_id), i.owner,
       i.own_bytes, 0, i.stage / 3, 0, 1, i.stage / 3,
       0, 0, CASE i.stage WHEN 1 THEN 7 ELSE i.stage END, i.priority, i.topic, i.leased_at,
       i.worker
  FROM inside i)sql";

constexpr std::string_view kIntoDone = R"sql(
INSERT INTO {done} (id, finished_at, last_seen_at, enqueue_order, attempt, deliveries, lapses,
                    content_version, duplicates, revivals)
SELECT i.id, i.finished_at, i.seen_at, i.id, 0, 1, 0, 1, 0, 0
  FROM inside i)sql";

// The runs in which messages of these keys stand are replaced by what is left of them before,
// between and behind these messages. `first_id = ANY(…)` goes through the index in its order, so
// that all callers lock runs in the same one. `IS TRUE` keeps the planner from making a join of it.
constexpr std::string_view kTakeOut = R"sql(
WITH named AS MATERIALIZED (SELECT id FROM {message} WHERE key = ANY($1::uuid[])),
gone AS (
  DELETE FROM {RUN}
   WHERE first_id = ANY(ARRAY(
     SELECT r.first_id
       FROM named n
      CROSS JOIN LATERAL {RUN_BEFORE} r
      WHERE r.last_id >= n.id))
  RETURNING *),
inside AS MATERIALIZED (
  SELECT g.*, m.id, {BYTES} AS own_bytes, lag(m.id) OVER each AS before,
         lead(m.id) OVER each AS behind
    FROM gone g
   CROSS JOIN LATERAL (SELECT id, payload, headers FROM {message}
                        WHERE id BETWEEN g.first_id AND g.last_id OFFSET 0) m
   WHERE (m.id IN (SELECT id FROM named)) IS TRUE
  WINDOW each AS (PARTITION BY g.first_id ORDER BY m.id)),
rest AS (
  INSERT INTO {RUN} (first_id, last_id, seen_at, topic, {COLUMNS})
  SELECT p.low, p.high, p.seen_at, p.topic, {VALUES}
    FROM (SELECT i.*, coalesce(i.before, i.first_id - 1) + 1 AS low, i.id - 1 AS high FROM inside i
          UNION ALL
          SELECT i.*, i.id + 1, i.last_id FROM inside i WHERE i.behind IS NULL) p
   WHERE p.low <= p.high))sql";

std::string take_out_sql() {
  const std::string rest_values =
      fmt::format(R"sql(p.stage, p.priority, p.owner, p.locked_until, p.leased_at, p.worker,
         p.delivery + (p.low - p.first_id),
         (SELECT coalesce(sum({}), 0) FROM {{message}}
           WHERE id BETWEEN p.low AND p.high))sql",
                  claim_bytes());
  return fmt::format(
             fmt::runtime(kTakeOut), fmt::arg("RUN", "{run}"), fmt::arg("message", "{message}"),
             fmt::arg("RUN_BEFORE", run_before("run", "n.id")), fmt::arg("BYTES", claim_bytes()),
             fmt::arg("COLUMNS",
                      "stage, priority, owner, locked_until, leased_at, worker, delivery, "
                      "payload_bytes"),
             fmt::arg("VALUES", rest_values)) +
         std::string(kIntoWork);
}

std::string take_out_done_sql() {
  return fmt::format(fmt::runtime(kTakeOut), fmt::arg("RUN", "{done_run}"),
                     fmt::arg("RUN_BEFORE", run_before("done_run", "n.id")),
                     fmt::arg("message", "{message}"), fmt::arg("BYTES", "0"),
                     fmt::arg("COLUMNS", "finished_at"), fmt::arg("VALUES", "p.finished_at")) +
         std::string(kIntoDone);
}

// As many runs as have so many messages together.
std::string take_out_lapsed_sql() {
  return fmt::format(R"sql(
WITH lapsed AS MATERIALIZED (
  SELECT place
    FROM (SELECT ctid AS place, last_id - first_id + 1 AS messages,
                 sum(last_id - first_id + 1) OVER (ORDER BY locked_until, first_id) AS until
            FROM (SELECT ctid, first_id, last_id, locked_until FROM {{run}}
                   WHERE stage = 3 AND locked_until <= {now}
                     AND locked_until > coalesce($2::timestamptz, '-infinity')
                   ORDER BY locked_until LIMIT $3::integer) r) counted
   WHERE until - messages < $3),
locked AS MATERIALIZED (
  SELECT ctid AS place FROM {{run}}
   WHERE ctid = ANY(ARRAY(SELECT place FROM lapsed)) AND stage + 0 = 3
     FOR UPDATE SKIP LOCKED),
gone AS (DELETE FROM {{run}} WHERE ctid = ANY(ARRAY(SELECT place FROM locked)) RETURNING *),
inside AS MATERIALIZED (
  SELECT g.*, m.id, m.own_bytes
    FROM gone g
   CROSS JOIN LATERAL (SELECT id, {bytes} AS own_bytes FROM {{message}}
                        WHERE id BETWEEN g.first_id AND g.last_id OFFSET 0) m))sql",
                     fmt::arg("bytes", claim_bytes()), fmt::arg("now", now_sql("$1"))) +
         std::string(kIntoWork);
}

std::string split_sql() {
  return fmt::format(R"sql(
WITH gone AS (
  DELETE FROM {{run}}
   WHERE first_id = $1::bigint AND owner = $2::uuid AND stage + 0 = 3
     AND set_config('synchronous_commit', 'off', true) IS NOT NULL
  RETURNING *),
inside AS MATERIALIZED (
  SELECT g.*, m.id, m.own_bytes
    FROM gone g
   CROSS JOIN LATERAL (SELECT id, {} AS own_bytes FROM {{message}}
                        WHERE id BETWEEN g.first_id AND g.last_id OFFSET 0) m))sql",
                     claim_bytes()) +
         std::string(kIntoWork);
}

std::string any_in_run_sql() {
  return fmt::format(R"sql(
SELECT EXISTS (
  SELECT FROM {{message}} m
   CROSS JOIN LATERAL {} r
   WHERE m.key = ANY($1::uuid[]) AND r.last_id >= m.id))sql",
                     run_before("run", "m.id"));
}

std::string acknowledge_sql() {
  constexpr std::size_t kRest = 1 + kHeldRunColumns.size();
  constexpr std::size_t kDone = kRest + kLeasedRangeColumns.size();
  constexpr std::size_t kOwner = kDone + kDoneRangeColumns.size();
  return fmt::format(R"sql(
WITH held AS MATERIALIZED (
  SELECT ctid FROM {{run}}
   WHERE first_id = ANY($1::bigint[]) AND last_id = ANY($2::bigint[])
     AND delivery = ANY($3::bigint[]) AND stage + 0 = 3 AND owner = ${owner}::uuid
     FOR UPDATE),
all_held AS MATERIALIZED (SELECT count(*) = cardinality($1) AS yes FROM held),
gone AS (
  DELETE FROM {{run}}
   WHERE ctid = ANY(ARRAY(SELECT ctid FROM held WHERE (SELECT yes FROM all_held)))
  RETURNING first_id),
released AS MATERIALIZED (SELECT count(*) AS runs FROM gone),
rest AS (
  INSERT INTO {{run}} ({rest_names}, stage, owner)
  SELECT {rest_values}, 3, ${owner} FROM {rest}
   WHERE (SELECT runs FROM released) > 0),
finished AS (
  INSERT INTO {{done_run}} ({done_names}, finished_at)
  SELECT {done_values}, {now} FROM {done}
   WHERE (SELECT runs FROM released) > 0
  RETURNING topic, last_id - first_id + 1 AS messages),
counted AS (
  INSERT INTO {{done_count}} (topic, count)
  SELECT topic, sum(messages) FROM finished GROUP BY topic)
SELECT runs FROM released)sql",
                     fmt::arg("owner", kOwner),
                     fmt::arg("rest_names", RowArrays::names(kLeasedRangeColumns)),
                     fmt::arg("rest_values", RowArrays::values(kLeasedRangeColumns)),
                     fmt::arg("rest", RowArrays::source(kLeasedRangeColumns, kRest)),
                     fmt::arg("done_names", RowArrays::names(kDoneRangeColumns)),
                     fmt::arg("done_values", RowArrays::values(kDoneRangeColumns)),
                     fmt::arg("done", RowArrays::source(kDoneRangeColumns, kDone)),
                     fmt::arg("now", now_sql(fmt::format("${}", kOwner + 1))));
}

// What another claim leaves of a run begins later, and ends where it did.
constexpr std::string_view kWaitForRun = R"sql(
SELECT first_id FROM {run}
 WHERE first_id BETWEEN $1::bigint AND $2::bigint AND last_id = $2 AND stage + 0 = 1
   AND set_config('lock_timeout', $3::text, true) IS NOT NULL
   FOR UPDATE)sql";

// The last run may be removed in part. What is removed is what was still there to be removed, and
// not what the choice was made from.
std::string clean_up_sql() {
  return fmt::format(R"sql(
WITH old AS MATERIALIZED (
  SELECT first_id, last_id, least(last_id, last_id - (until - $3)::bigint) AS high
    FROM (SELECT first_id, last_id,
                 sum(last_id - first_id + 1) OVER (ORDER BY finished_at, first_id) AS until
            FROM (SELECT first_id, last_id, finished_at FROM {{done_run}}
                   WHERE finished_at <= {now} - $2::bigint * interval '1 millisecond'
                   ORDER BY finished_at LIMIT $3::integer) r) counted
   WHERE until - (last_id - first_id + 1) < $3),
locked AS MATERIALIZED (
  SELECT first_id FROM {{done_run}}
   WHERE first_id = ANY(ARRAY(SELECT first_id FROM old))
     FOR UPDATE SKIP LOCKED),
gone AS (
  DELETE FROM {{done_run}}
   WHERE first_id = ANY(ARRAY(SELECT first_id FROM old WHERE high = last_id))
     AND (first_id IN (SELECT first_id FROM locked)) IS TRUE
  RETURNING first_id, last_id),
shortened AS (
  UPDATE {{done_run}} r SET first_id = o.high + 1
    FROM old o
   WHERE o.high < o.last_id AND r.first_id = o.first_id AND r.last_id = o.last_id
     AND (r.first_id IN (SELECT first_id FROM locked)) IS TRUE
  RETURNING o.first_id, o.high),
removed AS (
  DELETE FROM {{message}} m
   USING (SELECT first_id, last_id FROM gone UNION ALL SELECT first_id, high FROM shortened) c
   WHERE m.id BETWEEN c.first_id AND c.last_id RETURNING m.topic),
subtracted AS (
  INSERT INTO {{done_count}} (topic, count)
  SELECT topic, -count(*) FROM removed GROUP BY topic)
SELECT count(*) FROM removed)sql",
                     fmt::arg("now", now_sql("$1")));
}

constexpr std::string_view kStateOfMessage = R"sql(
  SELECT false AS in_run, stage, enqueue_order, eligible_at, last_seen_at, owner, delivery,
         locked_until, finished_at, backoff_until, attempt, deliveries, lapses, content_version,
         claimed_version, duplicates, revivals, revived_at, revival_reason, last_error, leased_at,
         worker
    FROM {work} WHERE id = m.id
  UNION ALL
  SELECT false, 4::smallint, enqueue_order, finished_at, last_seen_at, NULL, NULL, NULL,
         finished_at, NULL, attempt, deliveries, lapses, content_version, 0,
         duplicates, revivals, revived_at, revival_reason, last_error, NULL, NULL
    FROM {done} WHERE id = m.id
  UNION ALL
  SELECT true, r.stage, m.id, r.seen_at, r.seen_at, r.owner, r.delivery + (m.id - r.first_id),
         r.locked_until, NULL, NULL, 0, r.stage / 3, 0, 1, r.stage / 3, 0, 0, NULL, NULL, NULL,
         r.leased_at, r.worker
    FROM {RUN_BEFORE} r
   WHERE r.last_id >= m.id
  UNION ALL
  SELECT true, 4::smallint, m.id, r.finished_at, r.seen_at, NULL, NULL, NULL,
         r.finished_at, NULL, 0, 1, 0, 1, 0, 0, 0, NULL, NULL, NULL, NULL, NULL
    FROM {DONE_RUN_BEFORE} r
   WHERE r.last_id >= m.id)sql";

}  // namespace

RunSql::RunSql(const Names& names, std::string_view queue) {
  const auto prepare = [&](Statement& statement, std::string_view name, std::string_view sql) {
    statement = {fmt::format("{}_{}", queue, name), names.fill(sql, queue)};
  };
  prepare(arrive, "arrive", arrive_sql());
  prepare(arrive_leased, "arrive_leased", arrive_leased_sql());
  prepare(arrive_alone_leased, "arrive_alone_leased", arrive_alone_leased_sql());
  prepare(take_out, "take_out", take_out_sql());
  prepare(take_out_done, "take_out_done", take_out_done_sql());
  prepare(split, "split_run", split_sql());
  prepare(lock, "lock_runs",
          "SELECT first_id FROM {run} WHERE first_id = ANY($1::bigint[]) FOR UPDATE");
  prepare(acknowledge, "acknowledge_runs", acknowledge_sql());
  prepare(take_out_lapsed, "take_out_lapsed", take_out_lapsed_sql());
  prepare(any_in_run, "any_in_run", any_in_run_sql());
  prepare(wait_for_run, "wait_for_run", kWaitForRun);
  prepare(clean_up, "clean_up_runs", clean_up_sql());
}

std::string state_of_message() {
  return fmt::format(fmt::runtime(kStateOfMessage), fmt::arg("work", "{work}"),
                     fmt::arg("done", "{done}"), fmt::arg("RUN_BEFORE", run_before("run", "m.id")),
                     fmt::arg("DONE_RUN_BEFORE", run_before("done_run", "m.id")));
}

}  // namespace oncebox::postgresql
