-- What version 5 has more than version 3, as it was released. Not to be changed: it is what
-- databases out there have. A semicolon at the end of a line ends a statement.

CREATE TABLE "{schema}"."oncebox_topic_policy" (
  queue    text COLLATE "C" NOT NULL,
  pattern  text COLLATE "C" NOT NULL,
  is_exact integer NOT NULL,  -- 0: the pattern's last character is a * that stands for more
  policy   text NOT NULL,     -- JSON
  spent_until bigint NOT NULL DEFAULT 0,  -- of a limited rate, see LimitUse
  PRIMARY KEY (queue, pattern, is_exact)
);

CREATE TABLE "{schema}"."oncebox_policy_version" (version bigint NOT NULL);

INSERT INTO "{schema}"."oncebox_policy_version" (version) VALUES (1);

ALTER TABLE "{schema}"."oncebox_inbox_work" ADD COLUMN leased_at timestamptz, ADD COLUMN worker integer;

ALTER TABLE "{schema}"."oncebox_inbox_run" ADD COLUMN leased_at timestamptz, ADD COLUMN worker integer;

CREATE TABLE "{schema}"."oncebox_inbox_worker" (
  id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  since        timestamptz NOT NULL,
  last_seen_at timestamptz NOT NULL,
  name         text COLLATE "C" NOT NULL UNIQUE
) WITH (fillfactor = 50);

CREATE OR REPLACE VIEW "{schema}"."oncebox_inbox_state" AS
SELECT id, stage, enqueue_order, eligible_at, last_seen_at, owner, delivery, locked_until,
       finished_at, backoff_until, attempt, deliveries, lapses, content_version, claimed_version,
       duplicates, revivals, revived_at, revival_reason, last_error, leased_at, worker
  FROM "{schema}"."oncebox_inbox_work"
UNION ALL
SELECT id, 4::smallint, enqueue_order, finished_at, last_seen_at, NULL, NULL, NULL,
       finished_at, NULL, attempt, deliveries, lapses, content_version, 0,
       duplicates, revivals, revived_at, revival_reason, last_error, NULL, NULL
  FROM "{schema}"."oncebox_inbox_done"
UNION ALL
SELECT g.id, r.stage, g.id, r.seen_at, r.seen_at, r.owner, r.delivery + (g.id - r.first_id),
       r.locked_until, NULL, NULL, 0, r.stage / 3, 0, 1, r.stage / 3, 0, 0, NULL, NULL, NULL,
       r.leased_at, r.worker
  FROM "{schema}"."oncebox_inbox_run" r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id)
UNION ALL
SELECT g.id, 4::smallint, g.id, r.finished_at, r.seen_at, NULL, NULL, NULL,
       r.finished_at, NULL, 0, 1, 0, 1, 0, 0, 0, NULL, NULL, NULL, NULL, NULL
  FROM "{schema}"."oncebox_inbox_done_run" r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id);

CREATE TABLE "{schema}"."oncebox_inbox_attempt" (
  id         bigint NOT NULL,  -- the message
  begun_at   timestamptz,
  ended_at   timestamptz NOT NULL,
  number     integer NOT NULL,
  outcome    integer NOT NULL,  -- see oncebox/sql/attempt_code.hpp
  worker     text COLLATE "C",
  error_kind text NOT NULL,
  error      text NOT NULL,
  PRIMARY KEY (id, number)
);

ALTER TABLE "{schema}"."oncebox_outbox_work" ADD COLUMN leased_at timestamptz, ADD COLUMN worker integer;

ALTER TABLE "{schema}"."oncebox_outbox_run" ADD COLUMN leased_at timestamptz, ADD COLUMN worker integer;

CREATE TABLE "{schema}"."oncebox_outbox_worker" (
  id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  since        timestamptz NOT NULL,
  last_seen_at timestamptz NOT NULL,
  name         text COLLATE "C" NOT NULL UNIQUE
) WITH (fillfactor = 50);

CREATE OR REPLACE VIEW "{schema}"."oncebox_outbox_state" AS
SELECT id, stage, enqueue_order, eligible_at, last_seen_at, owner, delivery, locked_until,
       finished_at, backoff_until, attempt, deliveries, lapses, content_version, claimed_version,
       duplicates, revivals, revived_at, revival_reason, last_error, leased_at, worker
  FROM "{schema}"."oncebox_outbox_work"
UNION ALL
SELECT id, 4::smallint, enqueue_order, finished_at, last_seen_at, NULL, NULL, NULL,
       finished_at, NULL, attempt, deliveries, lapses, content_version, 0,
       duplicates, revivals, revived_at, revival_reason, last_error, NULL, NULL
  FROM "{schema}"."oncebox_outbox_done"
UNION ALL
SELECT g.id, r.stage, g.id, r.seen_at, r.seen_at, r.owner, r.delivery + (g.id - r.first_id),
       r.locked_until, NULL, NULL, 0, r.stage / 3, 0, 1, r.stage / 3, 0, 0, NULL, NULL, NULL,
       r.leased_at, r.worker
  FROM "{schema}"."oncebox_outbox_run" r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id)
UNION ALL
SELECT g.id, 4::smallint, g.id, r.finished_at, r.seen_at, NULL, NULL, NULL,
       r.finished_at, NULL, 0, 1, 0, 1, 0, 0, 0, NULL, NULL, NULL, NULL, NULL
  FROM "{schema}"."oncebox_outbox_done_run" r CROSS JOIN LATERAL generate_series(r.first_id, r.last_id) g(id);

CREATE TABLE "{schema}"."oncebox_outbox_attempt" (
  id         bigint NOT NULL,  -- the message
  begun_at   timestamptz,
  ended_at   timestamptz NOT NULL,
  number     integer NOT NULL,
  outcome    integer NOT NULL,  -- see oncebox/sql/attempt_code.hpp
  worker     text COLLATE "C",
  error_kind text NOT NULL,
  error      text NOT NULL,
  PRIMARY KEY (id, number)
);

UPDATE "{schema}"."oncebox_schema" SET version = 5;
