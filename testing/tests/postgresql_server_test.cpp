#include "oncebox/testing/postgresql_server.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "oncebox/error.hpp"

namespace oncebox::testing {
namespace {

TEST(PostgresqlServer, TakesConnectionsAndIsRemovedWithTheObject) {
  std::string folder;
  {
    PostgresqlServer server;
    folder = server.socket_folder();
    EXPECT_EQ(server.execute("SELECT 1, NULL, 'two'"), "1||two");
    EXPECT_EQ(server.execute("SELECT generate_series(1, 3)"), "1\n2\n3");
    EXPECT_TRUE(std::filesystem::exists(folder));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(PostgresqlServer, KeepsItsDataAndPlaceThroughRestartsAndKills) {
  PostgresqlServer server({.durable = true, .settings = {{"application_name", "it's \\ us"}}});
  const std::string url = server.url();
  EXPECT_EQ(server.execute("SHOW fsync"), "on");
  EXPECT_EQ(server.execute("SHOW application_name"), "it's \\ us");
  server.execute("CREATE TABLE kept AS SELECT 1 AS number");
  server.restart();
  server.execute("INSERT INTO kept VALUES (2)");

  server.kill();
  EXPECT_FALSE(server.running());
  EXPECT_THROW(server.execute("SELECT 1"), Error);
  server.start();
  EXPECT_EQ(server.execute("SELECT number FROM kept"), "1\n2");
  EXPECT_NE(server.log().find("was interrupted"), std::string::npos) << server.log();

  server.stop(StopMode::immediate);
  EXPECT_FALSE(server.running());
  server.start();
  EXPECT_EQ(server.execute("SELECT count(*) FROM kept"), "2");
  EXPECT_EQ(server.url(), url);
}

}  // namespace
}  // namespace oncebox::testing
