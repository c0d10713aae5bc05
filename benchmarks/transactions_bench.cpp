// What a handler inside the store's transaction costs, on SQLite and PostgreSQL: a row of its own,
// a message for the outbox and the acknowledgement, committed together, against a loop that does
// the same writes directly: a row, a message, and a mark in a table of states, one transaction
// each.
//
// Conditions: payloads of about 200 bytes, one topic, every commit flushed. The loop knows its
// messages; it claims, recognises and checks nothing. On SQLite it has one connection, as nobody
// else could write; on PostgreSQL as many as the dispatcher has workers. Rates are medians of
// rounds that alternate between the two.

#include <fmt/format.h>
#include <libpq-fe.h>
#include <sqlite3.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench_dispatcher.hpp"
#include "bench_folder.hpp"
#include "bench_messages.hpp"
#include "bench_postgresql.hpp"
#include "figure.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/postgresql/transaction.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/sqlite/transaction.hpp"
#include "pg_session.hpp"

namespace oncebox::bench {
namespace {

constexpr std::size_t kWorkers = 4;
constexpr int kRounds = 5;

// SQLite ----------------------------------------------------------------------------------------

/// One statement with text parameters, prepared on a connection of SQLite.
class SqliteText {
 public:
  SqliteText(sqlite3* database, const char* sql) : database_(database) {
    if (sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr) != SQLITE_OK) fail();
  }
  ~SqliteText() { sqlite3_finalize(statement_); }
  SqliteText(const SqliteText&) = delete;
  SqliteText& operator=(const SqliteText&) = delete;

  void run(std::initializer_list<std::string_view> values = {}) {
    int place = 0;
    for (const std::string_view value : values) {
      sqlite3_bind_text(statement_, ++place, value.data(), static_cast<int>(value.size()),
                        SQLITE_STATIC);
    }
    if (sqlite3_step(statement_) != SQLITE_DONE) fail();
    sqlite3_reset(statement_);
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(sqlite3_errmsg(database_)); }

  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

constexpr const char* kEffectSqlite =
    "INSERT INTO effect (name, times) VALUES (?1, 1) "
    "ON CONFLICT (name) DO UPDATE SET times = times + 1";

std::unique_ptr<sqlite3, decltype(&sqlite3_close_v2)> open_sqlite(const std::string& path) {
  sqlite3* opened = nullptr;
  if (sqlite3_open(path.c_str(), &opened) != SQLITE_OK) throw std::runtime_error("no file");
  return {opened, &sqlite3_close_v2};
}

void execute(sqlite3& database, const char* sql) {
  if (sqlite3_exec(&database, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sqlite3_errmsg(&database));
  }
}

double raw_sqlite(const std::string& path, std::size_t count) {
  const auto database = open_sqlite(path);
  sqlite3* const opened = database.get();
  execute(*opened,
          "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
          "CREATE TABLE effect (name TEXT PRIMARY KEY, times INTEGER);"
          "CREATE TABLE state (id TEXT PRIMARY KEY, stage INTEGER);"
          "CREATE TABLE sent (id TEXT PRIMARY KEY, payload TEXT)");
  const std::vector<Message> messages = make_messages(count);
  execute(*opened, "BEGIN");
  SqliteText add(opened, "INSERT INTO state VALUES (?1, 0)");
  for (const Message& message : messages) add.run({message.key.message_id.str()});
  execute(*opened, "COMMIT");
  SqliteText begin(opened, "BEGIN IMMEDIATE");
  SqliteText effect(opened, kEffectSqlite);
  SqliteText send(opened, "INSERT INTO sent VALUES (?1, ?2)");
  SqliteText acknowledge(opened, "UPDATE state SET stage = 1 WHERE id = ?1");
  SqliteText commit(opened, "COMMIT");
  return measure([&] {
    for (const Message& message : messages) {
      const std::string& id = message.key.message_id.str();
      begin.run();
      effect.run({id});
      send.run({id, message.payload.bytes()});
      acknowledge.run({id});
      commit.run();
    }
    return count;
  });
}

// PostgreSQL ------------------------------------------------------------------------------------

void run_postgresql(PGconn* connection, const char* sql,
                    std::initializer_list<const char*> values = {}) {
  const std::vector<const char*> texts(values);
  const std::unique_ptr<PGresult, decltype(&PQclear)> result(
      PQexecParams(connection, sql, static_cast<int>(texts.size()), nullptr, texts.data(), nullptr,
                   nullptr, 0),
      &PQclear);
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) {
    throw std::runtime_error(PQerrorMessage(connection));
  }
}

void raw_postgresql_part(const std::string& url, const std::string& schema,
                         std::span<const Message> messages) {
  const std::unique_ptr<PGconn, decltype(&PQfinish)> owned(PQconnectdb(url.c_str()), &PQfinish);
  PGconn* const connection = owned.get();
  run_postgresql(connection, fmt::format("SET search_path = {}", schema).c_str());
  for (const Message& message : messages) {
    const char* const id = message.key.message_id.str().c_str();
    run_postgresql(connection, "BEGIN");
    run_postgresql(connection,
                   "INSERT INTO effect (name, times) VALUES ($1, 1) "
                   "ON CONFLICT (name) DO UPDATE SET times = effect.times + 1",
                   {id});
    run_postgresql(connection, "INSERT INTO sent VALUES ($1, $2)",
                   {id, message.payload.bytes().c_str()});
    run_postgresql(connection, "UPDATE state SET stage = 1 WHERE id = $1", {id});
    run_postgresql(connection, "COMMIT");
  }
}

double raw_postgresql(BenchPostgresql& server, std::size_t count) {
  server.execute("DROP SCHEMA IF EXISTS raw CASCADE");
  server.execute("CREATE SCHEMA raw");
  server.execute("CREATE TABLE raw.effect (name text PRIMARY KEY, times integer)");
  server.execute("CREATE TABLE raw.state (id text PRIMARY KEY, stage integer)");
  server.execute("CREATE TABLE raw.sent (id text PRIMARY KEY, payload text)");
  const std::vector<Message> messages = make_messages(count);
  {
    PgSession session(server.url());
    for (const Message& message : messages) {
      session.run("INSERT INTO raw.state VALUES ('" + message.key.message_id.str() + "', 0)");
    }
  }
  server.settle_down();
  return measure([&] {
    std::vector<std::jthread> threads;
    const std::size_t part = count / kWorkers;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      threads.emplace_back([&, i] {
        raw_postgresql_part(server.url(), "raw", std::span(messages).subspan(i * part, part));
      });
    }
    threads.clear();
    return part * kWorkers;
  });
}

