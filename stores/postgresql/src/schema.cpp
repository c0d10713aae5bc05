#include "schema.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "oncebox/error.hpp"
#include "transaction.hpp"

namespace oncebox::postgresql {

namespace {

// What a sender gave stands in the wide `message` table, which is not touched again unless new
// content comes. Most messages come in batches, are claimed once, and are done: for them a row of
// `run` stands for up to 64 messages with consecutive ids that share one state, and a row of
// `done_run` for those that are done. Whatever is special about a message takes it out of its run:
// then its state stands in the narrow `work` table for as long as it is not done, and in `done`
// afterwards. `stage` (see oncebox/sql/stage.hpp) tells which of the partial indexes a row is in.
// That a time is not NULL is true of every row in such an index; it is said so that only statements
// which ask for that time can use it.
constexpr std::array kQueueTables{
    R"sql(CREATE SEQUENCE {numbers})sql",
    // The messages of a run have consecutive numbers, of which the sequence gives the first.
    R"sql(CREATE SEQUENCE {deliveries} INCREMENT BY 64)sql",
    R"sql(
CREATE TABLE {message} (
  id             bigint PRIMARY KEY,  -- in the order in which the keys were first stored
  first_seen_at  timestamptz NOT NULL,
  due_at         timestamptz,
  expires_at     timestamptz,
  key            uuid NOT NULL,       -- 16 bytes that stand for (source, message_id)
  priority       smallint NOT NULL DEFAULT 0,
  source         text COLLATE "C" NOT NULL,
  message_id     text COLLATE "C" NOT NULL,
  topic          text COLLATE "C",    -- NULL: never enqueued
  payload        bytea,               -- NULL: never enqueued
  headers        text,                -- JSON; NULL: none
  hash_algorithm text,
  hash           bytea,
  partition_key  text COLLATE "C"
))sql",
    R"sql(CREATE UNIQUE INDEX "{queue}_message_key" ON {message} (key))sql",
    R"sql(
CREATE TABLE {work} (
  id              bigint PRIMARY KEY,  -- the message
  enqueue_order   bigint NOT NULL,     -- 0: never enqueued
  eligible_at     timestamptz NOT NULL,
  last_seen_at    timestamptz NOT NULL,
  locked_until    timestamptz,
  delivery        bigint,
  due_at          timestamptz,
  expires_at      timestamptz,
  backoff_until   timestamptz,
  finished_at     timestamptz,         -- when it became dead
  revived_at      timestamptz,
  payload_bytes   integer NOT NULL,
  attempt         integer NOT NULL,
  deliveries      integer NOT NULL,
  lapses          integer NOT NULL,
  content_version integer NOT NULL,
  claimed_version integer NOT NULL,
  duplicates      integer NOT NULL,
  revivals        integer NOT NULL,
  stage           smallint NOT NULL,
  priority        smallint NOT NULL,
  owner           uuid,
  topic           text COLLATE "C",
  partition_key   text COLLATE "C",
  revival_reason  text,
  last_error      text
) WITH (fillfactor = 80, vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0))sql",
    R"sql(
CREATE INDEX "{queue}_work_claimable" ON {work} (stage, priority, eligible_at, enqueue_order)
  WHERE stage IN (1, 7) AND eligible_at IS NOT NULL)sql",
    R"sql(
CREATE INDEX "{queue}_work_leased" ON {work} (locked_until)
  WHERE stage = 3 AND locked_until IS NOT NULL)sql",
    R"sql(
CREATE INDEX "{queue}_work_expiring" ON {work} (expires_at)
  WHERE stage IN (1, 2, 7) AND expires_at IS NOT NULL)sql",
    R"sql(
CREATE INDEX "{queue}_work_partition" ON {work} (partition_key, stage, enqueue_order)
  WHERE partition_key IS NOT NULL AND stage IN (1, 2, 3, 7))sql",
    R"sql(
