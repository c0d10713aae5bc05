#include "raw_postgresql.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace oncebox::bench {

namespace {

constexpr const char* kEnqueue = R"sql(
WITH fresh AS (
  INSERT INTO oncebox_inbox_message
         (id, key, source, message_id, first_seen_at, topic, payload)
  SELECT (SELECT nextval('oncebox_inbox_numbers')) * 16384 + u.place, u.key, u.source, u.message_id,
         now(), u.topic, u.payload
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[])
         WITH ORDINALITY u (key, source, message_id, topic, payload, place)
  ON CONFLICT (key) DO NOTHING
  RETURNING id, topic, octet_length(payload) AS payload_bytes)
INSERT INTO oncebox_inbox_work
       (id, enqueue_order, eligible_at, last_seen_at, payload_bytes, attempt, deliveries, lapses,
        content_version, claimed_version, duplicates, revivals, stage, priority, topic)
SELECT id, id, now(), now(), payload_bytes, 0, 0, 0, 1, 0, 0, 0, 1, 0, topic FROM fresh)sql";

constexpr const char* kClaim = R"sql(
WITH claimed AS (
  UPDATE oncebox_inbox_work
     SET stage = 3, owner = $2::uuid, delivery = nextval('oncebox_inbox_deliveries'),
         locked_until = now() + interval '30 s', deliveries = deliveries + 1,
         claimed_version = content_version
   WHERE ctid = ANY(ARRAY(
     SELECT ctid FROM oncebox_inbox_work
      WHERE stage = 1 AND priority = 0 AND eligible_at <= now()
      ORDER BY eligible_at, enqueue_order LIMIT $1::integer FOR UPDATE SKIP LOCKED))
  RETURNING id, attempt)
SELECT m.id, m.source, m.message_id, m.topic, m.payload, c.attempt
  FROM claimed c JOIN oncebox_inbox_message m ON m.id = c.id)sql";

constexpr const char* kAcknowledge = R"sql(
WITH acknowledged AS (
  DELETE FROM oncebox_inbox_work WHERE id = ANY($1::bigint[]) AND owner = $2::uuid
  RETURNING id, last_seen_at, enqueue_order, attempt, deliveries, lapses, content_version,
            duplicates, revivals)
INSERT INTO oncebox_inbox_done
       (id, finished_at, last_seen_at, enqueue_order, attempt, deliveries, lapses,
        content_version, duplicates, revivals)
SELECT id, now(), last_seen_at, enqueue_order, attempt, deliveries, lapses, content_version,
       duplicates, revivals
  FROM acknowledged)sql";

constexpr std::int64_t kRunLength = 64;

constexpr const char* kEnqueueRuns = R"sql(
WITH number AS MATERIALIZED (
  SELECT nextval('oncebox_inbox_numbers') * 16384 AS first
   WHERE NOT EXISTS (SELECT FROM oncebox_inbox_message WHERE key = ANY($1::uuid[]))),
fresh AS (
  INSERT INTO oncebox_inbox_message
         (id, key, source, message_id, first_seen_at, topic, payload)
  SELECT n.first + u.place, u.key, u.source, u.message_id, now(), u.topic, u.payload
    FROM number n
   CROSS JOIN unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[])
              WITH ORDINALITY u (key, source, message_id, topic, payload, place))
INSERT INTO oncebox_inbox_run (first_id, last_id, seen_at, stage, priority, topic)
SELECT n.first + g, n.first + least(g + 63, cardinality($1)), now(), 1, 0, ($4::text[])[1]
  FROM number n CROSS JOIN generate_series(1, cardinality($1), 64) g)sql";

constexpr const char* kClaimRuns = R"sql(
WITH claimed AS (
  UPDATE oncebox_inbox_run
     SET stage = 3, owner = $2::uuid, delivery = nextval('oncebox_inbox_deliveries'),
         locked_until = now() + interval '30 s'
   WHERE ctid = ANY(ARRAY(
     SELECT ctid FROM oncebox_inbox_run
      WHERE stage = 1 AND priority = 0 AND seen_at <= now()
      ORDER BY seen_at, first_id LIMIT $1::integer FOR UPDATE SKIP LOCKED))
  RETURNING first_id, last_id, delivery)
SELECT c.first_id, m.source, m.message_id, m.topic, m.payload, c.delivery
  FROM claimed c
 CROSS JOIN LATERAL (SELECT * FROM oncebox_inbox_message
                      WHERE id BETWEEN c.first_id AND c.last_id OFFSET 0) m)sql";

constexpr const char* kAcknowledgeRuns = R"sql(
WITH acknowledged AS (
  DELETE FROM oncebox_inbox_run WHERE first_id = ANY($1::bigint[]) AND owner = $2::uuid
  RETURNING first_id, last_id, seen_at, topic)
INSERT INTO oncebox_inbox_done_run (first_id, last_id, seen_at, finished_at, topic)
SELECT first_id, last_id, seen_at, now(), topic FROM acknowledged)sql";

struct Claimed {
  std::int64_t id;
  std::string source;
  std::string message_id;
  std::string topic;
  std::string payload;
};

std::string key_of(const Message& message) {
  const std::hash<std::string> hash;
  return to_binary(static_cast<std::int64_t>(hash(message.key.message_id.str()))) +
         to_binary(static_cast<std::int64_t>(hash(message.key.source.str())));
}

}  // namespace

