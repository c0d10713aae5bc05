#include "schema.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

#include "oncebox/error.hpp"

namespace oncebox::sqlite {

namespace {

// What is written once stands in the wide `message` table and is not touched again unless new
// content comes; what a message's life changes stands in the narrow `state` table, so that a claim
// or settlement of hundreds of messages writes a few pages. `stage` (see oncebox/sql/stage.hpp)
// tells which of the partial indexes a row is in: what is done stands in none that a claim looks
// at.
constexpr const char* kQueueTables = R"sql(
CREATE TABLE oncebox_{queue}_message (
  id             INTEGER PRIMARY KEY,  -- in the order in which the keys were first stored
  segment        INTEGER NOT NULL,     -- the part of the index of keys; see key_index.hpp
  key            BLOB NOT NULL,        -- 16 bytes that stand for (source, message_id)
  source         TEXT NOT NULL,
  message_id     TEXT NOT NULL,
  first_seen_at  INTEGER NOT NULL,
  payload        BLOB,                 -- NULL: never enqueued
  headers        TEXT,                 -- JSON; NULL: none
  hash_algorithm TEXT,
  hash           BLOB
) STRICT;

CREATE UNIQUE INDEX oncebox_{queue}_message_key ON oncebox_{queue}_message (segment, key);

CREATE TABLE oncebox_{queue}_state (
  id              INTEGER PRIMARY KEY,  -- the message
  stage           INTEGER NOT NULL,
  topic           INTEGER,
  rank            INTEGER NOT NULL,     -- the negative priority: lower goes first
  eligible_at     INTEGER NOT NULL,
  enqueue_order   INTEGER NOT NULL,     -- 0: never enqueued
  attempt         INTEGER NOT NULL,
  deliveries      INTEGER NOT NULL,
  lapses          INTEGER NOT NULL,
  content_version INTEGER NOT NULL,
  claimed_version INTEGER NOT NULL,
  duplicates      INTEGER NOT NULL,
  last_seen_at    INTEGER NOT NULL,
  owner           BLOB,
  delivery        INTEGER,
  locked_until    INTEGER,
  finished_at     INTEGER,
  due_at          INTEGER,
  expires_at      INTEGER,
  backoff_until   INTEGER NOT NULL,
  partition_key   TEXT,
  revivals        INTEGER NOT NULL,
  revived_at      INTEGER,
  revival_reason  TEXT,
  last_error      TEXT
) STRICT;

-- With the stage, so that a claim chooses from the index alone.
CREATE INDEX oncebox_{queue}_exposed
  ON oncebox_{queue}_state (topic, rank, eligible_at, enqueue_order, stage) WHERE stage = 1;
CREATE INDEX oncebox_{queue}_leased
  ON oncebox_{queue}_state (locked_until) WHERE stage = 3;
CREATE INDEX oncebox_{queue}_finished
  ON oncebox_{queue}_state (stage, finished_at) WHERE stage IN (4, 5);
CREATE INDEX oncebox_{queue}_other
  ON oncebox_{queue}_state (stage, topic) WHERE stage IN (0, 2, 6);
CREATE INDEX oncebox_{queue}_expiring
  ON oncebox_{queue}_state (expires_at) WHERE stage IN (1, 2) AND expires_at IS NOT NULL;
CREATE INDEX oncebox_{queue}_partition
  ON oncebox_{queue}_state (partition_key, stage, enqueue_order)
  WHERE partition_key IS NOT NULL AND stage IN (1, 2, 3);

INSERT INTO oncebox_counter (queue, last_id, last_delivery, segment, segment_keys)
VALUES ('{queue}', 0, 0, 0, 0) ON CONFLICT DO NOTHING;
)sql";

constexpr const char* kSharedTables = R"sql(
CREATE TABLE oncebox_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO oncebox_schema (version) VALUES (0);

-- Numbers that are never given twice, not even after what had them is gone.
CREATE TABLE oncebox_counter (
  queue         TEXT PRIMARY KEY,
  last_id       INTEGER NOT NULL,
  last_delivery INTEGER NOT NULL,
  segment       INTEGER NOT NULL,  -- where new keys go
  segment_keys  INTEGER NOT NULL   -- how many went there
) STRICT;

CREATE TABLE oncebox_topic (
  id   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

-- How many messages are done, so that nobody has to count millions of rows. Topic 0: none.
CREATE TABLE oncebox_done_count (
  queue TEXT NOT NULL,
  topic INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (queue, topic)
) STRICT;

CREATE TABLE oncebox_key (
  id            INTEGER PRIMARY KEY,
  hash          BLOB NOT NULL UNIQUE,  -- 16 bytes that stand for the key
  key           TEXT NOT NULL,
  status        INTEGER NOT NULL,
  attempts      INTEGER NOT NULL,
  first_seen_at INTEGER NOT NULL,
  last_seen_at  INTEGER NOT NULL,
  keep_until    INTEGER NOT NULL,
  owner         TEXT NOT NULL,
  lease_id      BLOB,
  lease_until   INTEGER,
  result        BLOB,
  error         TEXT
) STRICT;

CREATE INDEX oncebox_key_keep_until ON oncebox_key (keep_until);
)sql";

// SQLite looks a value up in a list of three or more by making a table of the list, in every
// statement that has to decide whether a row is in the index. That was more than a third of the
// instructions of an enqueue.
constexpr const char* kIndexesWithoutLists = R"sql(
DROP INDEX oncebox_{queue}_other;
CREATE INDEX oncebox_{queue}_other
  ON oncebox_{queue}_state (stage, topic) WHERE stage IN (0, 2) OR stage = 6;
DROP INDEX oncebox_{queue}_partition;
CREATE INDEX oncebox_{queue}_partition
  ON oncebox_{queue}_state (partition_key, stage, enqueue_order)
  WHERE partition_key IS NOT NULL AND stage BETWEEN 1 AND 3;
)sql";

