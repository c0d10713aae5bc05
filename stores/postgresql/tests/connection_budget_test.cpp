// The connections that the stores of one process have to a server together.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "connection_pool.hpp"
#include "error_of.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "oncebox/testing/postgresql_server.hpp"
#include "oncebox/testing/shared_postgresql.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;

class IdleListener final : public WorkListener {
 public:
  void on_work() noexcept override {}
};

class ConnectionBudgetTest : public ::testing::Test {
 protected:
  /// Connections to the shared server that belong to this test alone.
  [[nodiscard]] Options options(std::shared_ptr<ConnectionBudget> budget) const {
    return {.connection = testing::shared_postgresql_url(),
            .max_connections = 4,
            .call_timeout = 60s,
            .connect_timeout = 60s,
            .budget = std::move(budget)};
  }
  static Deadline soon() { return deadline_in(20ms); }
  static Deadline patient() { return deadline_in(60s); }
};

TEST_F(ConnectionBudgetTest, ConnectionThatNobodyUsesGivesWay) {
  const auto budget = std::make_shared<ConnectionBudget>(2);
  ConnectionPool one(options(budget));
  ConnectionPool two(options(budget));
  {
    const auto first = one.acquire(patient());
    const auto second = one.acquire(patient());
    EXPECT_EQ(budget->open(), 2U);
    EXPECT_EQ(error_of([&] { (void)two.acquire(soon()); }).code(), ErrorCode::timeout)
        << "both are in use";
  }
  const auto mine = two.acquire(patient());
  const auto another = two.acquire(patient());
  EXPECT_EQ(budget->open(), 2U);
  EXPECT_EQ(error_of([&] { (void)one.acquire(soon()); }).code(), ErrorCode::timeout);
}

TEST_F(ConnectionBudgetTest, CallWaitsForItsTurnAlsoBehindAStoreThatIsNeverIdle) {
  const auto budget = std::make_shared<ConnectionBudget>(2);
  ConnectionPool busy(options(budget));
  ConnectionPool quiet(options(budget));
  std::atomic<bool> served = false;
  std::atomic<int> calls = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!served) {
        const auto connection = busy.acquire(patient());
        connection->run_text("SELECT 1", Exchange::changes_nothing, patient());
        ++calls;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const auto connection = quiet.acquire(patient());
    connection->run_text("SELECT 1", Exchange::changes_nothing, patient());
  }
  served = true;
  threads.clear();
  EXPECT_GT(calls, 0);
  EXPECT_LE(budget->open(), 2U);
}

TEST_F(ConnectionBudgetTest, CallsThatWaitTogetherOpenNoMoreThanTheirStoreMay) {
  const auto budget = std::make_shared<ConnectionBudget>(3);
  Options narrow = options(budget);
  narrow.max_connections = 1;
  ConnectionPool many(options(budget));
  ConnectionPool one(narrow);
  std::atomic<int> in_use = 0;
  std::atomic<int> most = 0;
  std::vector<std::jthread> threads;
  {
    std::vector<ConnectionPool::Lease> all;
    for (int i = 0; i < 3; ++i) all.push_back(many.acquire(patient()));
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        const auto connection = one.acquire(patient());
        most = std::max<int>(most, ++in_use);
        connection->run_text("SELECT pg_sleep(0.05)", Exchange::changes_nothing, patient());
        --in_use;
      });
    }
    all.front()->run_text("SELECT pg_sleep(0.2)", Exchange::changes_nothing, patient());
  }
  threads.clear();
  EXPECT_EQ(most, 1);
  EXPECT_LE(budget->open(), 3U);
}

TEST_F(ConnectionBudgetTest, PlaceOfAStoreThatIsClosedIsFree) {
  const auto budget = std::make_shared<ConnectionBudget>(1);
  ConnectionPool stays(options(budget));
  {
    ConnectionPool leaves(options(budget));
    (void)leaves.acquire(patient());
  }
  EXPECT_EQ(budget->open(), 0U);
  (void)stays.acquire(patient());
  EXPECT_EQ(budget->open(), 1U);
}

TEST_F(ConnectionBudgetTest, ConnectionThatCannotBeOpenedLeavesItsPlace) {
  const auto budget = std::make_shared<ConnectionBudget>(1);
  Options nowhere = options(budget);
  nowhere.connection = "postgresql://127.0.0.1:1/nothing";
  ConnectionPool lost(nowhere);
  EXPECT_EQ(error_of([&] { (void)lost.acquire(patient()); }).code(), ErrorCode::unavailable);
  EXPECT_EQ(budget->open(), 0U);
}

