#include "queue_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "oncebox/limits.hpp"
#include "oncebox/sql/read_rows.hpp"
#include "oncebox/sql/stage.hpp"
#include "queue_lanes.hpp"
#include "topic_names.hpp"

namespace oncebox::sqlite {

namespace {

Statement prepare(Connection& reader, std::string_view queue, std::string_view sql) {
  return reader.prepare(fmt::format(fmt::runtime(sql), fmt::arg("queue", queue)));
}

// Nothing sorts first, as the topic of those that were never enqueued does.
using ByTopic = std::map<std::optional<std::string>, TopicStats>;

void take_earlier(std::optional<TimePoint>& earliest, TimePoint time) {
  if (!earliest || time < *earliest) earliest = time;
}

void count_done(Connection& reader, std::string_view queue, ByTopic& topics) {
  Statement counts = reader.prepare(R"sql(
SELECT t.name, d.count FROM oncebox_done_count d LEFT JOIN oncebox_topic t ON t.id = d.topic
 WHERE d.queue = ?1 AND d.count > 0)sql");
  counts.bind(1, queue);
  while (counts.step()) {
    topics[counts.optional_text(0)].done = static_cast<std::size_t>(counts.int64(1));
  }
}

void count_dead(Connection& reader, std::string_view queue, ByTopic& topics) {
  Statement counts = prepare(reader, queue, R"sql(
SELECT t.name, count(*), min(s.finished_at)
  FROM oncebox_{queue}_state s LEFT JOIN oncebox_topic t ON t.id = s.topic
 WHERE s.stage = 5 AND s.stage IN (4, 5) GROUP BY s.topic)sql");
  while (counts.step()) {
    TopicStats& stats = topics[counts.optional_text(0)];
    stats.dead = static_cast<std::size_t>(counts.int64(1));
    stats.oldest_dead_at = counts.time(2);
  }
}

void count_exposed(Connection& reader, std::string_view queue, TimePoint now, ByTopic& topics) {
  Statement counts = prepare(reader, queue, R"sql(
SELECT t.name, count(*) FILTER (WHERE s.eligible_at <= ?1),
       count(*) FILTER (WHERE s.eligible_at > ?1 AND s.backoff_until >= s.eligible_at),
       count(*), min(s.eligible_at)
  FROM oncebox_{queue}_state s JOIN oncebox_topic t ON t.id = s.topic
 WHERE s.stage = 1 GROUP BY s.topic)sql");
  counts.bind(1, now);
  while (counts.step()) {
    TopicStats& stats = topics[counts.optional_text(0)];
    stats.ready = static_cast<std::size_t>(counts.int64(1));
    stats.waiting.backoff = static_cast<std::size_t>(counts.int64(2));
    stats.waiting.due =
        static_cast<std::size_t>(counts.int64(3)) - stats.ready - stats.waiting.backoff;
    if (stats.ready > 0) stats.oldest_ready_at = counts.time(4);
  }
}

// Whoever held a lapsed one has lost it, though nobody has reaped it yet.
void count_leased(Connection& reader, std::string_view queue, TimePoint now, ByTopic& topics) {
  Statement rows = prepare(reader, queue, R"sql(
SELECT t.name, s.locked_until, s.due_at
  FROM oncebox_{queue}_state s JOIN oncebox_topic t ON t.id = s.topic
 WHERE s.stage = 3)sql");
  while (rows.step()) {
    TopicStats& stats = topics[rows.optional_text(0)];
    const TimePoint eligible_at =
        std::max(rows.time(1), rows.optional_time(2).value_or(rows.time(1)));
    if (rows.time(1) > now) {
      ++stats.leased;
    } else if (eligible_at > now) {
      ++stats.waiting.due;
    } else {
      ++stats.ready;
      take_earlier(stats.oldest_ready_at, eligible_at);
    }
  }
}

void count_others(Connection& reader, std::string_view queue, ByTopic& topics) {
  Statement counts = prepare(reader, queue, R"sql(
SELECT t.name, s.stage, count(*)
  FROM oncebox_{queue}_state s LEFT JOIN oncebox_topic t ON t.id = s.topic
 WHERE (s.stage IN (0, 2) OR s.stage = 6) GROUP BY s.topic, s.stage)sql");
  while (counts.step()) {
    TopicStats& stats = topics[counts.optional_text(0)];
    const auto count = static_cast<std::size_t>(counts.int64(2));
    const auto stage = static_cast<sql::Stage>(counts.int32(1));
    if (stage == sql::Stage::seen) stats.seen = count;
    if (stage == sql::Stage::blocked) stats.waiting.partition = count;
    if (stage == sql::Stage::without_content) stats.waiting.content = count;
  }
}

}  // namespace

std::optional<TimePoint> read_next_due(Connection& reader, std::string_view queue,
                                       const TopicSelection& topics, TimePoint now) {
  std::optional<TimePoint> earliest;
  TopicNames names(reader);
  Statement waiting = prepare(reader, queue, R"sql(
SELECT eligible_at FROM oncebox_{queue}_state
 WHERE stage = 1 AND topic = ?1 AND rank = ?2 AND eligible_at > ?3
 ORDER BY eligible_at LIMIT 1)sql");
  for (const LaneHead& head : LaneWalk(reader, queue).heads(names, topics)) {
    const TimePoint eligible_at{Duration{head.eligible_at}};
    if (eligible_at > now) {
      take_earlier(earliest, eligible_at);
      continue;
    }
    const ResetLater reset(waiting);
    waiting.bind(1, head.topic).bind(2, head.rank).bind(3, now);
    if (waiting.step()) take_earlier(earliest, waiting.time(0));
  }
  Statement leased = prepare(reader, queue, R"sql(
SELECT min(max(locked_until, coalesce(due_at, 0))) FROM oncebox_{queue}_state
 WHERE stage = 3 AND max(locked_until, coalesce(due_at, 0)) > ?1)sql");
  leased.bind(1, now);
  if (leased.step() && !leased.is_null(0)) take_earlier(earliest, leased.time(0));
  return earliest;
}

std::vector<WorkerRecord> read_workers(Connection& reader, std::string_view queue, TimePoint now) {
  Statement rows = prepare(reader, queue, R"sql(
SELECT w.name, coalesce(l.leases, 0), w.since, w.last_seen_at
  FROM oncebox_{queue}_worker w
  LEFT JOIN (SELECT worker, count(*) AS leases FROM oncebox_{queue}_state
              WHERE stage = 3 AND locked_until > ?1 GROUP BY worker) l ON l.worker = w.id
 WHERE l.leases IS NOT NULL OR w.last_seen_at > ?2
 ORDER BY l.leases IS NULL, w.last_seen_at DESC LIMIT ?3)sql");
  rows.bind(1, now).bind(2, now - kWorkerRetention).bind(3, limits::kMaxListItems);
  std::vector<WorkerRecord> workers;
  while (rows.step()) workers.push_back(sql::read_worker(rows));
  return workers;
}

QueueStats read_stats(Connection& reader, std::string_view queue, TimePoint now) {
  ByTopic topics;
  count_done(reader, queue, topics);
  count_dead(reader, queue, topics);
  count_exposed(reader, queue, now, topics);
  count_leased(reader, queue, now, topics);
  count_others(reader, queue, topics);
  QueueStats result;
  for (auto& [name, stats] : topics) {
    if (name) stats.topic = Topic(*name);
    result.topics.push_back(std::move(stats));
  }
  return result;
}

}  // namespace oncebox::sqlite
