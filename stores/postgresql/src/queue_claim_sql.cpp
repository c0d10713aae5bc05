// How a claim chooses, in one statement.

#include <fmt/format.h>

#include "queue_row.hpp"
#include "queue_sql.hpp"

namespace oncebox::postgresql {

namespace {

// $1 limit        $2 owner          $3 lease in milliseconds
// $4 now          $5 bytes          $6 leases that ended until then are known to be reaped
// $7 priorities   $8 times   $9 numbers: from where on each priority is to be looked at
// $10 how many candidates to look at, at least the limit; from $11 on the topics
//
// First it is seen whether something has lapsed or expired: then nothing is claimed, and the caller
// reaps before it asks again; with a time in the future as $6 this is left out. The candidates come
// in order: by priority (a LATERAL join is a nested loop, which keeps the order of its outer side),
// and within one from two ranges of the index, which are merged. Those that nobody else is just
// claiming are locked and handed out. `stage + 0` keeps the planner from going through an index in
// order to find rows whose place is known.
constexpr std::string_view kClaim = R"sql(
WITH moment AS MATERIALIZED (
  SELECT coalesce($4::timestamptz,
                  date_trunc('milliseconds', statement_timestamp())) AS now{unflushed}),
clean AS MATERIALIZED (
  SELECT coalesce($6::timestamptz > (SELECT now FROM moment), false)
      OR (NOT EXISTS (SELECT FROM {{work}}
                       WHERE stage = 3 AND locked_until <= (SELECT now FROM moment)
                         AND locked_until > coalesce($6, '-infinity'))
      AND NOT EXISTS (SELECT FROM {{work}}
                       WHERE stage IN (1, 2, 7) AND expires_at IS NOT NULL
                         AND expires_at <= (SELECT now FROM moment))) AS yes),
candidate AS MATERIALIZED (
  SELECT c.place, row_number() OVER () AS number,
         sum(c.payload_bytes) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
    FROM (SELECT p.place, p.payload_bytes
            FROM (SELECT q.priority, f.eligible_at, f.enqueue_order
                    FROM {{priority}} q
                    LEFT JOIN unnest($7::smallint[], $8::timestamptz[], $9::bigint[])
                              f(priority, eligible_at, enqueue_order) ON f.priority = q.priority
                   ORDER BY q.priority DESC) r
           CROSS JOIN LATERAL (
             SELECT * FROM (
               SELECT w.ctid AS place, w.payload_bytes, w.eligible_at, w.enqueue_order
                 FROM {{work}} w
                WHERE w.stage = 1 AND w.priority = r.priority
                  AND w.eligible_at <= (SELECT now FROM moment)
                  AND (w.eligible_at, w.enqueue_order) >=
                      (coalesce(r.eligible_at, '-infinity'), coalesce(r.enqueue_order, 0))
                  AND (w.expires_at IS NULL OR w.expires_at > (SELECT now FROM moment)){topics}
                ORDER BY w.eligible_at, w.enqueue_order LIMIT $10::integer) fresh
             UNION ALL
             SELECT * FROM (
               SELECT w.ctid AS place, w.payload_bytes, w.eligible_at, w.enqueue_order
                 FROM {{work}} w
                WHERE w.stage = 7 AND w.priority = r.priority
                  AND w.eligible_at <= (SELECT now FROM moment)
                  AND (w.expires_at IS NULL OR w.expires_at > (SELECT now FROM moment)){topics}
                ORDER BY w.eligible_at, w.enqueue_order LIMIT $10) returned
             ORDER BY eligible_at, enqueue_order LIMIT $10) p
           LIMIT $10) c
   WHERE (SELECT yes FROM clean)),
locked AS MATERIALIZED (
  SELECT w.ctid AS place
    FROM {{work}} w
   WHERE w.ctid = ANY(ARRAY(SELECT place FROM candidate WHERE number = 1 OR bytes <= $5::bigint))
     AND w.stage + 0 IN (1, 7)
   LIMIT $1::integer FOR UPDATE SKIP LOCKED),
claimed AS (
  UPDATE {{work}} w
     SET stage = 3, owner = $2::uuid, delivery = nextval('{{deliveries}}'),
         locked_until = (SELECT now FROM moment) + $3::bigint * interval '1 millisecond',
         deliveries = w.deliveries + 1, claimed_version = w.content_version
   WHERE w.ctid = ANY(ARRAY(SELECT place FROM locked))
  RETURNING w.*)
SELECT h.yes, h.now, h.candidates, h.chosen, {columns}
  FROM (SELECT (SELECT yes FROM clean) AS yes, (SELECT now FROM moment) AS now,
               (SELECT count(*) FROM candidate) AS candidates,
               (SELECT count(*) FROM candidate WHERE number = 1 OR bytes <= $5) AS chosen) h
  LEFT JOIN (claimed s JOIN {{message}} m ON m.id = s.id) ON true)sql";

}  // namespace

std::string claim_sql(const Names& names, std::string_view queue, std::string_view topic_condition,
                      bool flush_claims) {
  const std::string topics =
      topic_condition.empty() ? "" : fmt::format("\n                  AND {}", topic_condition);
  const std::string sql = fmt::format(
      fmt::runtime(kClaim), fmt::arg("topics", topics),
      fmt::arg("unflushed", flush_claims ? "" : ", set_config('synchronous_commit', 'off', true)"),
      fmt::arg("columns", row_columns(ListPayloads::include)));
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
