#include "effects_fixture.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <sqlite3.h>

#include <cstdlib>
#include <random>
#include <stdexcept>

#include "oncebox/clock.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox::effects {

namespace {

class SqlitePlace final : public Place {
 public:
  SqlitePlace() {
    if (sqlite3_open(path_.c_str(), &database_) != SQLITE_OK) throw std::runtime_error("no file");
    sqlite3_busy_timeout(database_, 60'000);
    number("CREATE TABLE effect (name TEXT PRIMARY KEY, times INTEGER)");
  }
  ~SqlitePlace() override { sqlite3_close_v2(database_); }
  // Another process may hold the lock for long on a busy machine.
  [[nodiscard]] std::string url() const override {
    return "sqlite:" + path_ + "?busy_timeout_ms=60000";
  }
  [[nodiscard]] std::string connection() const override { return path_; }
  [[nodiscard]] std::string table() const override { return "effect"; }
  std::int64_t number(const std::string& sql) override {
    std::int64_t answer = 0;
    const auto take = [](void* into, int, char** values, char**) {
      *static_cast<std::int64_t*>(into) = values[0] != nullptr ? std::stoll(values[0]) : 0;
      return 0;
    };
    if (sqlite3_exec(database_, sql.c_str(), take, &answer, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sqlite3_errmsg(database_));
    }
    return answer;
  }

 private:
  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.file("oncebox.db");
  sqlite3* database_ = nullptr;
};

class PostgresqlPlace final : public Place {
 public:
  PostgresqlPlace()
      : schema_("effects_" + Uuid::generate_v7(SystemClock::current()).to_string().substr(24)),
        connection_(PQconnectdb(testing::shared_postgresql_url().c_str()), &PQfinish) {
    number("CREATE SCHEMA " + schema_);
    number("CREATE TABLE " + table() + " (name text PRIMARY KEY, times integer)");
  }
  ~PostgresqlPlace() override {
    try {
      number("DROP SCHEMA " + schema_ + " CASCADE");
    } catch (const std::exception&) {
      // The server ends with the tests.
    }
  }
  [[nodiscard]] std::string url() const override {
    return fmt::format("{}&schema={}&schema_deployment=on", connection(), schema_);
  }
  [[nodiscard]] std::string connection() const override {
    const std::string& server = testing::shared_postgresql_url();
    return fmt::format("{}{}application_name={}", server,
                       server.find('?') == std::string::npos ? '?' : '&', schema_);
  }
  [[nodiscard]] std::string table() const override { return schema_ + ".effect"; }
  std::int64_t number(const std::string& sql) override {
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQexec(connection_.get(), sql.c_str()), &PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
      throw std::runtime_error(PQerrorMessage(connection_.get()));
    }
    return PQntuples(result.get()) > 0 ? std::stoll(PQgetvalue(result.get(), 0, 0)) : 0;
  }
  void wait_for_the_dead() override {
    while (number(fmt::format("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'",
                              schema_)) > 0) {
      number("SELECT 1 FROM pg_sleep(0.01)");
    }
  }

 private:
  const std::string schema_;
  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

}  // namespace

std::unique_ptr<Place> make_place(Backend backend) {
  if (backend == Backend::sqlite) return std::make_unique<SqlitePlace>();
  return std::make_unique<PostgresqlPlace>();
}

unsigned seed_of_this_run() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment.
  const char* const text = std::getenv("ONCEBOX_CRASH_SEED");
  return text != nullptr ? static_cast<unsigned>(std::stoul(text)) : std::random_device{}();
}

}  // namespace oncebox::effects
