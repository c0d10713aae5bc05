#include "oncebox/internal/backoff.hpp"

#include <gtest/gtest.h>

namespace oncebox::detail {
namespace {

TEST(Backoff, DoublesFromTheFirstPauseToTheLongest) {
  Backoff backoff({.first = Duration{100}, .longest = Duration{500}});
  EXPECT_EQ(backoff.take(), Duration{100});
  EXPECT_EQ(backoff.take(), Duration{200});
  EXPECT_EQ(backoff.take(), Duration{400});
  EXPECT_EQ(backoff.take(), Duration{500});
  EXPECT_EQ(backoff.take(), Duration{500});
}

TEST(Backoff, StaysAsItIsUntilItGrows) {
  Backoff backoff({.first = Duration{3}, .longest = Duration{12}});
  EXPECT_EQ(backoff.pause(), Duration{3});
  EXPECT_EQ(backoff.pause(), Duration{3});
  backoff.grow();
  EXPECT_EQ(backoff.pause(), Duration{6});
}

TEST(Backoff, BeginsAgainAfterAReset) {
  Backoff backoff({.first = Duration{1}, .longest = Duration{50}});
  while (backoff.pause() < Duration{50}) backoff.grow();
  backoff.reset();
  EXPECT_EQ(backoff.take(), Duration{1});
  EXPECT_EQ(backoff.take(), Duration{2});
}

TEST(Backoff, ALongestPauseBelowTheFirstIsTheFirst) {
  Backoff backoff({.first = Duration{100}, .longest = Duration{40}});
  EXPECT_EQ(backoff.take(), Duration{100});
  EXPECT_EQ(backoff.take(), Duration{100});
}

TEST(Backoff, TheLongestOfAllPausesDoesNotOverflow) {
  Backoff backoff({.first = Duration::max() / 2, .longest = Duration::max()});
  backoff.grow();
  backoff.grow();
  EXPECT_EQ(backoff.pause(), Duration::max());
}

}  // namespace
}  // namespace oncebox::detail