RawPostgresql::RawPostgresql(const std::string& url, const std::string& schema, Layout layout)
    : session_(url), layout_(layout) {
  session_.run(fmt::format("SET search_path = {}", schema));
  // A table that was just filled has no statistics that the planner could go by.
  session_.run("SET plan_cache_mode = force_generic_plan");
  session_.run("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off");
  const bool runs = layout == Layout::runs;
  session_.prepare("enqueue", runs ? kEnqueueRuns : kEnqueue);
  session_.prepare("claim", runs ? kClaimRuns : kClaim);
  session_.prepare("acknowledge", runs ? kAcknowledgeRuns : kAcknowledge);
}

void RawPostgresql::enqueue(std::span<const Message> messages) {
  BinaryArray keys(BinaryArray::kUuid);
  BinaryArray sources(BinaryArray::kText);
  BinaryArray ids(BinaryArray::kText);
  BinaryArray topics(BinaryArray::kText);
  BinaryArray payloads(BinaryArray::kBytea);
  for (const Message& message : messages) {
    keys.add(key_of(message));
    sources.add(message.key.source.str());
    ids.add(message.key.message_id.str());
    topics.add(message.topic.str());
    payloads.add(message.payload.bytes());
  }
  session_.execute("enqueue", std::array{keys.take(), sources.take(), ids.take(), topics.take(),
                                         payloads.take()});
}

std::size_t RawPostgresql::claim_and_acknowledge(std::size_t batch) {
  const std::string owner(16, 'o');
  std::vector<Claimed> claimed;
  claimed.reserve(batch);
  BinaryArray ids(BinaryArray::kBigint);
  const auto limit = layout_ == Layout::runs ? (batch + kRunLength / 2) / kRunLength : batch;
  const PgRows rows =
      session_.execute("claim", std::array{to_binary(static_cast<std::int32_t>(limit)), owner});
  for (int row = 0; row < rows.count(); ++row) {
    const std::int64_t id = rows.bigint(row, 0);
    if (claimed.empty() || claimed.back().id != id) ids.add(id);
    claimed.push_back({id, std::string(rows.bytes(row, 1)), std::string(rows.bytes(row, 2)),
                       std::string(rows.bytes(row, 3)), std::string(rows.bytes(row, 4))});
  }
  if (!claimed.empty()) session_.execute("acknowledge", std::array{ids.take(), owner});
  return claimed.size();
}

PlainTable::PlainTable(const std::string& url, const std::string& schema, std::size_t connections) {
  sessions_.reserve(connections);
  for (std::size_t i = 0; i < connections; ++i) {
    PgSession& session = sessions_.emplace_back(url);
    session.run(fmt::format("SET search_path = {}", schema));
    if (i == 0) {
      session.run(R"sql(
CREATE TABLE plain_inbox (
  source     text NOT NULL,
  message_id text NOT NULL,
  topic      text NOT NULL,
  payload    bytea NOT NULL,
  status     smallint NOT NULL DEFAULT 1,
  attempts   integer NOT NULL DEFAULT 0,
  due_at     timestamptz NOT NULL DEFAULT now(),
  first_seen timestamptz NOT NULL DEFAULT now(),
  last_seen  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (source, message_id));
CREATE INDEX ON plain_inbox (due_at) WHERE status = 1)sql");
    }
    session.prepare("enqueue", R"sql(
INSERT INTO plain_inbox (source, message_id, topic, payload)
VALUES ($1::text, $2::text, $3::text, $4::bytea)
    ON CONFLICT (source, message_id) DO UPDATE SET last_seen = now())sql");
  }
}

void PlainTable::enqueue_singly(std::span<const Message> messages) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  threads.reserve(sessions_.size());
  for (PgSession& session : sessions_) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < messages.size(); at = next++) {
        const Message& message = messages[at];
        session.execute("enqueue",
                        std::array{message.key.source.str(), message.key.message_id.str(),
                                   message.topic.str(), std::string(message.payload.bytes())});
      }
    });
  }
}

PgmqQueue::PgmqQueue(const std::string& url) : session_(url) {
  session_.run("SELECT pgmq.create('bench')");
  session_.run("SELECT pgmq.purge_queue('bench')");
  session_.run("TRUNCATE pgmq.a_bench");
  session_.prepare("send", "SELECT pgmq.send_batch('bench', $1::jsonb[])");
  session_.prepare("read", "SELECT msg_id, message FROM pgmq.read('bench', 30, $1::integer)");
  session_.prepare("archive", "SELECT count(*) FROM pgmq.archive('bench', $1::bigint[])");
}

void PgmqQueue::enqueue(std::span<const Message> messages) {
  BinaryArray payloads(BinaryArray::kJsonb);
  for (const Message& message : messages) {
    payloads.add("\1" + std::string(message.payload.bytes()));  // the version of the form
  }
  session_.execute("send", std::array{payloads.take()});
}

std::size_t PgmqQueue::read_and_archive(std::size_t batch) {
  const PgRows rows =
      session_.execute("read", std::array{to_binary(static_cast<std::int32_t>(batch))});
  BinaryArray ids(BinaryArray::kBigint);
  std::vector<std::string> payloads;
  for (int row = 0; row < rows.count(); ++row) {
    ids.add(rows.bigint(row, 0));
    payloads.emplace_back(rows.bytes(row, 1));
  }
  if (rows.count() > 0) session_.execute("archive", std::array{ids.take()});
  return static_cast<std::size_t>(rows.count());
}

}  // namespace oncebox::bench
