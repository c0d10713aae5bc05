// How the schema comes to be, and how its parts are named.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "cutting_proxy.hpp"
#include "error_of.hpp"
#include "exercise.hpp"
#include "messages.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "schema.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

class PostgresqlSchemaTest : public ::testing::Test {
 protected:
  [[nodiscard]] Options options(SchemaDeployment deployment = SchemaDeployment::on) const {
    Options options = space_.options();
    options.schema_deployment = deployment;
    return options;
  }

  static Error opening_error(const Options& options) {
    return error_of([&] { const PostgresqlStore store(options); });
  }

  [[nodiscard]] bool schema_exists() {
    return space_.number("SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'") == 1;
  }

  /// Everything in the schema: tables, indexes, sequences and views, and their numbers.
  [[nodiscard]] std::string contents() {
    return space_.text(
        "SELECT coalesce(string_agg(relname || ' ' || relkind::text || ' ' || oid::text, ', ' "
        "ORDER BY "
        "relname),"
        " '') FROM pg_class WHERE relnamespace = "
        "(SELECT oid FROM pg_namespace WHERE nspname = '{schema}')");
  }

  void set_version(int version) {
    space_.run("UPDATE {schema}.oncebox_schema SET version = " + std::to_string(version));
  }

  TestSpace space_;
};

TEST_F(PostgresqlSchemaTest, WithDeploymentOffAMissingSchemaIsAClearErrorAndNothingIsCreated) {
  RecordProperty("requirement", "IBX-115");
  const Error error = opening_error(options(SchemaDeployment::off));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_NE(std::string(error.what()).find("migrate"), std::string::npos) << error.what();
  EXPECT_FALSE(schema_exists());
}

TEST_F(PostgresqlSchemaTest, DeploymentIsOffUnlessItIsAskedFor) {
  RecordProperty("requirement", "IBX-115");
  Options options = space_.options();
  options.schema_deployment = Options{}.schema_deployment;
  EXPECT_EQ(opening_error(options).code(), ErrorCode::conflict);
  EXPECT_FALSE(schema_exists());
}

TEST_F(PostgresqlSchemaTest, WithDeploymentOffASchemaOfOthersIsLeftAsItIs) {
  RecordProperty("requirement", "IBX-115");
  space_.run("CREATE SCHEMA {schema}");
  space_.run("CREATE TABLE {schema}.orders (id bigint)");
  const std::string before = contents();
  EXPECT_EQ(opening_error(options(SchemaDeployment::off)).code(), ErrorCode::conflict);
  EXPECT_EQ(contents(), before);
}

TEST_F(PostgresqlSchemaTest, OpeningCreatesTheSchemaAndMigratingAgainChangesNothing) {
  RecordProperty("requirement", "IBX-114,IBX-116,IBX-117");
  PostgresqlStore store(options());
  const std::string created = contents();
  for (const char* table : {"oncebox_inbox_message", "oncebox_inbox_work", "oncebox_inbox_done",
                            "oncebox_outbox_message", "oncebox_outbox_work", "oncebox_outbox_done",
                            "oncebox_key", "oncebox_schema"}) {
    EXPECT_NE(created.find(std::string(table) + " r "), std::string::npos) << created;
  }
  for (const char* index : {"oncebox_inbox_message_key", "oncebox_inbox_work_claimable",
                            "oncebox_inbox_work_leased", "oncebox_key_pkey"}) {
    EXPECT_NE(created.find(std::string(index) + " i "), std::string::npos) << created;
  }
  store.inbox().enqueue(message("a"));
  for (const MigrationResult again :
       {store.migrate(), migrate(options()), migrate(options(SchemaDeployment::off))}) {
    EXPECT_EQ(again.from_version, kSchemaVersion);
    EXPECT_EQ(again.to_version, kSchemaVersion);
  }
  EXPECT_EQ(contents(), created);
  EXPECT_TRUE(store.inbox().find({"shop", "a"}));
  EXPECT_EQ(store.health().status, HealthStatus::healthy);
}

TEST_F(PostgresqlSchemaTest, SchemaCanBeMadeApartAndThenBeUsedWithoutDeployment) {
  RecordProperty("requirement", "IBX-114,IBX-115");
  const MigrationResult made = migrate(options(SchemaDeployment::off));
  EXPECT_EQ(made.from_version, 0);
  EXPECT_EQ(made.to_version, kSchemaVersion);
  PostgresqlStore store(options(SchemaDeployment::off));
  EXPECT_EQ(store.inbox().enqueue(message("a")).status, EnqueueStatus::accepted);
}

