-- The schema of version 3 as it was released. Not to be changed: it is what databases out there
-- have. A semicolon at the end of a line ends a statement.

CREATE SCHEMA "{schema}";

CREATE TABLE "{schema}"."oncebox_schema" (version integer NOT NULL);

INSERT INTO "{schema}"."oncebox_schema" (version) VALUES (0);

CREATE TABLE "{schema}"."oncebox_key" (
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
) WITH (fillfactor = 80);

CREATE INDEX "oncebox_key_keep_until" ON "{schema}"."oncebox_key" (keep_until);

CREATE SEQUENCE "{schema}"."oncebox_inbox_numbers";

CREATE SEQUENCE "{schema}"."oncebox_inbox_deliveries" INCREMENT BY 64;

CREATE TABLE "{schema}"."oncebox_inbox_message" (
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
);

CREATE UNIQUE INDEX "oncebox_inbox_message_key" ON "{schema}"."oncebox_inbox_message" (key);

CREATE TABLE "{schema}"."oncebox_inbox_work" (
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
        autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX "oncebox_inbox_work_claimable" ON "{schema}"."oncebox_inbox_work" (stage, priority, eligible_at, enqueue_order)
  WHERE stage IN (1, 7) AND eligible_at IS NOT NULL;

CREATE INDEX "oncebox_inbox_work_leased" ON "{schema}"."oncebox_inbox_work" (locked_until)
  WHERE stage = 3 AND locked_until IS NOT NULL;

CREATE INDEX "oncebox_inbox_work_expiring" ON "{schema}"."oncebox_inbox_work" (expires_at)
  WHERE stage IN (1, 2, 7) AND expires_at IS NOT NULL;

CREATE INDEX "oncebox_inbox_work_partition" ON "{schema}"."oncebox_inbox_work" (partition_key, stage, enqueue_order)
  WHERE partition_key IS NOT NULL AND stage IN (1, 2, 3, 7);

CREATE INDEX "oncebox_inbox_work_dead" ON "{schema}"."oncebox_inbox_work" (finished_at) WHERE stage = 5;

CREATE TABLE "{schema}"."oncebox_inbox_done" (
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
);

CREATE INDEX "oncebox_inbox_done_finished" ON "{schema}"."oncebox_inbox_done" (finished_at);

CREATE TABLE "{schema}"."oncebox_inbox_run" (
  first_id      bigint PRIMARY KEY,
  last_id       bigint NOT NULL,
  seen_at       timestamptz NOT NULL,
  locked_until  timestamptz,
  delivery      bigint,             -- of the first message
  payload_bytes bigint NOT NULL DEFAULT 0,  -- together; of no use when they are leased
  stage         smallint NOT NULL,  -- exposed or leased
  priority      smallint NOT NULL,
  owner         uuid,
  topic         text COLLATE "C" NOT NULL
) WITH (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX "oncebox_inbox_run_claimable" ON "{schema}"."oncebox_inbox_run" (priority, seen_at, first_id) WHERE stage = 1;

CREATE INDEX "oncebox_inbox_run_leased" ON "{schema}"."oncebox_inbox_run" (locked_until)
  WHERE stage = 3 AND locked_until IS NOT NULL;

CREATE TABLE "{schema}"."oncebox_inbox_done_run" (
  first_id    bigint PRIMARY KEY,
  last_id     bigint NOT NULL,
  seen_at     timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  topic       text COLLATE "C" NOT NULL
);

CREATE INDEX "oncebox_inbox_done_run_finished" ON "{schema}"."oncebox_inbox_done_run" (finished_at);

CREATE VIEW "{schema}"."oncebox_inbox_state" AS
SELECT id, stage, enqueue_order, eligible_at, last_seen_at, owner, delivery, locked_until,
       finished_at, backoff_until, attempt, deliveries, lapses, content_version, claimed_version,
       duplicates, revivals, revived_at, revival_reason, last_error
  FROM "{schema}"."oncebox_inbox_work"
UNION ALL
SELECT id, 4::smallint, enqueue_order, finished_at, last_seen_at, NULL, NULL, NULL,
       finished_at, NULL, attempt, deliveries, lapses, content_version, 0,
       duplicates, revivals, revived_at, revival_reason, last_error
  FROM "{schema}"."oncebox_inbox_done"
UNION ALL
SELECT g.id, r.stage, g.id, r.seen_at, r.seen_at, r.owner, r.delivery + (g.id - r.first_id),
       r.locked_until, NULL, NULL, 0, r.stage / 3, 0, 1, r.stage / 3, 0, 0, NULL, NULL, NULL
  FROM "{schema}"."oncebox_inbox_run" r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id)
UNION ALL
SELECT g.id, 4::smallint, g.id, r.finished_at, r.seen_at, NULL, NULL, NULL,
       r.finished_at, NULL, 0, 1, 0, 1, 0, 0, 0, NULL, NULL, NULL
  FROM "{schema}"."oncebox_inbox_done_run" r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id);

CREATE TABLE "{schema}"."oncebox_inbox_done_count" (
  topic text COLLATE "C",
  count bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);

CREATE TABLE "{schema}"."oncebox_inbox_priority" (priority smallint PRIMARY KEY);

INSERT INTO "{schema}"."oncebox_inbox_priority" (priority) VALUES (0);

CREATE TABLE "{schema}"."oncebox_inbox_past_content" (
  id              bigint NOT NULL,  -- the message
  content_version integer NOT NULL,
  replaced_at     timestamptz NOT NULL,
  replaced_by     text NOT NULL,
  reason          text NOT NULL,
  hash_algorithm  text,
  hash            bytea,
  payload         bytea NOT NULL,
  PRIMARY KEY (id, content_version)
);

