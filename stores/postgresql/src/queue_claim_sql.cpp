// How a claim chooses, in one statement.

#include <fmt/format.h>

#include "queue_row.hpp"
#include "queue_sql.hpp"

namespace oncebox::postgresql {

namespace {

// $1 limit        $2 owner          $3 lease in milliseconds
// $4 now          $5 bytes          $6 leases that ended until then are known to be reaped
// $7 priorities   $8 times   $9 numbers: from where on each priority is to be looked at
// $10 how many candidates to look at, at least the limit
// $11 whether the first is taken though it has more bytes; $12 the version of the rules for topics
// by which the topics are chosen; $13 the worker's number; from $14 on the topics
//
// First it is seen whether something has lapsed or expired: then nothing is claimed, and the caller
// reaps before it asks again; with a time in the future as $6 this is left out. Nor is anything
// claimed when the rules for topics have changed. The candidates come
// in order: by priority (a LATERAL join is a nested loop, which keeps the order of its outer side),
// and within one from two ranges of the index of single messages and from the runs, which are
// merged. Of the runs as many are looked at as are likely to be enough; behind the last of them,
// the horizon, others might come first. Those that nobody else is just claiming are locked and
// handed out. Only the last run can be claimed in part, because of the limit or of the bytes; then
// it is cut in two. `stage + 0` keeps the planner from going through an index in order to find rows
// whose place is known.
constexpr std::string_view kClaim = R"sql(
WITH moment AS MATERIALIZED (
  SELECT coalesce($4::timestamptz,
                  date_trunc('milliseconds', statement_timestamp())) AS now{unflushed}),
clean AS MATERIALIZED (
  SELECT coalesce($6::timestamptz > (SELECT now FROM moment), false)
      OR (NOT EXISTS (SELECT FROM {{work}}
                       WHERE stage = 3 AND locked_until <= (SELECT now FROM moment)
                         AND locked_until > coalesce($6, '-infinity'))
      AND NOT EXISTS (SELECT FROM {{run}}
                       WHERE stage = 3 AND locked_until <= (SELECT now FROM moment)
                         AND locked_until > coalesce($6, '-infinity'))
      AND NOT EXISTS (SELECT FROM {{work}}
                       WHERE stage IN (1, 2, 7) AND expires_at IS NOT NULL
                         AND expires_at <= (SELECT now FROM moment))) AS yes),
item AS MATERIALIZED (
  SELECT c.*, row_number() OVER () AS number,
         sum(c.messages) OVER (ROWS UNBOUNDED PRECEDING)::bigint AS until,
         sum(c.payload_bytes) OVER (ROWS UNBOUNDED PRECEDING)::bigint AS bytes
    FROM (SELECT p.*, r.priority
            FROM (SELECT q.priority, f.eligible_at, f.enqueue_order
                    FROM {{priority}} q
                    LEFT JOIN unnest($7::smallint[], $8::timestamptz[], $9::bigint[])
                              f(priority, eligible_at, enqueue_order) ON f.priority = q.priority
                   ORDER BY q.priority DESC) r
           CROSS JOIN LATERAL (
             SELECT * FROM (
               SELECT w.id, w.ctid AS place, NULL::bigint AS run_end, 1::bigint AS messages,
                      w.payload_bytes::bigint, w.eligible_at, w.enqueue_order
                 FROM {{work}} w
                WHERE w.stage = 1 AND w.priority = r.priority
                  AND w.eligible_at <= (SELECT now FROM moment)
                  AND (w.eligible_at, w.enqueue_order) >=
                      (coalesce(r.eligible_at, '-infinity'), coalesce(r.enqueue_order, 0))
                  AND (w.expires_at IS NULL OR w.expires_at > (SELECT now FROM moment)){topics}
                ORDER BY w.eligible_at, w.enqueue_order LIMIT $10::integer) fresh
             UNION ALL
             SELECT * FROM (
               SELECT w.id, w.ctid, NULL::bigint, 1::bigint, w.payload_bytes::bigint,
                      w.eligible_at, w.enqueue_order
                 FROM {{work}} w
                WHERE w.stage = 7 AND w.priority = r.priority
                  AND w.eligible_at <= (SELECT now FROM moment)
                  AND (w.expires_at IS NULL OR w.expires_at > (SELECT now FROM moment)){topics}
                ORDER BY w.eligible_at, w.enqueue_order LIMIT $10) returned
             UNION ALL
             SELECT * FROM (
               SELECT w.first_id, NULL::tid, w.last_id, w.last_id - w.first_id + 1,
                      w.payload_bytes, w.seen_at, w.first_id
                 FROM {{run}} w
                WHERE w.stage = 1 AND w.priority = r.priority
                  AND w.seen_at <= (SELECT now FROM moment)
                  AND (w.seen_at, w.first_id) >=
                      (coalesce(r.eligible_at, '-infinity'), coalesce(r.enqueue_order, 0)){topics}
                ORDER BY w.seen_at, w.first_id LIMIT {runs}) arrived
             ORDER BY eligible_at, enqueue_order LIMIT $10) p
           LIMIT $10) c
   WHERE (SELECT yes FROM clean)
     AND $12::bigint = (SELECT version FROM {{policy_version}})),
horizon AS MATERIALIZED (
  SELECT min(number) AS number
    FROM (SELECT number, count(run_end) OVER (PARTITION BY priority ORDER BY number) AS runs
            FROM item) counted
   WHERE runs >= {runs}),
chosen AS MATERIALIZED (
  SELECT i.id, i.place, i.run_end, i.number,
         CASE WHEN i.run_end IS NULL THEN i.id
              WHEN i.bytes <= $5::bigint THEN i.run_end
              ELSE (SELECT max(f.id)
                      FROM (SELECT m.id, sum({bytes}) OVER (ORDER BY m.id) AS bytes
                              FROM {{message}} m WHERE m.id BETWEEN i.id AND i.run_end) f
                     WHERE f.bytes <= $5 - (i.bytes - i.payload_bytes)
                        OR ($11::boolean AND i.number = 1 AND f.id = i.id)) END AS high
    FROM item i
   WHERE i.until - i.messages < $10
     AND i.number <= coalesce((SELECT number FROM horizon), i.number)
     AND (($11 AND i.number = 1) OR i.bytes <= $5
       OR (i.run_end IS NOT NULL AND i.bytes - i.payload_bytes < $5))),
locked AS MATERIALIZED (
  SELECT w.id
    FROM {{work}} w
   WHERE w.ctid = ANY(ARRAY(SELECT place FROM chosen WHERE place IS NOT NULL))
     AND w.stage + 0 IN (1, 7)
     FOR UPDATE SKIP LOCKED),
locked_run AS MATERIALIZED (
  SELECT w.first_id
    FROM {{run}} w
   WHERE w.first_id = ANY(ARRAY(SELECT id FROM chosen WHERE run_end IS NOT NULL
                                                        AND high IS NOT NULL))
     AND w.stage + 0 = 1
     FOR UPDATE SKIP LOCKED),
taken AS MATERIALIZED (
  SELECT t.id, t.place, t.run_end, least(t.high, t.id + ($1::integer - t.before) - 1) AS high
    FROM (SELECT c.*, (sum(c.high - c.id + 1) OVER (ORDER BY c.number))::bigint
                      - (c.high - c.id + 1) AS before
            FROM chosen c
           WHERE (c.run_end IS NULL AND c.id IN (SELECT id FROM locked))
              OR (c.run_end IS NOT NULL AND c.id IN (SELECT first_id FROM locked_run))) t
   WHERE t.before < $1),
part AS MATERIALIZED (
  SELECT id AS first_id, high, run_end AS last_id FROM taken WHERE run_end IS NOT NULL),
lease AS MATERIALIZED (
  SELECT now + $3::bigint * interval '1 millisecond' AS until FROM moment),
claimed AS (
  UPDATE {{work}} w
     SET stage = 3, owner = $2::uuid, delivery = nextval('{{deliveries}}'),
         locked_until = (SELECT until FROM lease), leased_at = (SELECT now FROM moment),
         worker = $13::integer, deliveries = w.deliveries + 1, claimed_version = w.content_version
   WHERE w.ctid = ANY(ARRAY(SELECT place FROM taken WHERE place IS NOT NULL))
  RETURNING w.*),
whole AS (
  UPDATE {{run}} w
     SET stage = 3, owner = $2, delivery = nextval('{{deliveries}}'),
         locked_until = (SELECT until FROM lease), leased_at = (SELECT now FROM moment),
         worker = $13
   WHERE w.first_id = ANY(ARRAY(SELECT first_id FROM part WHERE high = last_id))
  RETURNING w.*),
cut AS (
  UPDATE {{run}} w
     SET first_id = p.high + 1,
         payload_bytes = greatest(0, w.payload_bytes - (SELECT coalesce(sum({bytes}), 0)
                                                          FROM {{message}} m
                                                         WHERE m.id BETWEEN p.first_id
                                                                        AND p.high))
    FROM part p
   WHERE p.high < p.last_id AND w.first_id = p.first_id
  RETURNING p.first_id, p.high AS last_id, w.seen_at, w.priority, w.topic),
begun AS (
  INSERT INTO {{run}} (first_id, last_id, seen_at, stage, priority, topic, owner, delivery,
                     locked_until, leased_at, worker)
  SELECT first_id, last_id, seen_at, 3, priority, topic, $2, nextval('{{deliveries}}'),
         (SELECT until FROM lease), (SELECT now FROM moment), $13
    FROM cut
  RETURNING *)
SELECT h.yes, h.now, h.candidates, h.has_more, h.chosen, h.missed, h.missed_end, h.policies,
       held.*
  FROM (SELECT (SELECT yes FROM clean) AS yes, (SELECT now FROM moment) AS now,
               (SELECT version FROM {{policy_version}}) AS policies,
               i.candidates, i.has_more, x.id AS missed, x.run_end AS missed_end,
               (SELECT least($1, coalesce(sum(high - id + 1), 0))::bigint FROM chosen) AS chosen
          FROM (SELECT coalesce(sum(messages), 0)::bigint AS candidates,
                       (SELECT number FROM horizon) IS NOT NULL AS has_more
                  FROM item WHERE number <= coalesce((SELECT number FROM horizon), number)) i
          LEFT JOIN (SELECT id, run_end FROM chosen
                      WHERE high IS NOT NULL AND run_end IS NOT NULL
                        AND (id IN (SELECT first_id FROM locked_run)) IS NOT TRUE
                      ORDER BY number LIMIT 1) x ON true) h
  LEFT JOIN (
    SELECT NULL::bigint AS run, NULL::bigint AS run_end, {columns}
      FROM claimed s JOIN {{message}} m ON m.id = s.id
    UNION ALL
    SELECT r.first_id, r.last_id, {columns}
      FROM (SELECT * FROM whole UNION ALL SELECT * FROM begun) r
     CROSS JOIN LATERAL (SELECT * FROM {{message}}
                          WHERE id BETWEEN r.first_id AND r.last_id OFFSET 0) m
     CROSS JOIN LATERAL (
       SELECT r.stage, m.id AS enqueue_order, r.seen_at AS eligible_at, r.seen_at AS last_seen_at,
              r.owner, r.delivery + (m.id - r.first_id) AS delivery, r.locked_until,
              NULL::timestamptz AS finished_at, NULL::timestamptz AS backoff_until, 0 AS attempt,
              1 AS deliveries, 0 AS lapses, 1 AS content_version, 1 AS claimed_version,
              0 AS duplicates, 0 AS revivals, NULL::timestamptz AS revived_at,
              NULL::text AS revival_reason, NULL::text AS last_error, r.leased_at) s) held
    ON true)sql";

}  // namespace