CREATE INDEX "{queue}_work_dead" ON {work} (finished_at) WHERE stage = 5)sql",
    R"sql(
CREATE TABLE {done} (
  id              bigint PRIMARY KEY,  -- the message
  finished_at     timestamptz NOT NULL,
  last_seen_at    timestamptz NOT NULL,
  enqueue_order   bigint NOT NULL,
  attempt         integer NOT NULL,
  deliveries      integer NOT NULL,
  lapses          integer NOT NULL,
  content_version integer NOT NULL,
  duplicates      integer NOT NULL,
  revivals        integer NOT NULL,
  revived_at      timestamptz,
  revival_reason  text,
  last_error      text
))sql",
    R"sql(CREATE INDEX "{queue}_done_finished" ON {done} (finished_at))sql",
    R"sql(
CREATE TABLE {run} (
  first_id      bigint PRIMARY KEY,
  last_id       bigint NOT NULL,
  seen_at       timestamptz NOT NULL,
  locked_until  timestamptz,
  delivery      bigint,             -- of the first message
  payload_bytes bigint NOT NULL DEFAULT 0,  -- with headers; of no use when leased
  stage         smallint NOT NULL,  -- exposed or leased
  priority      smallint NOT NULL,
  owner         uuid,
  topic         text COLLATE "C" NOT NULL
) WITH (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0))sql",
    R"sql(
CREATE INDEX "{queue}_run_claimable" ON {run} (priority, seen_at, first_id) WHERE stage = 1)sql",
    R"sql(
CREATE INDEX "{queue}_run_leased" ON {run} (locked_until)
  WHERE stage = 3 AND locked_until IS NOT NULL)sql",
    R"sql(
CREATE TABLE {done_run} (
  first_id    bigint PRIMARY KEY,
  last_id     bigint NOT NULL,
  seen_at     timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  topic       text COLLATE "C" NOT NULL
))sql",
    R"sql(CREATE INDEX "{queue}_done_run_finished" ON {done_run} (finished_at))sql",
    // What a message's life has made of it, wherever that stands.
    R"sql(
CREATE VIEW {state} AS
SELECT id, stage, enqueue_order, eligible_at, last_seen_at, owner, delivery, locked_until,
       finished_at, backoff_until, attempt, deliveries, lapses, content_version, claimed_version,
       duplicates, revivals, revived_at, revival_reason, last_error
  FROM {work}
UNION ALL
SELECT id, 4::smallint, enqueue_order, finished_at, last_seen_at, NULL, NULL, NULL,
       finished_at, NULL, attempt, deliveries, lapses, content_version, 0,
       duplicates, revivals, revived_at, revival_reason, last_error
  FROM {done}
UNION ALL
SELECT g.id, r.stage, g.id, r.seen_at, r.seen_at, r.owner, r.delivery + (g.id - r.first_id),
       r.locked_until, NULL, NULL, 0, r.stage / 3, 0, 1, r.stage / 3, 0, 0, NULL, NULL, NULL
  FROM {run} r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id)
UNION ALL
SELECT g.id, 4::smallint, g.id, r.finished_at, r.seen_at, NULL, NULL, NULL,
       r.finished_at, NULL, 0, 1, 0, 1, 0, 0, 0, NULL, NULL, NULL
  FROM {done_run} r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id))sql",
    // How many became done, so that nobody has to count millions of rows. Each call adds a row of
    // its own, so that none waits for another; now and then they are added up. No topic: never
    // enqueued.
    R"sql(
CREATE TABLE {done_count} (
  topic text COLLATE "C",
  count bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000))sql",
    // The priorities that messages have had, so that a claim knows where to look.
    R"sql(CREATE TABLE {priority} (priority smallint PRIMARY KEY))sql",
    R"sql(INSERT INTO {priority} (priority) VALUES (0))sql",
};

