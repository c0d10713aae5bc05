// Stores that a control database lists.

#include "oncebox/postgresql/query_discovery.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "error_of.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

class PostgresqlQueryDiscoveryTest : public ::testing::Test {
 protected:
  PostgresqlQueryDiscoveryTest() {
    space_.run("CREATE SCHEMA \"{schema}\"");
    space_.run("CREATE TABLE \"{schema}\".tenant (id integer, name text, url text)");
    space_.run(
        "INSERT INTO \"{schema}\".tenant VALUES (7, 'acme', 'postgresql://a:s3cret@h/a'), "
        "(9, 'zenith', NULL)");
  }

  /// `{tenant}` in it stands for the table.
  [[nodiscard]] QueryDiscoveryOptions options(std::string query) const {
    const std::string table = "\"" + space_.schema() + "\".tenant";
    for (std::size_t at = 0; (at = query.find("{tenant}")) != std::string::npos;) {
      query.replace(at, 8, table);
    }
    return {.connection = space_.options().connection,
            .query = std::move(query),
            .connect_timeout = std::chrono::seconds{60}};
  }
  [[nodiscard]] std::vector<StoreLocation> discover(const std::string& query) const {
    return discover_by_query(options(query))();
  }

  TestSpace space_{"discovery"};
};

TEST_F(PostgresqlQueryDiscoveryTest, EachDiscoveryAsksAgain) {
  RecordProperty("requirement", "IBX-093");
  const StoreDiscovery discovery = discover_by_query(
      options("SELECT name, url FROM {tenant} WHERE url IS NOT NULL ORDER BY name -- all ;\n ;"));
  const StoreLocation acme{"acme", "postgresql://a:s3cret@h/a"};
  EXPECT_EQ(discovery(), std::vector<StoreLocation>{acme});
  space_.run("UPDATE \"{schema}\".tenant SET url = 'memory:' WHERE url IS NULL");
  EXPECT_EQ(discovery(), (std::vector<StoreLocation>{acme, {"zenith", "memory:"}}));
  space_.run("DELETE FROM \"{schema}\".tenant");
  EXPECT_TRUE(discovery().empty());
}

TEST_F(PostgresqlQueryDiscoveryTest, NumbersAndUuidsAreNamesToo) {
  EXPECT_EQ(discover("SELECT id, 'memory:' FROM {tenant} WHERE id = 7").front().name, "7");
  EXPECT_EQ(discover("SELECT '8a1c1ab0-0000-4000-8000-000000000001'::uuid, 'memory:'::varchar")
                .front()
                .name,
            "8a1c1ab0-0000-4000-8000-000000000001");
}

TEST_F(PostgresqlQueryDiscoveryTest, ItWorksThroughAPoolerToo) {
  QueryDiscoveryOptions pooled = options("SELECT name, 'memory:' FROM {tenant}");
  pooled.pooling = Pooling::transaction;
  EXPECT_EQ(discover_by_query(pooled)().size(), 2U);
}

TEST_F(PostgresqlQueryDiscoveryTest, AConnectionIsClosedAgain) {
  const StoreDiscovery discovery =
      discover_by_query(options("SELECT 'pid-' || pg_backend_pid(), 'memory:'"));
  const std::string first = discovery().front().name;
  const std::string second = discovery().front().name;
  EXPECT_NE(first, second);
  for (const std::string& name : {first, second}) {
    // A backend ends a moment after its client has gone.
    const auto is_there = [&] {
      return space_.number("SELECT count(*) FROM pg_stat_activity WHERE pid = " + name.substr(4));
    };
    const auto until = deadline_in(std::chrono::seconds{60});
    while (is_there() > 0 && time_left(until).count() > 0) {
    }
    EXPECT_EQ(is_there(), 0);
  }
}

TEST_F(PostgresqlQueryDiscoveryTest, AQueryCanOnlyRead) {
  space_.run(
      "CREATE FUNCTION \"{schema}\".sweep() RETURNS text LANGUAGE sql AS "
      "'DELETE FROM \"{schema}\".tenant; SELECT ''x'''");
  const std::string sweep = "\"" + space_.schema() + "\".sweep()";
  for (const std::string& query :
       {std::string("DELETE FROM {tenant} RETURNING name, url"),
        std::string("WITH gone AS (DELETE FROM {tenant} RETURNING *) SELECT name, url FROM gone"),
        "SELECT 'a', " + sweep, std::string("SELECT 'a', 'b') AS x; DELETE FROM {tenant} --")}) {
    (void)error_of([&] { (void)discover(query); });
  }
  EXPECT_EQ(space_.number("SELECT count(*) FROM \"{schema}\".tenant"), 2);
}

TEST_F(PostgresqlQueryDiscoveryTest, WhatIsNoListOfStoresIsRefusedAndNoUrlIsShown) {
  for (const char* const query :
       {"SELECT name FROM {tenant}", "SELECT name, url, id FROM {tenant}", "SELECT nonsense",
        "SELECT name, url FROM {tenant}", "SELECT url, name FROM {tenant}",
        "SELECT NULL, url FROM {tenant}", "SELECT name, url::integer FROM {tenant}",
        "SELECT 'a', url FROM {tenant} WHERE id = 7 UNION ALL SELECT 'a', url FROM {tenant} "
        "WHERE id = 7",
        "SELECT generate_series(1, 1000000), 'memory:s3cret'"}) {
    const Error error = error_of([&] { (void)discover(query); });
    EXPECT_EQ(std::string(error.what()).find("s3cret"), std::string::npos) << error.what();
  }
  const Error null = error_of([&] { (void)discover("SELECT name, url FROM {tenant} ORDER BY 1"); });
  EXPECT_STREQ(null.what(), "row 2: the url is null");
  const Error missing = error_of([&] { (void)discover("SELECT * FROM tenants"); });
  EXPECT_NE(std::string(missing.what()).find("\"tenants\" does not exist"), std::string::npos)
      << missing.what();
  (void)error_of([&] { (void)discover_by_query({.connection = "host=x", .query = " ; "}); });
}

TEST_F(PostgresqlQueryDiscoveryTest, AQueryThatTakesTooLongIsEndedByTheServer) {
  QueryDiscoveryOptions slow = options("SELECT 'a', pg_sleep(60)::text");
  slow.timeout = std::chrono::milliseconds{100};
  const Error error = error_of([&] { (void)discover_by_query(slow)(); });
  EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
}

}  // namespace
}  // namespace oncebox::postgresql
