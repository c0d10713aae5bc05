#include "oncebox/testing/shared_postgresql.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace oncebox::testing {
namespace {

TEST(SharedPostgresql, IsTheServerOfTheRun) {
  const std::string url = shared_postgresql_url();
  EXPECT_TRUE(url.starts_with("postgresql://postgres@127.0.0.1:")) << url;
  EXPECT_TRUE(url.ends_with("/postgres")) << url;
  EXPECT_EQ(shared_postgresql_url(), url);
}

}  // namespace
}  // namespace oncebox::testing