// What operators replaced. The state of such a message counts at least one revival.
constexpr const char* kPastContents = R"sql(
CREATE TABLE oncebox_{queue}_past_content (
  id              INTEGER NOT NULL,  -- the message
  content_version INTEGER NOT NULL,
  replaced_at     INTEGER NOT NULL,
  replaced_by     TEXT NOT NULL,
  reason          TEXT NOT NULL,
  hash_algorithm  TEXT,
  hash            BLOB,
  payload         BLOB NOT NULL,
  PRIMARY KEY (id, content_version)
) STRICT;
)sql";

// AUTOINCREMENT: a number of an entry that is gone must not come to mean another.
constexpr const char* kAuditTrail = R"sql(
CREATE TABLE oncebox_audit (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  actor       TEXT NOT NULL,
  action      TEXT NOT NULL,
  part        TEXT NOT NULL,
  subject     TEXT NOT NULL,
  reason      TEXT NOT NULL,
  begun_at    INTEGER NOT NULL,
  finished_at INTEGER,
  status      TEXT,     -- NULL: under way, or nobody lived to tell
  changed     INTEGER,
  detail      TEXT
) STRICT;

CREATE INDEX oncebox_audit_begun ON oncebox_audit (begun_at);
)sql";

// A change of a rule advances the version, so that every process sees that there was one.
constexpr const char* kTopicPolicies = R"sql(
CREATE TABLE oncebox_topic_policy (
  queue    TEXT NOT NULL,
  pattern  TEXT NOT NULL,
  is_exact INTEGER NOT NULL,  -- 0: the pattern's last character is a * that stands for more
  policy   TEXT NOT NULL,     -- JSON
  spent_until INTEGER NOT NULL DEFAULT 0,  -- of a limited rate, see LimitUse
  PRIMARY KEY (queue, pattern, is_exact)
) STRICT;

CREATE TABLE oncebox_policy_version (version INTEGER NOT NULL) STRICT;
INSERT INTO oncebox_policy_version (version) VALUES (1);
)sql";

// A lease has the number of its worker and when it began; both are of no meaning where there is no
// lease, so that only claims write them.
constexpr const char* kWorkerTables = R"sql(
ALTER TABLE oncebox_{queue}_state ADD COLUMN leased_at INTEGER;
ALTER TABLE oncebox_{queue}_state ADD COLUMN worker INTEGER;

CREATE TABLE oncebox_{queue}_worker (
  id           INTEGER PRIMARY KEY,
  name         TEXT NOT NULL UNIQUE,
  since        INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL
) STRICT;
)sql";

// Nothing is written here for a message that succeeds at once.
constexpr const char* kAttempts = R"sql(
CREATE TABLE oncebox_{queue}_attempt (
  id         INTEGER NOT NULL,  -- the message
  number     INTEGER NOT NULL,
  begun_at   INTEGER,
  ended_at   INTEGER NOT NULL,
  outcome    INTEGER NOT NULL,  -- see oncebox/sql/attempt_code.hpp
  worker     TEXT,
  error_kind TEXT NOT NULL,
  error      TEXT NOT NULL,
  PRIMARY KEY (id, number)
) STRICT;
)sql";

