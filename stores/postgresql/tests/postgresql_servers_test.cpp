// Stores on servers of the test's own: with TLS and passwords, behind PgBouncer, and with a log of
// every plan.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "error_of.hpp"
#include "exercise.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/log.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/pgbouncer.hpp"
#include "oncebox/testing/postgresql_server.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;
using testing::PostgresqlServer;

Options deploying(std::string connection) {
  return {.connection = std::move(connection),
          .schema_deployment = SchemaDeployment::on,
          .max_connections = 4,
          .call_timeout = 60s,
          .connect_timeout = 60s};
}

Error opening_error(const std::string& connection) {
  return error_of([&] { const PostgresqlStore store(deploying(connection)); });
}

TEST(PostgresqlTls, ServerIsVerifiedAndTheConnectionEncrypted) {
  RecordProperty("requirement", "IBX-128");
  PostgresqlServer server({.tls = testing::PostgresqlTls{}});
  const PostgresqlServer stranger({.tls = testing::PostgresqlTls{}});
  const std::string verified = server.url() + "?sslmode=verify-full&sslrootcert=";
  server.execute("GRANT CREATE ON DATABASE postgres TO oncebox");
  {
    testing::FakeClock clock;
    PostgresqlStore store(deploying(verified + server.ca_certificate()), clock);
    exercise(store, clock);
    EXPECT_NE(server.execute("SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
                             "WHERE usename = 'oncebox' AND ssl"),
              "0");
    EXPECT_EQ(server.execute("SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
                             "WHERE usename = 'oncebox' AND NOT ssl"),
              "0");
  }
  const Error wrong_authority = opening_error(verified + stranger.ca_certificate());
  EXPECT_EQ(wrong_authority.code(), ErrorCode::invalid_argument) << wrong_authority.what();
  EXPECT_NE(std::string(wrong_authority.what()).find("certificate verify failed"),
            std::string::npos);
  const Error wrong_name =
      opening_error(fmt::format("postgresql://oncebox@not.the.server:{}/postgres?hostaddr=127.0.0.1"
                                "&sslmode=verify-full&sslrootcert={}",
                                server.port(), server.ca_certificate()));
  EXPECT_EQ(wrong_name.code(), ErrorCode::invalid_argument) << wrong_name.what();
  const Error not_encrypted = opening_error(server.url() + "?sslmode=disable");
  EXPECT_EQ(not_encrypted.code(), ErrorCode::invalid_argument) << not_encrypted.what();
}

TEST(PostgresqlPassword, AppearsInNoErrorAndNoLogLine) {
  RecordProperty("requirement", "IBX-127,IBX-128");
  const std::string secret = "s3cret%20&word";
  const std::string half = "s3cret";
  PostgresqlServer server(
      {.tls = testing::PostgresqlTls{.user = "oncebox", .password = "another"}});
  const std::string port = std::to_string(server.port());
  const std::string host = "oncebox:" + secret + "@127.0.0.1:" + port;
  const std::vector<std::pair<std::string, ErrorCode>> bad{
      {"postgresql://" + host + "/postgres", ErrorCode::invalid_argument},  // a wrong password
      {"postgresql://oncebox:" + secret + "@127.0.0.1:1/x", ErrorCode::unavailable},
      {"postgresql://oncebox:" + secret + "@no-such-host.invalid/x", ErrorCode::unavailable},
      {"postgresql://oncebox:" + secret + "@127.0.0.1:port/x", ErrorCode::unavailable},
      {"postgresql://oncebox:" + secret + "%zz@127.0.0.1/x", ErrorCode::invalid_argument},
      {"postgresql://" + host + "/x?nonsense=" + secret, ErrorCode::invalid_argument},
      {"postgresql://" + host + "/x?password=" + secret + "&a", ErrorCode::invalid_argument},
      {"password=" + half + " nonsense=" + half, ErrorCode::invalid_argument},
      {"password=" + half + " s3cret", ErrorCode::invalid_argument},
      {"postgresql://[" + half, ErrorCode::invalid_argument}};
  for (const auto& [connection, code] : bad) {
    const Error error = opening_error(connection);
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).find(half), std::string::npos) << error.what();
    const Error migrating = error_of([&] { migrate(deploying(connection)); });
    EXPECT_EQ(std::string(migrating.what()).find(half), std::string::npos) << migrating.what();
  }

  server.execute("ALTER ROLE oncebox PASSWORD 's3cret &word'");
  server.execute("GRANT CREATE ON DATABASE postgres TO oncebox");
  PostgresqlStore store(deploying("postgresql://" + host + "/postgres?connect_timeout=60"));
  std::ostringstream lines;
  const SystemClock clock;
  {
    TextLogger logger(lines, clock, LogLevel::debug);
    Observer nobody;
    Inbox inbox(store, {}, {logger, nobody, clock});
    server.stop(testing::StopMode::immediate);
    const Error error =
        error_of([&] { inbox.enqueue({.key = {"shop", "1"}, .topic = "order.created"}); });
    EXPECT_TRUE(error.retryable());
    EXPECT_EQ(std::string(error.what()).find(half), std::string::npos) << error.what();
  }
  EXPECT_NE(lines.str().find("error"), std::string::npos) << lines.str();
  EXPECT_EQ(lines.str().find(half), std::string::npos) << lines.str();
  EXPECT_EQ(store.health().detail.find(half), std::string::npos) << store.health().detail;
}

