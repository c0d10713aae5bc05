#include "oncebox/testing/shared_postgresql.hpp"

#include <gtest/gtest.h>

#include <string>

#include "postgresql_binaries.hpp"
#include "program_output.hpp"

namespace oncebox::testing {
namespace {

TEST(SharedPostgresql, IsOneServerOfTheVersionThatTheRunIsFor) {
  const std::string& url = shared_postgresql_url();
  EXPECT_EQ(&shared_postgresql_url(), &url);
  const std::string version = psql(url, "SHOW server_version");
  const std::string programs = output_of({find_postgresql_binaries("") + "/postgres", "--version"});
  EXPECT_EQ("postgres (PostgreSQL) " + version, programs) << url;
}

}  // namespace
}  // namespace oncebox::testing