TEST_F(PostgresqlSchemaTest, SchemaOfVersion1IsBroughtUpToDateWithWhatIsInIt) {
  RecordProperty("requirement", "IBX-116,IBX-117");
  {
    PostgresqlStore store(options());
    store.inbox().enqueue(message("a"));
    store.inbox().mark({.key = {"shop", "a"}, .as = MarkAs::dead, .error = "no"});
  }
  for (const char* const queue : {"inbox", "outbox"}) {
    space_.run(
        fmt::format("DROP TABLE {{schema}}.oncebox_{0}_past_content, "
                    "{{schema}}.oncebox_{0}_worker, {{schema}}.oncebox_{0}_attempt",
                    queue));
    for (const char* const part : {"work", "run"}) {
      space_.run(
          fmt::format("ALTER TABLE {{schema}}.oncebox_{}_{} DROP COLUMN leased_at CASCADE, "
                      "DROP COLUMN worker CASCADE",
                      queue, part));
    }
  }
  for (const char* const table : {"message", "work", "done", "run", "done_run", "done_count",
                                  "priority", "past_content", "worker", "attempt"}) {
    space_.run(fmt::format("DROP TABLE {{schema}}.oncebox_deliveries_{} CASCADE", table));
  }
  for (const char* const sequence : {"numbers", "deliveries"}) {
    space_.run(fmt::format("DROP SEQUENCE {{schema}}.oncebox_deliveries_{}", sequence));
  }
  for (const char* const table :
       {"audit", "topic_policy", "policy_version", "endpoint", "endpoint_version"}) {
    space_.run(fmt::format("DROP TABLE {{schema}}.oncebox_{}", table));
  }
  set_version(1);
  EXPECT_EQ(opening_error(options(SchemaDeployment::off)).code(), ErrorCode::conflict);
  EXPECT_EQ(migrate(options()).from_version, 1);
  PostgresqlStore store(options(SchemaDeployment::off));
  const std::vector<EditedMessage> edits{{.key = {"shop", "a"}, .payload = "new"}};
  EXPECT_EQ(store.inbox_operator().revive_edited(edits), std::vector{ReviveOutcome::revived});
  EXPECT_EQ(store.inbox_operator().past_contents({"shop", "a"}).size(), 1U);
  store.audit().begin({.actor = "alice"});
  EXPECT_EQ(store.audit().list().records.size(), 1U);
}

TEST_F(PostgresqlSchemaTest, NewerSchemaIsRefused) {
  RecordProperty("requirement", "IBX-116");
  PostgresqlStore store(options());
  set_version(kSchemaVersion + 1);
  for (const auto deployment : {SchemaDeployment::on, SchemaDeployment::off}) {
    const Error error = opening_error(options(deployment));
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_NE(std::string(error.what()).find("newer"), std::string::npos) << error.what();
  }
  EXPECT_EQ(error_of([&] { store.migrate(); }).code(), ErrorCode::conflict);
  EXPECT_EQ(store.health().status, HealthStatus::unavailable);
}