TEST_F(ConnectionBudgetTest, HalfOfTheBudgetMayListen) {
  const auto budget = std::make_shared<ConnectionBudget>(5);
  std::vector<std::unique_ptr<ConnectionPool>> pools;
  for (int i = 0; i < 4; ++i) pools.push_back(std::make_unique<ConnectionPool>(options(budget)));
  EXPECT_TRUE(pools[0]->may_listen());
  EXPECT_TRUE(pools[1]->may_listen());
  EXPECT_FALSE(pools[2]->may_listen());
  EXPECT_FALSE(pools[3]->may_listen());
  const auto place = pools[0]->acquire_place(patient());
  EXPECT_EQ(budget->open(), 1U);
  pools.erase(pools.begin() + 1);
  EXPECT_TRUE(ConnectionPool(options(budget)).may_listen()) << "one of them has left";
  EXPECT_TRUE(ConnectionPool(options(nullptr)).may_listen());
}

TEST_F(ConnectionBudgetTest, ConnectionThatWasNotUsedForLongIsClosedByTheNextCallOfAny) {
  const auto budget = std::make_shared<ConnectionBudget>(8);
  Options forgetful = options(budget);
  forgetful.idle_timeout = 1s;
  testing::ManualClock clock;
  ConnectionPool idle(forgetful, clock);
  ConnectionPool busy(options(budget), clock);
  (void)idle.acquire(patient());
  clock.advance(999ms);
  (void)busy.acquire(patient());
  EXPECT_EQ(budget->open(), 2U);
  clock.advance(1ms);
  (void)busy.acquire(patient());
  EXPECT_EQ(budget->open(), 1U) << "only the one that is in use again and again";
}

TEST(ConnectionBudgetOfAServer, TwentyDatabasesWorkAtOnceOnEightConnections) {
  testing::PostgresqlServer server;
  constexpr int kDatabases = 20;
  constexpr std::size_t kConnections = 8;
  const auto budget = std::make_shared<ConnectionBudget>(kConnections);
  std::vector<std::unique_ptr<PostgresqlStore>> stores;
  for (int i = 0; i < kDatabases; ++i) {
    const std::string name = fmt::format("tenant_{}", i);
    server.execute("CREATE DATABASE " + name);
    stores.push_back(
        std::make_unique<PostgresqlStore>(Options{.connection = server.url(name),
                                                  .schema_deployment = SchemaDeployment::on,
                                                  .call_timeout = 60s,
                                                  .connect_timeout = 60s,
                                                  .budget = budget}));
  }
  std::atomic<bool> done = false;
  std::size_t most = 0;
  std::jthread watcher([&] {
    const auto count = [&] {
      return std::stoul(
          server.execute("SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'tenant_%'"));
    };
    const Deadline give_up = deadline_in(60s);
    do {
      // The process of a connection that was closed is waited for, but not for ever; on a busy
      // machine it may still be there for a moment.
      std::size_t now = count();
      while (now > kConnections && time_left(give_up) > 0ms) now = count();
      most = std::max(most, now);
    } while (!done);
  });
  std::atomic<int> handled = 0;
  const auto listener = std::make_shared<IdleListener>();
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < stores.size(); ++i) {
    threads.emplace_back([&, i] {
      PostgresqlStore& store = *stores[i];
      store.inbox().listen(listener);
      for (int n = 0; n < 10; ++n) {
        store.inbox().enqueue({.key = {"shop", std::to_string(n)}, .topic = "t"});
        for (const auto& one : store.inbox().claim({.owner = OwnerToken::generate()})) {
          store.inbox().settle({.delivery = delivery_of(one)});
          ++handled;
        }
      }
    });
  }
  threads.clear();
  done = true;
  watcher.join();
  EXPECT_EQ(handled, kDatabases * 10);
  EXPECT_LE(most, kConnections);
  EXPECT_GT(most, 1U);
  std::size_t notifying = 0;
  for (const auto& store : stores) notifying += store->capabilities().notifies ? 1U : 0U;
  EXPECT_EQ(notifying, kConnections / 2);
}

TEST(ConnectionBudgetOfAServer, ServersAreToldApartByHostAndPort) {
  EXPECT_EQ(server_of("postgresql://me:secret@db1:5433/a?sslmode=require"),
            server_of("host=db1 port=5433 dbname=b user=you"));
  EXPECT_NE(server_of("postgresql://db1:5433/a"), server_of("postgresql://db1:5434/a"));
  EXPECT_NE(server_of("postgresql://db1/a"), server_of("postgresql://db2/a"));
  EXPECT_EQ(server_of("postgresql://me:secret@db1/a").find("secret"), std::string::npos);
  EXPECT_EQ(error_of([] { (void)server_of("postgresql://%zz"); }).code(),
            ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([] { const ConnectionBudget none(0); }).code(), ErrorCode::out_of_range);
}

}  // namespace
}  // namespace oncebox::postgresql
