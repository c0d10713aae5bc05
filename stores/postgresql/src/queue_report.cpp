#include "queue_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "oncebox/limits.hpp"
#include "oncebox/sql/read_rows.hpp"
#include "oncebox/sql/state_sql.hpp"
#include "queue_sql.hpp"
#include "selection.hpp"
#include "transaction.hpp"

namespace oncebox::postgresql {

namespace {

// Takes back what a connection tells the planner about the small statements.
const Statement kOwnJudgement{"own_judgement", R"sql(
SELECT set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true),
       set_config('enable_bitmapscan', 'on', true), set_config('enable_hashjoin', 'on', true),
       set_config('enable_mergejoin', 'on', true), set_config('enable_sort', 'on', true),
       set_config('join_collapse_limit', '8', true))sql"};

// One row for each topic and state, as the numbers of state_sql.hpp. A lapsed lease counts as what
// it will be when it is reaped.
std::string stats_sql() {
  const std::string state =
      sql::state_number({.now = "moment.now", .due_at = "s.due_at", .paused = "FALSE"});
  return fmt::format(R"sql(
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, date_trunc('milliseconds', now())) AS now),
unfinished AS (
  SELECT s.topic, s.finished_at, 1 AS messages,
         CASE WHEN s.stage = 3 AND s.locked_until <= moment.now
              THEN greatest(s.locked_until, s.due_at) ELSE s.eligible_at END AS eligible_at,
         {state} AS state
    FROM {{work}} s CROSS JOIN moment
  UNION ALL
  SELECT r.topic, NULL, r.last_id - r.first_id + 1,
         CASE WHEN r.stage = 3 THEN r.locked_until ELSE r.seen_at END,
         CASE WHEN r.stage = 3 AND r.locked_until > moment.now THEN {leased}
              WHEN r.stage = 3 OR r.seen_at <= moment.now THEN {ready}
              ELSE {due} END
    FROM {{run}} r CROSS JOIN moment)
SELECT topic, state, sum(messages)::bigint,
       min(CASE WHEN state = {dead} THEN finished_at ELSE eligible_at END)
  FROM unfinished GROUP BY topic, state
UNION ALL
SELECT topic, {done}, sum(count)::bigint, NULL
  FROM {{done_count}} GROUP BY topic HAVING sum(count) > 0)sql",
                     fmt::arg("state", state), fmt::arg("leased", sql::number_of({State::leased})),
                     fmt::arg("ready", sql::number_of({State::ready})),
                     fmt::arg("due", sql::number_of({State::waiting, WaitingFor::due})),
                     fmt::arg("dead", sql::number_of({State::dead})),
                     fmt::arg("done", sql::number_of({State::done})));
}

// The next message to become eligible of each priority, and the next lease to lapse. One that has
// lapsed and is not yet due waits for that.
constexpr std::string_view kNextDue = R"sql(
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, date_trunc('milliseconds', now())) AS now)
SELECT least(
  (SELECT min(n.eligible_at)
     FROM {{priority}} q
    CROSS JOIN (VALUES (1::smallint), (7::smallint)) v(stage)
    CROSS JOIN LATERAL (
      SELECT w.eligible_at FROM {{work}} w
       WHERE w.stage = v.stage AND w.stage IN (1, 7) AND w.priority = q.priority
         AND w.eligible_at > (SELECT now FROM moment){topics}
       ORDER BY w.eligible_at, w.enqueue_order LIMIT 1) n),
  (SELECT min(n.seen_at)
     FROM {{priority}} q
    CROSS JOIN LATERAL (
      SELECT w.seen_at FROM {{run}} w
       WHERE w.stage = 1 AND w.priority = q.priority
         AND w.seen_at > (SELECT now FROM moment){topics}
       ORDER BY w.seen_at, w.first_id LIMIT 1) n),
  (SELECT w.locked_until FROM {{work}} w
    WHERE w.stage = 3 AND w.locked_until > (SELECT now FROM moment)
    ORDER BY w.locked_until LIMIT 1),
  (SELECT r.locked_until FROM {{run}} r
    WHERE r.stage = 3 AND r.locked_until > (SELECT now FROM moment)
    ORDER BY r.locked_until LIMIT 1),
  (SELECT min(w.due_at) FROM {{work}} w
    WHERE w.stage = 3 AND w.locked_until <= (SELECT now FROM moment)
      AND w.locked_until > coalesce($2::timestamptz, '-infinity')
      AND w.due_at > (SELECT now FROM moment))))sql";