CREATE SEQUENCE "{schema}"."oncebox_outbox_numbers";

CREATE SEQUENCE "{schema}"."oncebox_outbox_deliveries" INCREMENT BY 64;

CREATE TABLE "{schema}"."oncebox_outbox_message" (
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
);

CREATE UNIQUE INDEX "oncebox_outbox_message_key" ON "{schema}"."oncebox_outbox_message" (key);

CREATE TABLE "{schema}"."oncebox_outbox_work" (
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
        autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX "oncebox_outbox_work_claimable" ON "{schema}"."oncebox_outbox_work" (stage, priority, eligible_at, enqueue_order)
  WHERE stage IN (1, 7) AND eligible_at IS NOT NULL;

CREATE INDEX "oncebox_outbox_work_leased" ON "{schema}"."oncebox_outbox_work" (locked_until)
  WHERE stage = 3 AND locked_until IS NOT NULL;

CREATE INDEX "oncebox_outbox_work_expiring" ON "{schema}"."oncebox_outbox_work" (expires_at)
  WHERE stage IN (1, 2, 7) AND expires_at IS NOT NULL;

CREATE INDEX "oncebox_outbox_work_partition" ON "{schema}"."oncebox_outbox_work" (partition_key, stage, enqueue_order)
  WHERE partition_key IS NOT NULL AND stage IN (1, 2, 3, 7);

CREATE INDEX "oncebox_outbox_work_dead" ON "{schema}"."oncebox_outbox_work" (finished_at) WHERE stage = 5;

CREATE TABLE "{schema}"."oncebox_outbox_done" (
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
);

CREATE INDEX "oncebox_outbox_done_finished" ON "{schema}"."oncebox_outbox_done" (finished_at);

CREATE TABLE "{schema}"."oncebox_outbox_run" (
  first_id      bigint PRIMARY KEY,
  last_id       bigint NOT NULL,
  seen_at       timestamptz NOT NULL,
  locked_until  timestamptz,
  delivery      bigint,             -- of the first message
  payload_bytes bigint NOT NULL DEFAULT 0,  -- together; of no use when they are leased
  stage         smallint NOT NULL,  -- exposed or leased
  priority      smallint NOT NULL,
  owner         uuid,
  topic         text COLLATE "C" NOT NULL
) WITH (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX "oncebox_outbox_run_claimable" ON "{schema}"."oncebox_outbox_run" (priority, seen_at, first_id) WHERE stage = 1;

CREATE INDEX "oncebox_outbox_run_leased" ON "{schema}"."oncebox_outbox_run" (locked_until)
  WHERE stage = 3 AND locked_until IS NOT NULL;

CREATE TABLE "{schema}"."oncebox_outbox_done_run" (
  first_id    bigint PRIMARY KEY,
  last_id     bigint NOT NULL,
  seen_at     timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  topic       text COLLATE "C" NOT NULL
);

CREATE INDEX "oncebox_outbox_done_run_finished" ON "{schema}"."oncebox_outbox_done_run" (finished_at);

CREATE VIEW "{schema}"."oncebox_outbox_state" AS
SELECT id, stage, enqueue_order, eligible_at, last_seen_at, owner, delivery, locked_until,
       finished_at, backoff_until, attempt, deliveries, lapses, content_version, claimed_version,
       duplicates, revivals, revived_at, revival_reason, last_error
  FROM "{schema}"."oncebox_outbox_work"
UNION ALL
SELECT id, 4::smallint, enqueue_order, finished_at, last_seen_at, NULL, NULL, NULL,
       finished_at, NULL, attempt, deliveries, lapses, content_version, 0,
       duplicates, revivals, revived_at, revival_reason, last_error
  FROM "{schema}"."oncebox_outbox_done"
UNION ALL
SELECT g.id, r.stage, g.id, r.seen_at, r.seen_at, r.owner, r.delivery + (g.id - r.first_id),
       r.locked_until, NULL, NULL, 0, r.stage / 3, 0, 1, r.stage / 3, 0, 0, NULL, NULL, NULL
  FROM "{schema}"."oncebox_outbox_run" r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id)
UNION ALL
SELECT g.id, 4::smallint, g.id, r.finished_at, r.seen_at, NULL, NULL, NULL,
       r.finished_at, NULL, 0, 1, 0, 1, 0, 0, 0, NULL, NULL, NULL
  FROM "{schema}"."oncebox_outbox_done_run" r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id);

CREATE TABLE "{schema}"."oncebox_outbox_done_count" (
  topic text COLLATE "C",
  count bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);

CREATE TABLE "{schema}"."oncebox_outbox_priority" (priority smallint PRIMARY KEY);

INSERT INTO "{schema}"."oncebox_outbox_priority" (priority) VALUES (0);

CREATE TABLE "{schema}"."oncebox_outbox_past_content" (
  id              bigint NOT NULL,  -- the message
  content_version integer NOT NULL,
  replaced_at     timestamptz NOT NULL,
  replaced_by     text NOT NULL,
  reason          text NOT NULL,
  hash_algorithm  text,
  hash            bytea,
  payload         bytea NOT NULL,
  PRIMARY KEY (id, content_version)
);

CREATE TABLE "{schema}"."oncebox_audit" (
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
);

CREATE INDEX "oncebox_audit_begun" ON "{schema}"."oncebox_audit" (begun_at);

UPDATE "{schema}"."oncebox_schema" SET version = 3;