/// A store on a server that stops taking writes.
class PostgresqlWithoutWrites : public ::testing::Test {
 protected:
  Error enqueue_error() {
    return error_of([&] { store_.inbox().enqueue({.key = {"shop", "1"}, .topic = "order"}); });
  }
  void expect_unavailable(std::string_view because) {
    for (int times = 0; times < 2; ++times) {
      const Health health = store_.health();
      EXPECT_EQ(health.status, HealthStatus::unavailable);
      EXPECT_NE(health.detail.find(because), std::string::npos) << health.detail;
    }
  }

  PostgresqlServer server_;
  PostgresqlStore store_{deploying(server_.url())};
};

TEST_F(PostgresqlWithoutWrites, IsUnavailableWhileTheServerOnlyReads) {
  ASSERT_EQ(store_.health().status, HealthStatus::healthy);
  server_.execute("ALTER DATABASE postgres SET default_transaction_read_only = on", "template1");
  server_.restart();
  (void)store_.health();  // notices that its connections are gone
  EXPECT_EQ(enqueue_error().code(), ErrorCode::unavailable);
  expect_unavailable("read-only");
  server_.execute("ALTER DATABASE postgres RESET default_transaction_read_only", "template1");
  EXPECT_EQ(store_.health().status, HealthStatus::healthy);
  EXPECT_TRUE(brings_work(store_.inbox().enqueue(Message{.key = {"shop", "1"}, .topic = "order"})));
}

TEST_F(PostgresqlWithoutWrites, IsUnavailableWhileItIsAStandby) {
  const std::unique_ptr<PostgresqlServer> standby = server_.make_standby();
  Options options = deploying(standby->url());
  options.schema_deployment = SchemaDeployment::off;
  PostgresqlStore store(options);
  EXPECT_EQ(store.health().status, HealthStatus::healthy) << "nobody has tried to write";
  const Error error =
      error_of([&] { store.inbox().enqueue({.key = {"shop", "1"}, .topic = "order"}); });
  EXPECT_EQ(error.code(), ErrorCode::unavailable) << error.what();
  EXPECT_EQ(store.health().status, HealthStatus::unavailable);
  standby->promote();
  EXPECT_EQ(store.health().status, HealthStatus::healthy);
}

TEST_F(PostgresqlWithoutWrites, IsUnavailableWhileTheDiskIsFull) {
  server_.execute(
      "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS "
      "$$BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END$$");
  for (const char* table : {"inbox_message", "inbox_past_content"}) {
    server_.execute(
        fmt::format("CREATE TRIGGER full_disk BEFORE INSERT ON {}.{}{} "
                    "FOR EACH ROW EXECUTE FUNCTION no_room()",
                    Options{}.schema, Options{}.table_prefix, table));
  }
  EXPECT_EQ(enqueue_error().code(), ErrorCode::overloaded);
  expect_unavailable("no room");
  server_.execute("DROP FUNCTION no_room CASCADE");
  EXPECT_EQ(store_.health().status, HealthStatus::healthy);
  EXPECT_EQ(server_.execute(fmt::format("SELECT count(*) FROM {}.{}inbox_past_content",
                                        Options{}.schema, Options{}.table_prefix)),
            "0");
}

