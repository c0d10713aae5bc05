-- What version 6 has more than version 4, as it was released. Not to be changed: it is what files
-- out there have.

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

ALTER TABLE oncebox_inbox_state ADD COLUMN leased_at INTEGER;
ALTER TABLE oncebox_inbox_state ADD COLUMN worker INTEGER;

CREATE TABLE oncebox_inbox_worker (
  id           INTEGER PRIMARY KEY,
  name         TEXT NOT NULL UNIQUE,
  since        INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL
) STRICT;

ALTER TABLE oncebox_outbox_state ADD COLUMN leased_at INTEGER;
ALTER TABLE oncebox_outbox_state ADD COLUMN worker INTEGER;

CREATE TABLE oncebox_outbox_worker (
  id           INTEGER PRIMARY KEY,
  name         TEXT NOT NULL UNIQUE,
  since        INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL
) STRICT;

CREATE TABLE oncebox_inbox_attempt (
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

CREATE TABLE oncebox_outbox_attempt (
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

UPDATE oncebox_schema SET version = 6;