std::string claim_sql(const Names& names, std::string_view queue, std::string_view topic_condition,
                      bool flush_claims) {
  const std::string topics =
      topic_condition.empty() ? "" : fmt::format("\n                  AND {}", topic_condition);
  const std::string sql = fmt::format(
      fmt::runtime(kClaim), fmt::arg("topics", topics),
      fmt::arg("runs", "least($10, 32 + $10 / 8)"),
      fmt::arg("unflushed", flush_claims ? "" : ", set_config('synchronous_commit', 'off', true)"),
      fmt::arg("bytes", claim_bytes()), fmt::arg("columns", claimed_columns()));
  return names.fill(sql, queue);
}

std::string selection_sql(std::string_view topic, int first) {
  // The exact topics that are wanted, the beginnings, and the same for those that are not; and
  // whether everything is wanted that is not refused. A tie goes to the refusal.
  return fmt::format(R"sql(
      CASE WHEN {t} = ANY(${c}::text[]) THEN false
           WHEN {t} = ANY(${a}::text[]) THEN true
           WHEN ${e}::boolean THEN
             NOT EXISTS (SELECT FROM unnest(${d}::text[]) stem WHERE starts_with({t}, stem))
           ELSE coalesce((SELECT max(octet_length(stem)) FROM unnest(${b}::text[]) stem
                           WHERE starts_with({t}, stem)), -1)
              > coalesce((SELECT max(octet_length(stem)) FROM unnest(${d}::text[]) stem
                           WHERE starts_with({t}, stem)), -1) END)sql",
                     fmt::arg("t", topic), fmt::arg("a", first), fmt::arg("b", first + 1),
                     fmt::arg("c", first + 2), fmt::arg("d", first + 3), fmt::arg("e", first + 4));
}

}  // namespace oncebox::postgresql
