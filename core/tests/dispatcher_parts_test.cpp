#include <gtest/gtest.h>

#include "dispatcher/token_bucket.hpp"
#include "oncebox/histogram.hpp"

namespace oncebox {
namespace {

TEST(Histogram, EmptyHasNothing) {
  const Distribution none = Histogram().distribution();
  EXPECT_EQ(none.count, 0U);
  EXPECT_EQ(none.p99, 0U);
}

}  // namespace
}  // namespace oncebox