// Both ------------------------------------------------------------------------------------------

using Effect = std::function<void(Transaction& transaction, const std::string& id)>;

double through_dispatcher(Store& store, std::size_t count, const Effect& effect) {
  enqueue_all(store.inbox(), count);
  Outbox outbox(store, {.missing_hash = MissingHash::leave});
  Countdown handled(count);
  Handlers handlers;
  handlers.on("*", [&](const ClaimedMessage& claimed, Transaction& transaction, HandlerContext&) {
    const Message& message = claimed.message;
    effect(transaction, message.key.message_id.str());
    outbox.enqueue({.topic = "sent", .payload = message.payload, .id = message.key.message_id},
                   transaction);
    handled.count();
  });
  Dispatcher dispatcher(store.inbox(), handlers, {.workers = kWorkers, .batch_size = 500});
  return measure([&] {
    dispatcher.start();
    handled.wait();
    if (!dispatcher.stop().complete()) throw std::runtime_error("the dispatcher did not stop");
    return count;
  });
}

void run_sqlite(Report& report) {
  constexpr std::size_t kMessages = 10'000;
  std::vector<double> raw;
  std::vector<double> handled;
  for (int round = 0; round < kRounds; ++round) {
    BenchFolder folder;
    raw.push_back(raw_sqlite(folder.new_file(), kMessages));
    const std::string path = folder.new_file();
    execute(*open_sqlite(path), "CREATE TABLE effect (name TEXT PRIMARY KEY, times INTEGER)");
    sqlite::SqliteStore store({.path = path});
    handled.push_back(
        through_dispatcher(store, kMessages, [](Transaction& transaction, const std::string& id) {
          SqliteText(sqlite::database_of(transaction), kEffectSqlite).run({id});
        }));
  }
  const std::string base = "raw/transaction/sqlite";
  report.add(base, median(raw));
  report.add("handler/transaction/sqlite", median(handled), base);
}

void run_postgresql(Report& report) {
  constexpr std::size_t kMessages = 8'000;
  BenchPostgresql server;
  std::vector<double> raw;
  std::vector<double> handled;
  for (int round = 0; round < kRounds; ++round) {
    raw.push_back(raw_postgresql(server, kMessages));
    const postgresql::Options options = server.new_store();
    {
      postgresql::PostgresqlStore store(options);
      server.execute("CREATE TABLE " + options.schema +
                     ".effect (name text PRIMARY KEY, times integer)");
      const std::string effect = "INSERT INTO " + options.schema +
                                 ".effect (name, times) VALUES ($1, 1) "
                                 "ON CONFLICT (name) DO UPDATE SET times = effect.times + 1";
      handled.push_back(through_dispatcher(
          store, kMessages, [&](Transaction& transaction, const std::string& id) {
            run_postgresql(postgresql::connection_of(transaction), effect.c_str(), {id.c_str()});
          }));
    }
    server.drop(options);
  }
  const std::string base = "raw/transaction/postgresql/connections=4";
  report.add(base, median(raw));
  report.add("handler/transaction/postgresql/workers=4", median(handled), base);
}

}  // namespace
}  // namespace oncebox::bench

int main() {
  using namespace oncebox::bench;
  Report report;
  run_sqlite(report);
  run_postgresql(report);
  report.print_json();
}