constexpr std::array kSharedTables{
    R"sql(CREATE TABLE {version} (version integer NOT NULL))sql",
    R"sql(INSERT INTO {version} (version) VALUES (0))sql",
    R"sql(
CREATE TABLE {key} (
  hash          uuid PRIMARY KEY,  -- 16 bytes that stand for the key
  first_seen_at timestamptz NOT NULL,
  last_seen_at  timestamptz NOT NULL,
  keep_until    timestamptz NOT NULL,
  lease_until   timestamptz,
  attempts      integer NOT NULL,
  status        smallint NOT NULL,
  lease_id      uuid,
  key           text COLLATE "C" NOT NULL,
  owner         text NOT NULL,
  result        bytea,
  error         text
) WITH (fillfactor = 80))sql",
    R"sql(CREATE INDEX "{prefix}key_keep_until" ON {key} (keep_until))sql",
};

// What operators replaced. Such a message counts at least one revival, so it stands in `work` or
// `done`, never in a run.
constexpr const char* kPastContents = R"sql(
CREATE TABLE {past_content} (
  id              bigint NOT NULL,  -- the message
  content_version integer NOT NULL,
  replaced_at     timestamptz NOT NULL,
  replaced_by     text NOT NULL,
  reason          text NOT NULL,
  hash_algorithm  text,
  hash            bytea,
  payload         bytea NOT NULL,
  PRIMARY KEY (id, content_version)
))sql";

constexpr std::array kAuditTrail{
    R"sql(
CREATE TABLE {audit} (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  begun_at    timestamptz NOT NULL,
  finished_at timestamptz,
  changed     bigint,
  actor       text COLLATE "C" NOT NULL,
  action      text COLLATE "C" NOT NULL,
  part        text NOT NULL,
  subject     text NOT NULL,
  reason      text NOT NULL,
  status      text,  -- NULL: under way, or nobody lived to tell
  detail      text
))sql",
    R"sql(CREATE INDEX "{prefix}audit_begun" ON {audit} (begun_at))sql",
};

// A change of a rule advances the version, so that every process sees that there was one.
constexpr std::array kTopicPolicies{
    R"sql(
CREATE TABLE {topic_policy} (
  queue    text COLLATE "C" NOT NULL,
  pattern  text COLLATE "C" NOT NULL,
  is_exact integer NOT NULL,  -- 0: the pattern's last character is a * that stands for more
  policy   text NOT NULL,     -- JSON
  spent_until bigint NOT NULL DEFAULT 0,  -- of a limited rate, see LimitUse
  PRIMARY KEY (queue, pattern, is_exact)
))sql",
    R"sql(CREATE TABLE {policy_version} (version bigint NOT NULL))sql",
    R"sql(INSERT INTO {policy_version} (version) VALUES (1))sql",
};

// A lease has the number of its worker and when it began; in `work` both are of no meaning where
// there is no lease, so that only claims write them.
constexpr std::array kWorkerTables{
    R"sql(ALTER TABLE {work} ADD COLUMN leased_at timestamptz, ADD COLUMN worker integer)sql",
    R"sql(ALTER TABLE {run} ADD COLUMN leased_at timestamptz, ADD COLUMN worker integer)sql",
    R"sql(
CREATE TABLE {worker} (
  id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  since        timestamptz NOT NULL,
  last_seen_at timestamptz NOT NULL,
  name         text COLLATE "C" NOT NULL UNIQUE
) WITH (fillfactor = 50))sql",
    R"sql(
CREATE OR REPLACE VIEW {state} AS
SELECT id, stage, enqueue_order, eligible_at, last_seen_at, owner, delivery, locked_until,
       finished_at, backoff_until, attempt, deliveries, lapses, content_version, claimed_version,
       duplicates, revivals, revived_at, revival_reason, last_error, leased_at, worker
  FROM {work}
UNION ALL
SELECT id, 4::smallint, enqueue_order, finished_at, last_seen_at, NULL, NULL, NULL,
       finished_at, NULL, attempt, deliveries, lapses, content_version, 0,
       duplicates, revivals, revived_at, revival_reason, last_error, NULL, NULL
  FROM {done}