// A change of an endpoint advances the version, so that every process sees that there was one.
constexpr const char* kEndpoints = R"sql(
CREATE TABLE oncebox_endpoint (
  name     TEXT PRIMARY KEY,
  endpoint TEXT NOT NULL,  -- JSON
  status   TEXT NOT NULL   -- JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE oncebox_endpoint_version (version INTEGER NOT NULL) STRICT;
INSERT INTO oncebox_endpoint_version (version) VALUES (1);
)sql";

void execute_for_queue(Connection& connection, std::string_view queue, const char* sql) {
  connection.execute(fmt::format(fmt::runtime(sql), fmt::arg("queue", queue)));
}

/// For those that there were from the beginning.
void execute_for_queues(Connection& connection, const char* sql) {
  for (const std::string_view queue : {"inbox", "outbox"}) {
    execute_for_queue(connection, queue, sql);
  }
}

void create_version_1(Connection& connection) {
  connection.execute(kSharedTables);
  execute_for_queues(connection, kQueueTables);
}

void bring_to_version_2(Connection& connection) {
  execute_for_queues(connection, kIndexesWithoutLists);
}

void bring_to_version_3(Connection& connection) { execute_for_queues(connection, kPastContents); }

void bring_to_version_4(Connection& connection) { connection.execute(kAuditTrail); }

void bring_to_version_5(Connection& connection) { connection.execute(kTopicPolicies); }

void bring_to_version_6(Connection& connection) {
  execute_for_queues(connection, kWorkerTables);
  execute_for_queues(connection, kAttempts);
}

void bring_to_version_7(Connection& connection) {
  for (const char* const sql :
       {kQueueTables, kIndexesWithoutLists, kPastContents, kWorkerTables, kAttempts}) {
    execute_for_queue(connection, "deliveries", sql);
  }
  connection.execute(kEndpoints);
}

// The n-th brings version n to n + 1.
constexpr std::array<void (*)(Connection&), kSchemaVersion> kMigrations{
    create_version_1,   bring_to_version_2, bring_to_version_3, bring_to_version_4,
    bring_to_version_5, bring_to_version_6, bring_to_version_7};

[[noreturn]] void refuse_newer(int version) {
  throw Error(ErrorCode::conflict,
              fmt::format("the database has schema version {}, this library knows {}: use a newer "
                          "version of Oncebox",
                          version, kSchemaVersion));
}

[[noreturn]] void refuse_older(const std::string& what) {
  throw Error(ErrorCode::conflict,
              fmt::format("the database has {}, this library needs schema version {}, and schema "
                          "deployment is off: migrate the database first",
                          what, kSchemaVersion));
}

}  // namespace

int schema_version(Connection& connection) {
  const bool present = connection.query_integer(
                           "SELECT count(*) FROM sqlite_master "
                           "WHERE type = 'table' AND name = 'oncebox_schema'") > 0;
  if (!present) return 0;
  return static_cast<int>(connection.query_integer("SELECT version FROM oncebox_schema"));
}

MigrationResult migrate(Connection& connection) {
  connection.execute("BEGIN IMMEDIATE");
  try {
    const int from = schema_version(connection);
    if (from > kSchemaVersion) refuse_newer(from);
    for (int version = from; version < kSchemaVersion; ++version) {
      kMigrations.at(static_cast<std::size_t>(version))(connection);
    }
    if (from < kSchemaVersion) {
      connection.execute(fmt::format("UPDATE oncebox_schema SET version = {}", kSchemaVersion));
    }
    connection.execute("COMMIT");
    return {.from_version = from, .to_version = kSchemaVersion};
  } catch (...) {
    if (connection.in_transaction()) connection.execute("ROLLBACK");
    throw;
  }
}

void refuse_missing_schema() { refuse_older("no Oncebox schema"); }

void require_current_schema(Connection& connection) {
  const int version = schema_version(connection);
  if (version == kSchemaVersion) return;
  if (version > kSchemaVersion) refuse_newer(version);
  if (version == 0) refuse_missing_schema();
  refuse_older(fmt::format("schema version {}", version));
}

}  // namespace oncebox::sqlite
