#include "oncebox/testing/postgresql_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "oncebox/error.hpp"
#include "oncebox/testing/child_process.hpp"
#include "program_output.hpp"
#include "server_certificate.hpp"
#include "server_folder.hpp"

namespace oncebox::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(PostgresqlServer, AnswersToClientsAndIsRemovedWithTheObject) {
  std::string folder;
  {
    PostgresqlServer server;
    folder = server.socket_folder();
    EXPECT_EQ(server.execute("SELECT 1, NULL, 'two'"), "1||two");
    EXPECT_EQ(server.execute("SELECT generate_series(1, 3)"), "1\n2\n3");
    server.execute("CREATE DATABASE \"of ours\"");
    EXPECT_EQ(psql(server.url("of ours"), "SELECT current_database()"), "of ours\n");
    EXPECT_EQ(psql(server.socket_url("of ours"), "SELECT inet_server_addr() IS NULL"), "t\n");
    EXPECT_TRUE(std::filesystem::exists(folder));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(PostgresqlServer, KeepsItsDataAndPlaceThroughRestartsAndKills) {
  const ServerFolder disk("disk");
  {
    PostgresqlServer server(
        {.durable = true, .settings = {{"application_name", "it's \\ us"}}, .folder = disk.path()});
    const std::string url = server.url();
    EXPECT_TRUE(server.execute("SHOW data_directory").starts_with(disk.path() + "/"));
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
    EXPECT_THAT(server.log(), HasSubstr("was interrupted"));

    server.stop(StopMode::immediate);
    EXPECT_FALSE(server.running());
    server.start();
    EXPECT_EQ(server.execute("SELECT count(*) FROM kept"), "2");
    EXPECT_EQ(server.url(), url);
    server.kill();
  }
  EXPECT_TRUE(std::filesystem::is_empty(disk.path()));
}

TEST(PostgresqlServer, AnswersNobodyWhilePaused) {
  std::string folder;
  {
    PostgresqlServer server;
    folder = server.socket_folder();
    server.pause();
    EXPECT_TRUE(server.running());
    ChildProcess client({"psql", "-X", "-q", "-c", "SET work_mem = '4MB'", server.url()});
    EXPECT_EQ(client.wait_for(200ms), std::nullopt);
    server.resume();
    const auto status = client.wait_for(60s);
    EXPECT_TRUE(status && exited_well(*status)) << server.log();

    server.pause();
    server.restart();
    EXPECT_EQ(server.execute("SELECT 1"), "1");
    server.pause();
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(PostgresqlServer, WithTlsLetsInTheUserWithThePasswordWhoCanVerifyIt) {
  const PostgresqlServer server({.tls = PostgresqlTls{.user = "o'user", .password = "p@ss/'word"}});
  const std::string verified = server.url() + "?sslmode=verify-full&sslrootcert=";
  EXPECT_EQ(psql(verified + server.ca_certificate(),
                 "CREATE TABLE public.mine AS SELECT ssl FROM pg_stat_ssl"
                 " WHERE pid = pg_backend_pid(); SELECT * FROM mine"),
            "SELECT 1\nt\n");

  const ServerFolder stranger("stranger");
  make_server_certificate(stranger, stranger.path());
  EXPECT_THAT(psql(verified + stranger.file(kCaCertificate), "SELECT 1"),
              HasSubstr("certificate verify failed"));
  EXPECT_THAT(psql(server.url() + "?sslmode=disable", "SELECT 1"),
              HasSubstr("no pg_hba.conf entry"));
  EXPECT_THAT(psql(server.url() + "?sslmode=require&password=wrong", "SELECT 1"),
              HasSubstr("password authentication failed"));
}

TEST(PostgresqlServer, StandbyHasEveryCommitAndCanTakeOver) {
  PostgresqlServer primary;
  const auto standby = primary.make_standby();
  primary.execute("CREATE TABLE kept AS SELECT 1 AS number");
  EXPECT_EQ(standby->execute("SELECT pg_is_in_recovery()"), "t");
  primary.kill();
  standby->promote();
  EXPECT_EQ(standby->execute("INSERT INTO kept VALUES (2); SELECT number FROM kept"), "1\n2");
}

TEST(PostgresqlServer, WithoutProgramsSaysWhatToInstall) {
  try {
    const PostgresqlServer server({.bin = "/nowhere"});
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.what(), HasSubstr("install the package postgresql"));
  }
}

TEST(PostgresqlServer, ThatCannotStartShowsItsLog) {
  try {
    const PostgresqlServer server({.settings = {{"shared_buffers", "nonsense"}}});
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_THAT(error.what(), HasSubstr("invalid value for parameter"));
  }
}

}  // namespace
}  // namespace oncebox::testing
