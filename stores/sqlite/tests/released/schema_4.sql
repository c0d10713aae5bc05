-- The schema of version 4 as it was released. Not to be changed: it is what files out there have.

CREATE TABLE oncebox_schema (version INTEGER NOT NULL) STRICT;

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

CREATE TABLE oncebox_inbox_message (
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

CREATE UNIQUE INDEX oncebox_inbox_message_key ON oncebox_inbox_message (segment, key);

CREATE TABLE oncebox_inbox_state (
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

CREATE INDEX oncebox_inbox_exposed
  ON oncebox_inbox_state (topic, rank, eligible_at, enqueue_order, stage) WHERE stage = 1;

CREATE INDEX oncebox_inbox_leased
  ON oncebox_inbox_state (locked_until) WHERE stage = 3;

CREATE INDEX oncebox_inbox_finished
  ON oncebox_inbox_state (stage, finished_at) WHERE stage IN (4, 5);

CREATE INDEX oncebox_inbox_expiring
  ON oncebox_inbox_state (expires_at) WHERE stage IN (1, 2) AND expires_at IS NOT NULL;

CREATE TABLE oncebox_outbox_message (
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

CREATE UNIQUE INDEX oncebox_outbox_message_key ON oncebox_outbox_message (segment, key);

CREATE TABLE oncebox_outbox_state (
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

CREATE INDEX oncebox_outbox_exposed
  ON oncebox_outbox_state (topic, rank, eligible_at, enqueue_order, stage) WHERE stage = 1;

CREATE INDEX oncebox_outbox_leased
  ON oncebox_outbox_state (locked_until) WHERE stage = 3;

CREATE INDEX oncebox_outbox_finished
  ON oncebox_outbox_state (stage, finished_at) WHERE stage IN (4, 5);

CREATE INDEX oncebox_outbox_expiring
  ON oncebox_outbox_state (expires_at) WHERE stage IN (1, 2) AND expires_at IS NOT NULL;

CREATE INDEX oncebox_inbox_other
  ON oncebox_inbox_state (stage, topic) WHERE stage IN (0, 2) OR stage = 6;

CREATE INDEX oncebox_inbox_partition
  ON oncebox_inbox_state (partition_key, stage, enqueue_order)
  WHERE partition_key IS NOT NULL AND stage BETWEEN 1 AND 3;

CREATE INDEX oncebox_outbox_other
  ON oncebox_outbox_state (stage, topic) WHERE stage IN (0, 2) OR stage = 6;

CREATE INDEX oncebox_outbox_partition
  ON oncebox_outbox_state (partition_key, stage, enqueue_order)
  WHERE partition_key IS NOT NULL AND stage BETWEEN 1 AND 3;

CREATE TABLE oncebox_inbox_past_content (
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

CREATE TABLE oncebox_outbox_past_content (
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

INSERT INTO oncebox_schema (version) VALUES (4);
INSERT INTO oncebox_counter (queue, last_id, last_delivery, segment, segment_keys)
VALUES ('inbox', 0, 0, 0, 0);
INSERT INTO oncebox_counter (queue, last_id, last_delivery, segment, segment_keys)
VALUES ('outbox', 0, 0, 0, 0);