constexpr std::string_view kWorkerReport = R"sql(
WITH moment AS MATERIALIZED (
  SELECT coalesce($1::timestamptz, date_trunc('milliseconds', now())) AS now),
lease AS MATERIALIZED (
  SELECT worker, sum(messages)::bigint AS messages
    FROM (SELECT worker, count(*) AS messages FROM {work}
           WHERE stage = 3 AND locked_until > (SELECT now FROM moment) GROUP BY worker
          UNION ALL
          SELECT worker, sum(last_id - first_id + 1) FROM {run}
           WHERE stage = 3 AND locked_until > (SELECT now FROM moment) GROUP BY worker) held
   GROUP BY worker)
SELECT w.name, coalesce(l.messages, 0)::bigint, w.since, w.last_seen_at
  FROM {worker} w LEFT JOIN lease l ON l.worker = w.id
 WHERE l.worker IS NOT NULL
    OR w.last_seen_at > (SELECT now FROM moment) - $2::bigint * interval '1 millisecond'
 ORDER BY l.worker IS NULL, w.last_seen_at DESC LIMIT $3::integer)sql";

}  // namespace

Result run_report(ConnectionPool& pool, const std::string& sql, const Parameters& parameters) {
  const Statement report{"", sql};
  return in_transaction(pool, [&](Transaction& transaction) {
    const Parameters none;
    const std::array commands{Command{&kOwnJudgement, &none}, Command{&report, &parameters}};
    std::vector<Result> results = transaction.run_all(commands);
    transaction.commit();
    return std::move(results.back());
  });
}

QueueStats read_stats(ConnectionPool& pool, const Names& names, std::string_view queue,
                      std::optional<TimePoint> now) {
  const Result rows = run_report(pool, names.fill(stats_sql(), queue), Parameters().add(now));
  // Nothing sorts first, as the topic of those that were never enqueued does.
  std::map<std::optional<std::string>, TopicStats> topics;
  for (int row = 0; row < rows.rows(); ++row) {
    TopicStats& stats = topics[rows.optional_text(row, 0)];
    const auto count = static_cast<std::size_t>(rows.int64(row, 2));
    const ShownState shown = sql::shown_state_of(rows.int32(row, 1));
    switch (shown.state) {
      case State::seen:
        stats.seen = count;
        break;
      case State::waiting:
        stats.waiting.of(*shown.waiting_for) = count;
        break;
      case State::ready:
        stats.ready = count;
        stats.oldest_ready_at = rows.time(row, 3);
        break;
      case State::leased:
        stats.leased = count;
        break;
      case State::dead:
        stats.dead = count;
        stats.oldest_dead_at = rows.time(row, 3);
        break;
      case State::done:
        stats.done = count;
        break;
    }
  }
  QueueStats result;
  for (auto& [name, stats] : topics) {
    if (name) stats.topic = Topic(*name);
    result.topics.push_back(std::move(stats));
  }
  return result;
}

std::vector<WorkerRecord> read_workers(ConnectionPool& pool, const Names& names,
                                       std::string_view queue, std::optional<TimePoint> now) {
  const Parameters values = Parameters()
                                .add(now)
                                .add(std::int64_t{Duration(kWorkerRetention).count()})
                                .add(static_cast<std::int32_t>(limits::kMaxListItems));
  const Result rows = run_report(pool, names.fill(kWorkerReport, queue), values);
  std::vector<WorkerRecord> workers;
  for (int row = 0; row < rows.rows(); ++row) {
    workers.push_back(sql::read_worker(ResultRow(rows, row)));
  }
  return workers;
}

std::optional<TimePoint> read_next_due(ConnectionPool& pool, const Names& names,
                                       std::string_view queue, const TopicSelection& topics,
                                       std::optional<TimePoint> now,
                                       std::optional<TimePoint> lapsed) {
  const bool every_topic = topics.only.empty() && topics.except.empty();
  const std::string condition =
      every_topic ? "" : fmt::format("\n         AND {}", selection_sql("w.topic", 3));
  const Statement next{
      fmt::format("{}_next_due{}", queue, every_topic ? "" : "_of_topics"),
      names.fill(fmt::format(fmt::runtime(kNextDue), fmt::arg("topics", condition)), queue)};
  Parameters parameters;
  parameters.add(now).add(lapsed);
  if (!every_topic) add_selection(parameters, topics);
  return run_alone(pool, next, parameters, Exchange::changes_nothing).optional_time(0, 0);
}

}  // namespace oncebox::postgresql
