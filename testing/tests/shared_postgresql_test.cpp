#include "oncebox/testing/shared_postgresql.hpp"

#include <gtest/gtest.h>

#include <string>

#include "postgresql_binaries.hpp"
#include "psql.hpp"
#include "server_folder.hpp"

namespace oncebox::testing {
namespace {

TEST(SharedPostgresql, IsOneServerOfTheVersionThatTheRunIsFor) {
  const std::string& url = shared_postgresql_url();
  EXPECT_EQ(&shared_postgresql_url(), &url);
  const std::string version = psql(url, "SHOW server_version");
  const std::string programs =
      ServerFolder("version").run({find_postgresql_binaries("") + "/postgres", "--version"}).output;
  EXPECT_EQ("postgres (PostgreSQL) " + version, programs) << url;
}

}  // namespace
}  // namespace oncebox::testing
