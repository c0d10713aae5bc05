#include "raw_sqlite.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <array>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"

namespace oncebox::bench {

namespace {

struct Finalize {
  void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
};
struct Close {
  void operator()(sqlite3* database) const noexcept { sqlite3_close_v2(database); }
};
using Handle = std::unique_ptr<sqlite3_stmt, Finalize>;
using Database = std::unique_ptr<sqlite3, Close>;

void require(bool ok, sqlite3* database) {
  if (!ok) throw std::runtime_error(sqlite3_errmsg(database));
}

Database open(const std::string& path) {
  // The store makes the tables, so that both have the same ones.
  {
    const sqlite::SqliteStore store({.path = path});
  }
  sqlite3* database = nullptr;
  require(sqlite3_open(path.c_str(), &database) == SQLITE_OK, database);
  Database owned(database);
  for (const char* pragma :
       {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA cache_size = -16384",
        "PRAGMA wal_autocheckpoint = 4096", "PRAGMA temp_store = MEMORY"}) {
    require(sqlite3_exec(database, pragma, nullptr, nullptr, nullptr) == SQLITE_OK, database);
  }
  return owned;
}

std::string_view text(sqlite3_stmt* statement, int column) {
  const void* const bytes = sqlite3_column_blob(statement, column);
  return {static_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement, column))};
}

}  // namespace

struct RawSqlite::Impl {
  explicit Impl(const std::string& path) : database(open(path)) {}

  Handle prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    require(sqlite3_prepare_v3(database.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement,
                               nullptr) == SQLITE_OK,
            database.get());
    return Handle(statement);
  }

  void run(const Handle& statement) {
    const int code = sqlite3_step(statement.get());
    require(code == SQLITE_DONE || code == SQLITE_ROW, database.get());
    sqlite3_reset(statement.get());
  }

  static void bind(const Handle& statement, int parameter, std::string_view value) {
    sqlite3_bind_text(statement.get(), parameter, value.data(), static_cast<int>(value.size()),
                      SQLITE_STATIC);
  }

  static void bind_blob(const Handle& statement, int parameter, std::string_view value) {
    sqlite3_bind_blob(statement.get(), parameter, value.data(), static_cast<int>(value.size()),
                      SQLITE_STATIC);
  }

  struct Claimed {
    std::int64_t id;
    std::string source;
    std::string message_id;
    std::string topic;
    std::string payload;
  };

  Database database;
  Handle begin = prepare("BEGIN IMMEDIATE");
  Handle commit = prepare("COMMIT");
  Handle insert_topic = prepare("INSERT OR IGNORE INTO oncebox_topic (id, name) VALUES (1, ?1)");
  Handle insert_message = prepare(
      "INSERT INTO oncebox_inbox_message "
      "(id, segment, key, source, message_id, first_seen_at, payload) "
      "VALUES (?1, ?1 >> 16, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (segment, key) DO NOTHING");
  Handle insert_state = prepare(
      "INSERT INTO oncebox_inbox_state (id, stage, topic, rank, eligible_at, enqueue_order, "
      "attempt, deliveries, lapses, content_version, claimed_version, duplicates, last_seen_at, "
      "backoff_until, revivals) "
      "VALUES (?1, 1, 1, 0, ?2, ?1, 0, 0, 0, 1, 0, 0, ?2, 0, 0)");
  Handle claim = prepare(
      "UPDATE oncebox_inbox_state SET stage = 3, owner = ?1, delivery = id, locked_until = ?2, "
      "deliveries = deliveries + 1, claimed_version = content_version "
      "WHERE id IN (SELECT id FROM oncebox_inbox_state WHERE stage = 1 AND topic = 1 AND rank = 0 "
      "AND eligible_at <= ?3 ORDER BY eligible_at, enqueue_order LIMIT ?4) RETURNING id");
  Handle read =
      prepare("SELECT source, message_id, payload FROM oncebox_inbox_message WHERE id = ?1");
  Handle acknowledge = prepare(
      "UPDATE oncebox_inbox_state SET stage = 4, owner = NULL, delivery = NULL, "
      "locked_until = NULL, finished_at = ?3 WHERE id = ?1 AND owner = ?2 AND stage = 3");
  std::int64_t last_id = 0;
};