TEST(PostgresqlPgBouncer, StoreWorksBehindItInTransactionMode) {
  const PostgresqlServer server;
  const testing::PgBouncer bouncer(server, {{"default_pool_size", "3"}});
  testing::FakeClock clock;
  Options options = deploying(bouncer.url());
  options.pooling = Pooling::transaction;
  PostgresqlStore store(options, clock);
  EXPECT_FALSE(store.capabilities().notifies);
  exercise(store, clock);

  // More clients than connections: two transactions of one call meet different servers.
  constexpr int kThreads = 6;
  constexpr int kMessages = 30;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        try {
          PostgresqlStore mine(options, clock);
          const OwnerToken owner = OwnerToken::generate();
          for (int i = 0; i < kMessages; ++i) {
            const std::string id = fmt::format("{}/{}", thread, i);
            mine.inbox().enqueue({.key = {"shop", MessageId(id)}, .topic = "order.created"});
            EXPECT_TRUE(mine.keys().begin({.key = IdempotencyKey(id)}).lease_id);
            for (const ClaimedMessage& one : mine.inbox().claim({.owner = owner, .limit = 2})) {
              EXPECT_EQ(mine.inbox().settle({.delivery = delivery_of(one)}), SettleStatus::settled);
            }
          }
        } catch (const Error& error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
  }
  const OwnerToken owner = OwnerToken::generate();
  for (const ClaimedMessage& one : store.inbox().claim({.owner = owner, .limit = 1'000})) {
    EXPECT_EQ(store.inbox().settle({.delivery = delivery_of(one)}), SettleStatus::settled);
  }
  const TopicStats total = store.inbox_operator().stats().total();
  EXPECT_EQ(total.ready + total.leased, 0U);
  EXPECT_GE(total.done, static_cast<std::size_t>(kThreads * kMessages));
}

TEST(PostgresqlPlans, StatementsGoByIndexes) {
  RecordProperty("requirement", "IBX-122,IBX-125");
  PostgresqlServer server({.settings = {{"session_preload_libraries", "auto_explain"},
                                        {"auto_explain.log_min_duration", "0"}}});
  {
    testing::FakeClock clock;
    PostgresqlStore store(deploying(server.url()), clock);
    exercise(store, clock);
  }
  server.stop();
  const std::string log = server.log();
  // One plan begins where the next line of the log does.
  std::set<std::string> used;
  std::set<std::string> read_whole;
  const std::regex scan(
      R"((Seq Scan|Index Scan using (\w+)|Index Only Scan using (\w+)) on (\w+))");
  bool is_report = false;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    // Who lists, counts or looks at everything may read everything.
    if (line.find("Query Text:") != std::string::npos) is_report = false;
    for (const char* const sign : {"count(*)", "sum(messages)", "ORDER BY m.id"}) {
      if (line.find(sign) != std::string::npos) is_report = true;
    }
    std::smatch found;
    if (!std::regex_search(line, found, scan)) continue;
    if (found[1] == "Seq Scan" && !is_report) read_whole.insert(found[4]);
    used.insert(found[2].str() + found[3].str());
  }
  for (const char* index :
       {"oncebox_inbox_work_claimable", "oncebox_inbox_work_leased", "oncebox_inbox_work_expiring",
        "oncebox_inbox_message_key", "oncebox_inbox_work_pkey", "oncebox_inbox_message_pkey",
        "oncebox_inbox_done_finished", "oncebox_inbox_work_dead", "oncebox_inbox_work_partition",
        "oncebox_inbox_run_claimable", "oncebox_inbox_run_pkey", "oncebox_inbox_done_run_pkey",
        "oncebox_key_pkey", "oncebox_key_keep_until"}) {
    EXPECT_TRUE(used.contains(index)) << index;
  }
  // These have one row, or a few.
  const std::set<std::string> small{"oncebox_schema", "oncebox_policy_version",
                                    "oncebox_topic_policy", "oncebox_inbox_worker",
                                    "oncebox_outbox_worker"};
  for (const std::string& table : read_whole) {
    EXPECT_TRUE(small.contains(table) || table.ends_with("_done_count") ||
                !table.starts_with("oncebox"))
        << table;
  }
}

}  // namespace
}  // namespace oncebox::postgresql