UNION ALL
SELECT g.id, r.stage, g.id, r.seen_at, r.seen_at, r.owner, r.delivery + (g.id - r.first_id),
       r.locked_until, NULL, NULL, 0, r.stage / 3, 0, 1, r.stage / 3, 0, 0, NULL, NULL, NULL,
       r.leased_at, r.worker
  FROM {run} r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id)
UNION ALL
SELECT g.id, 4::smallint, g.id, r.finished_at, r.seen_at, NULL, NULL, NULL,
       r.finished_at, NULL, 0, 1, 0, 1, 0, 0, 0, NULL, NULL, NULL, NULL, NULL
  FROM {done_run} r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id))sql",
};

// Nothing is written here for a message that succeeds at once; so the others stand in `work` or
// `done`, never in a run.
constexpr const char* kAttempts = R"sql(
CREATE TABLE {attempt} (
  id         bigint NOT NULL,  -- the message
  begun_at   timestamptz,
  ended_at   timestamptz NOT NULL,
  number     integer NOT NULL,
  outcome    integer NOT NULL,  -- see oncebox/sql/attempt_code.hpp
  worker     text COLLATE "C",
  error_kind text NOT NULL,
  error      text NOT NULL,
  PRIMARY KEY (id, number)
))sql";

// A change of an endpoint advances the version, so that every process sees that there was one.
constexpr std::array kEndpoints{
    R"sql(
CREATE TABLE {endpoint} (
  name     text COLLATE "C" PRIMARY KEY,
  endpoint text NOT NULL,  -- JSON
  status   text NOT NULL   -- JSON
))sql",
    R"sql(CREATE TABLE {endpoint_version} (version bigint NOT NULL))sql",
    R"sql(INSERT INTO {endpoint_version} (version) VALUES (1))sql",
};

// All statements that lead from a version to the next one.
std::vector<std::string> steps_to_version_1(const Names& names) {
  std::vector<std::string> steps;
  for (const char* const sql : kSharedTables) steps.push_back(names.fill(sql));
  for (const char* const queue : {"inbox", "outbox"}) {
    for (const char* const sql : kQueueTables) steps.push_back(names.fill(sql, queue));
  }
  return steps;
}

std::vector<std::string> steps_to_version_2(const Names& names) {
  return {names.fill(kPastContents, "inbox"), names.fill(kPastContents, "outbox")};
}

std::vector<std::string> steps_to_version_3(const Names& names) {
  std::vector<std::string> steps;
  for (const char* const sql : kAuditTrail) steps.push_back(names.fill(sql));
  return steps;
}

std::vector<std::string> steps_to_version_4(const Names& names) {
  std::vector<std::string> steps;
  for (const char* const sql : kTopicPolicies) steps.push_back(names.fill(sql));
  return steps;
}

std::vector<std::string> steps_to_version_5(const Names& names) {
  std::vector<std::string> steps;
  for (const char* const queue : {"inbox", "outbox"}) {
    for (const char* const sql : kWorkerTables) steps.push_back(names.fill(sql, queue));
    steps.push_back(names.fill(kAttempts, queue));
  }
  return steps;
}

std::vector<std::string> steps_to_version_6(const Names& names) {
  constexpr const char* kQueue = "deliveries";
  std::vector<std::string> steps;
  for (const char* const sql : kQueueTables) steps.push_back(names.fill(sql, kQueue));
  steps.push_back(names.fill(kPastContents, kQueue));
  for (const char* const sql : kWorkerTables) steps.push_back(names.fill(sql, kQueue));
  steps.push_back(names.fill(kAttempts, kQueue));
  for (const char* const sql : kEndpoints) steps.push_back(names.fill(sql));
  return steps;
}