RawSqlite::RawSqlite(const std::string& path) : impl_(std::make_unique<Impl>(path)) {
  Impl::bind(impl_->insert_topic, 1, "payment.received");
  impl_->run(impl_->insert_topic);
}

RawSqlite::~RawSqlite() = default;

void RawSqlite::enqueue(std::span<const Message> messages) {
  Impl& raw = *impl_;
  const std::int64_t now = SystemClock::current().time_since_epoch().count();
  raw.run(raw.begin);
  for (const Message& message : messages) {
    const std::hash<std::string> hash;
    const std::array<std::uint64_t, 2> key{hash(message.key.message_id.str()),
                                           hash(message.key.source.str())};
    const std::int64_t id = ++raw.last_id;
    sqlite3_bind_int64(raw.insert_message.get(), 1, id);
    Impl::bind_blob(raw.insert_message, 2, {reinterpret_cast<const char*>(key.data()), 16});
    Impl::bind(raw.insert_message, 3, message.key.source.str());
    Impl::bind(raw.insert_message, 4, message.key.message_id.str());
    sqlite3_bind_int64(raw.insert_message.get(), 5, now);
    Impl::bind_blob(raw.insert_message, 6, message.payload.bytes());
    raw.run(raw.insert_message);
    sqlite3_bind_int64(raw.insert_state.get(), 1, id);
    sqlite3_bind_int64(raw.insert_state.get(), 2, now);
    raw.run(raw.insert_state);
  }
  raw.run(raw.commit);
}

std::size_t RawSqlite::claim_and_acknowledge(std::size_t batch) {
  Impl& raw = *impl_;
  const std::string owner(16, 'o');
  const std::int64_t now = SystemClock::current().time_since_epoch().count();
  std::vector<Impl::Claimed> claimed;
  claimed.reserve(batch);
  // As the store does: a claim need not be flushed.
  sqlite3_exec(raw.database.get(), "PRAGMA synchronous = NORMAL", nullptr, nullptr, nullptr);
  raw.run(raw.begin);
  Impl::bind_blob(raw.claim, 1, owner);
  sqlite3_bind_int64(raw.claim.get(), 2, now + 30'000);
  sqlite3_bind_int64(raw.claim.get(), 3, now);
  sqlite3_bind_int64(raw.claim.get(), 4, static_cast<std::int64_t>(batch));
  std::vector<std::int64_t> ids;
  while (sqlite3_step(raw.claim.get()) == SQLITE_ROW) {
    ids.push_back(sqlite3_column_int64(raw.claim.get(), 0));
  }
  sqlite3_reset(raw.claim.get());
  for (const std::int64_t id : ids) {
    sqlite3_bind_int64(raw.read.get(), 1, id);
    require(sqlite3_step(raw.read.get()) == SQLITE_ROW, raw.database.get());
    claimed.push_back({id, std::string(text(raw.read.get(), 0)),
                       std::string(text(raw.read.get(), 1)), "payment.received",
                       std::string(text(raw.read.get(), 2))});
    sqlite3_reset(raw.read.get());
  }
  raw.run(raw.commit);
  sqlite3_exec(raw.database.get(), "PRAGMA synchronous = FULL", nullptr, nullptr, nullptr);
  if (claimed.empty()) return 0;

  raw.run(raw.begin);
  for (const Impl::Claimed& message : claimed) {
    sqlite3_bind_int64(raw.acknowledge.get(), 1, message.id);
    Impl::bind_blob(raw.acknowledge, 2, owner);
    sqlite3_bind_int64(raw.acknowledge.get(), 3, now);
    raw.run(raw.acknowledge);
  }
  raw.run(raw.commit);
  return claimed.size();
}

}  // namespace oncebox::bench
