// Stores that a control database lists.

#include "oncebox/sqlite/query_discovery.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "connection.hpp"
#include "oncebox/internal/location_list.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox::sqlite {
namespace {

class SqliteQueryDiscoveryTest : public ::testing::Test {
 protected:
  SqliteQueryDiscoveryTest() {
    execute("PRAGMA journal_mode = WAL");
    execute("CREATE TABLE tenant (name, url, plan TEXT)");
  }

  void execute(const std::string& sql) const { Connection({.path = path()}).execute(sql); }
  [[nodiscard]] std::string path() const { return folder_.file("control.db"); }
  [[nodiscard]] StoreDiscovery discovery(
      std::string query = "SELECT name, url FROM tenant ORDER BY name;") const {
    return discover_by_query({.path = path(), .query = std::move(query)});
  }
  [[nodiscard]] Error error_of(const std::string& query) const {
    try {
      (void)discovery(query)();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "expected an error: " << query;
    return {ErrorCode::internal, "none"};
  }

  testing::TemporaryFolder folder_;
};

TEST_F(SqliteQueryDiscoveryTest, EachDiscoveryAsksAgain) {
  RecordProperty("requirement", "IBX-093");
  const StoreDiscovery discover = discovery();
  EXPECT_TRUE(discover().empty());
  execute("INSERT INTO tenant VALUES ('b', 'sqlite:b.db', ''), (7, 'memory:', '')");
  const std::vector<StoreLocation> two{{"7", "memory:"}, {"b", "sqlite:b.db"}};
  EXPECT_EQ(discover(), two);
  execute("DELETE FROM tenant WHERE name = 'b'");
  EXPECT_EQ(discover().size(), 1U);
}

TEST_F(SqliteQueryDiscoveryTest, ADatabaseThatIsNotThereIsNotMade) {
  const StoreDiscovery discover =
      discover_by_query({.path = folder_.file("none.db"), .query = "SELECT 'a', 'memory:'"});
  EXPECT_THROW((void)discover(), Error);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("none.db")));
}

TEST_F(SqliteQueryDiscoveryTest, AQueryCanOnlyRead) {
  execute("INSERT INTO tenant VALUES ('a', 'memory:', '')");
  for (const char* const query :
       {"DELETE FROM tenant RETURNING name, url", "DELETE FROM tenant", "DROP TABLE tenant",
        "UPDATE tenant SET url = 'x' RETURNING name, url"}) {
    EXPECT_EQ(error_of(query).code(), ErrorCode::invalid_argument) << query;
  }
  EXPECT_EQ(discovery()().size(), 1U);
}

TEST_F(SqliteQueryDiscoveryTest, WhatIsNoListOfStoresIsRefusedAndNoUrlIsShown) {
  execute("INSERT INTO tenant VALUES ('a', 'memory:s3cret', ''), ('b', NULL, 's3cret')");
  for (const char* const query :
       {"SELECT name FROM tenant", "SELECT name, url, plan FROM tenant", "SELECT nonsense",
        "SELECT * FROM nothing", "SELECT name, url FROM tenant", "SELECT url, name FROM tenant",
        "SELECT NULL, url FROM tenant",
        "SELECT 'a', url FROM tenant WHERE name = 'a' UNION ALL "
        "SELECT 'a', url FROM tenant",
        "-- nothing"}) {
    const std::string text = error_of(query).what();
    EXPECT_EQ(text.find("s3cret"), std::string::npos) << text;
  }
  EXPECT_STREQ(error_of("SELECT name, url FROM tenant").what(), "row 2: the url is null");
  EXPECT_THROW((void)discovery(" ;\n"), Error);
  EXPECT_THROW((void)discover_by_query({.path = "", .query = "SELECT 1, 2"}), Error);
}

TEST_F(SqliteQueryDiscoveryTest, AQueryThatTakesTooLongIsEnded) {
  const StoreDiscovery endless =
      discover_by_query({.path = path(),
                         .query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                                  "SELECT max(i), 'memory:' FROM n",
                         .timeout = std::chrono::milliseconds{50}});
  try {
    (void)endless();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
  }
}

TEST_F(SqliteQueryDiscoveryTest, ThereAreNotMoreStoresThanASetMayHave) {
  EXPECT_EQ(error_of("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                     "SELECT i, 'memory:' FROM n")
                .code(),
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace oncebox::sqlite
