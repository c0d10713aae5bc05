// Processes with transactional handlers are killed at every step, and started again. At any time as
// many rows, receipts and acknowledgements are there; in the end each message counts once.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <sqlite3.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "oncebox/open_store.hpp"
#include "oncebox/testing/child_process.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox::effects {
namespace {

using namespace std::chrono_literals;
using testing::ChildProcess;

constexpr std::int64_t kMessages = 10'000;

/// A store and a table beside it.
class Place {
 public:
  virtual ~Place() = default;
  [[nodiscard]] virtual std::string url() const = 0;
  [[nodiscard]] virtual std::string table() const = 0;
  virtual std::int64_t number(const std::string& sql) = 0;
  /// Returns when nothing of a killed process is under way any more.
  virtual void wait_for_the_dead() {}
};

class SqlitePlace final : public Place {
 public:
  SqlitePlace() {
    if (sqlite3_open(path_.c_str(), &database_) != SQLITE_OK) throw std::runtime_error("no file");
    sqlite3_busy_timeout(database_, 60'000);
    number("CREATE TABLE effect (name TEXT PRIMARY KEY, times INTEGER)");
  }
  ~SqlitePlace() override { sqlite3_close_v2(database_); }
  [[nodiscard]] std::string url() const override { return "sqlite:" + path_; }
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
    const std::string& server = testing::shared_postgresql_url();
    return fmt::format("{}{}schema={}&schema_deployment=on&application_name={}", server,
                       server.find('?') == std::string::npos ? '?' : '&', schema_, schema_);
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

/// What chooses the moments: another one each time, unless somebody wants those of before.
unsigned seed_of_this_run() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment.
  const char* const text = std::getenv("ONCEBOX_CRASH_SEED");
  return text != nullptr ? static_cast<unsigned>(std::stoul(text)) : std::random_device{}();
}

enum class Backend { sqlite, postgresql };

class KilledHandler : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (GetParam() == Backend::sqlite) {
      place_ = std::make_unique<SqlitePlace>();
    } else {
      place_ = std::make_unique<PostgresqlPlace>();
    }
    const auto store = open_store(place_->url());
    std::vector<Message> messages;
    for (std::int64_t n = 0; n < kMessages; ++n) {
      messages.push_back({.key = {"shop", std::to_string(n)},
                          .topic = "order.paid",
                          .headers = {{"table", place_->table()}}});
    }
    store->inbox().enqueue(messages);
  }

  void run_until_it_dies(const std::string& step, unsigned call) {
    ChildProcess worker({ONCEBOX_EFFECTS_WORKER, place_->url(), step, std::to_string(call)});
    const std::optional<int> status = worker.wait_for(300s);
    ASSERT_TRUE(status && testing::was_killed(*status)) << "at " << step << " of call " << call;
    place_->wait_for_the_dead();
  }

  void drain() {
    ChildProcess worker({ONCEBOX_EFFECTS_WORKER, place_->url(), "drain", "0"});
    const std::optional<int> status = worker.wait_for(600s);
    ASSERT_TRUE(status && testing::exited_well(*status));
    place_->wait_for_the_dead();
  }

  /// Rows, receipts and acknowledgements agree. Answers how many there are.
  std::int64_t expect_agreement(const std::string& when) {
    const auto store = open_store(place_->url());
    const auto done =
        static_cast<std::int64_t>(store->inbox_operator().count({.statuses = {Status::done}}));
    const auto receipts = static_cast<std::int64_t>(store->outbox_operator().count({}));
    EXPECT_EQ(place_->number("SELECT count(*) FROM " + place_->table()), done) << when;
    EXPECT_EQ(place_->number("SELECT sum(times) FROM " + place_->table()), done) << when;
    EXPECT_EQ(receipts, done) << when;
    return done;
  }

  std::unique_ptr<Place> place_;
};

INSTANTIATE_TEST_SUITE_P(Stores, KilledHandler,
                         ::testing::Values(Backend::sqlite, Backend::postgresql),
                         [](const auto& tested) {
                           return tested.param == Backend::sqlite ? "sqlite" : "postgresql";
                         });

TEST_P(KilledHandler, RowsReceiptsAndAcknowledgementsAgreeAtEveryStep) {
  RecordProperty("requirement", "PKT-09, R-25");
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE(fmt::format("ONCEBOX_CRASH_SEED={}", seed));
  std::mt19937 random(seed);
  const auto kill_at = [&](const std::string& step) {
    const auto call = 1 + static_cast<unsigned>(random() % 300);
    run_until_it_dies(step, call);
    expect_agreement(fmt::format("{} of call {}", step, call));
  };
  for (const char* const step : {"at-first", "after-row", "after-message", "at-last"}) {
    for (int time = 0; time < 2; ++time) ASSERT_NO_FATAL_FAILURE(kill_at(step));
  }
  // The handler has returned: the process dies before, during or after the commit.
  for (int time = 0; time < 12; ++time) {
    ASSERT_NO_FATAL_FAILURE(kill_at(fmt::format("after-us:{}", random() % 3'000)));
  }
  EXPECT_LT(expect_agreement("before the rest"), kMessages) << "nothing was left to be killed";
  drain();
  EXPECT_EQ(expect_agreement("in the end"), kMessages);
  EXPECT_EQ(place_->number("SELECT count(*) FROM " + place_->table() + " WHERE times = 1"),
            kMessages);
}

}  // namespace
}  // namespace oncebox::effects