// The n-th leads from version n to n + 1.
constexpr std::array<std::vector<std::string> (*)(const Names&), kSchemaVersion> kMigrations{
    steps_to_version_1, steps_to_version_2, steps_to_version_3,
    steps_to_version_4, steps_to_version_5, steps_to_version_6};

void run_each(Transaction& transaction, const std::vector<std::string>& steps) {
  static const Parameters none;
  std::vector<Statement> statements;
  statements.reserve(steps.size());
  for (const std::string& sql : steps) statements.push_back({"", sql});
  std::vector<Command> commands;
  commands.reserve(steps.size());
  for (const Statement& statement : statements) commands.push_back({&statement, &none});
  transaction.run_all(commands);
}

void run_one(Transaction& transaction, const std::string& sql) { run_each(transaction, {sql}); }

int read_version(Transaction& transaction, const Names& names) {
  // Not by to_regclass(): a session may remember that there was no such table, and would not see
  // the one that another process made while this one waited for the lock.
  const Statement present{"", R"sql(
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = $1::text::name AND c.relname = $2::text::name))sql"};
  const Parameters table = Parameters().add(names.schema()).add(names.fill("{prefix}schema"));
  if (!transaction.run(present, table).boolean(0, 0)) return 0;
  const Statement version{"", names.fill("SELECT version FROM {version}")};
  const Result result = transaction.run(version, Parameters());
  if (result.rows() != 1) {
    throw Error(ErrorCode::corrupt, "the table of the schema's version does not have one row");
  }
  return result.int32(0, 0);
}

void create_schema_if_missing(Transaction& transaction, const Names& names) {
  // CREATE SCHEMA IF NOT EXISTS would need the right to create one even where there is one.
  const Statement present{
      "", "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text::name)"};
  if (transaction.run(present, Parameters().add(names.schema())).boolean(0, 0)) return;
  run_one(transaction, names.fill("CREATE SCHEMA {schema}"));
}

[[noreturn]] void refuse_newer(int version) {
  throw Error(ErrorCode::conflict,
              fmt::format("the database has schema version {}, this library knows {}: use a newer "
                          "version of Oncebox",
                          version, kSchemaVersion));
}

}  // namespace

int schema_version(Connection& connection, const Names& names, Deadline deadline) {
  Transaction transaction(connection, deadline);
  const int version = read_version(transaction, names);
  transaction.commit();
  return version;
}

MigrationResult migrate(Connection& connection, const Names& names, Deadline deadline) {
  Transaction transaction(connection, deadline);
  const Statement lock{"", "SELECT pg_advisory_xact_lock($1::bigint)"};
  // One lock for all prefixes: two of them may be about to create the same schema.
  const Names schema_only(names.schema(), "");
  transaction.run(lock, Parameters().add(schema_only.lock_number("migration")));
  const int from = read_version(transaction, names);
  if (from > kSchemaVersion) refuse_newer(from);
  if (from == 0) create_schema_if_missing(transaction, names);
  for (int version = from; version < kSchemaVersion; ++version) {
    run_each(transaction, kMigrations.at(static_cast<std::size_t>(version))(names));
  }
  if (from < kSchemaVersion) {
    run_one(transaction,
            names.fill(fmt::format("UPDATE {{version}} SET version = {}", kSchemaVersion)));
  }
  transaction.commit();
  return {.from_version = from, .to_version = kSchemaVersion};
}

void require_current_schema(Connection& connection, const Names& names, Deadline deadline) {
  const int version = schema_version(connection, names, deadline);
  if (version == kSchemaVersion) return;
  if (version > kSchemaVersion) refuse_newer(version);
  const std::string what =
      version == 0 ? "no Oncebox schema" : fmt::format("schema version {}", version);
  throw Error(ErrorCode::conflict,
              fmt::format("the database has {} in \"{}\", this library needs version {}, and "
                          "schema deployment is off: migrate the database first",
                          what, names.schema(), kSchemaVersion));
}

}  // namespace oncebox::postgresql