TEST_F(PostgresqlSchemaTest, TenMayCreateItAtOnce) {
  RecordProperty("requirement", "IBX-116");
  constexpr int kMany = 10;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kMany; ++i) {
      threads.emplace_back([this, i] {
        Options mine = options();
        mine.max_connections = 1;
        try {
          PostgresqlStore store(mine);
          store.inbox().enqueue(message(std::to_string(i)));
        } catch (const Error& error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
  }
  EXPECT_EQ(space_.number("SELECT count(*) FROM {schema}.oncebox_inbox_message"), kMany);
  EXPECT_EQ(space_.number("SELECT count(*) FROM {schema}.oncebox_schema"), 1);
}

TEST_F(PostgresqlSchemaTest, MigrationThatIsCutShortLeavesNothing) {
  RecordProperty("requirement", "IBX-116");
  CuttingProxy proxy(testing::shared_postgresql_url());
  Options through_proxy = options();
  through_proxy.connection = proxy.connection();
  for (const int step : {0, 3, 20, 40}) {
    proxy.cut_before(step);
    EXPECT_TRUE(error_of([&] { migrate(through_proxy); }).retryable()) << step;
    EXPECT_TRUE(proxy.disarm()) << step;
    EXPECT_FALSE(schema_exists()) << step;
  }
  EXPECT_EQ(migrate(through_proxy).to_version, kSchemaVersion);
}

TEST_F(PostgresqlSchemaTest, TablesThatAreGoneAreAClearError) {
  PostgresqlStore store(options());
  space_.run("DROP SCHEMA {schema} CASCADE");
  const Error error = error_of([&] { store.inbox().enqueue(message("a")); });
  EXPECT_EQ(error.code(), ErrorCode::conflict) << error.what();
  EXPECT_EQ(store.health().status, HealthStatus::unavailable);
}

TEST_F(PostgresqlSchemaTest, TwoPrefixesAreTwoStoresInOneSchema) {
  Options first = options();
  Options second = options();
  second.table_prefix = "";
  PostgresqlStore one(first);
  PostgresqlStore two(second);
  EXPECT_EQ(one.inbox().enqueue(message("a")).status, EnqueueStatus::accepted);
  EXPECT_EQ(two.inbox().enqueue(message("a")).status, EnqueueStatus::accepted);
  EXPECT_EQ(space_.number("SELECT count(*) FROM {schema}.inbox_message"), 1);
}

TEST(PostgresqlNames, OddButValidOnesWork) {
  RecordProperty("requirement", "IBX-114");
  const std::string longest(32, 'P');
  for (const std::string& prefix : {std::string("Select"), std::string("_1"), longest}) {
    SCOPED_TRACE(prefix);
    const TestSpace space("Order");
    testing::FakeClock clock;
    Options options = space.options();
    options.table_prefix = prefix;
    PostgresqlStore store(options, clock);
    exercise(store, clock);
  }
}

TEST(PostgresqlNames, WhatIsNoPlainIdentifierIsRefusedBeforeAnybodyIsAsked) {
  const std::string nowhere = "postgresql://127.0.0.1:1/nothing";
  for (const std::string& name :
       {std::string("x\"; DROP SCHEMA public CASCADE; --"), std::string("x'; SELECT 1; --"),
        std::string("a b"), std::string("a.b"), std::string("1a"), std::string("a-b"),
        std::string("a\\"), std::string("\xC3\xA4"), std::string("a\0b", 3), std::string("{key}"),
        std::string(33, 'a')}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(error_of([&] { PostgresqlStore({.connection = nowhere, .schema = name}); }).code(),
              ErrorCode::invalid_argument);
    EXPECT_EQ(
        error_of([&] { PostgresqlStore({.connection = nowhere, .table_prefix = name}); }).code(),
        ErrorCode::invalid_argument);
    EXPECT_EQ(error_of([&] { migrate({.connection = nowhere, .schema = name}); }).code(),
              ErrorCode::invalid_argument);
  }
  EXPECT_EQ(error_of([&] { PostgresqlStore({.connection = nowhere, .schema = ""}); }).code(),
            ErrorCode::invalid_argument);
}

TEST(PostgresqlOptions, NumbersOutsideTheirRangesAreRefusedBeforeAnybodyIsAsked) {
  const std::string nowhere = "postgresql://127.0.0.1:1/nothing";
  const std::vector<Options> bad{
      {.connection = nowhere, .max_connections = 0},
      {.connection = nowhere, .max_connections = 1'001},
      {.connection = nowhere, .call_timeout = std::chrono::milliseconds{99}},
      {.connection = nowhere, .call_timeout = std::chrono::milliseconds{-1}},
      {.connection = nowhere, .call_timeout = std::chrono::hours{2}},
      {.connection = nowhere, .connect_timeout = std::chrono::seconds{0}},
      {.connection = nowhere, .max_payload_bytes = 0},
      {.connection = nowhere, .max_payload_bytes = std::size_t{1} << 40}};
  for (const Options& options : bad) {
    EXPECT_EQ(error_of([&] { const PostgresqlStore store(options); }).code(),
              ErrorCode::out_of_range);
    EXPECT_EQ(error_of([&] { migrate(options); }).code(), ErrorCode::out_of_range);
  }
}

}  // namespace
}  // namespace oncebox::postgresql
