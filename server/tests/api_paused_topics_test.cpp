#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "api/paused_topics.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

using Patterns = PausedTopics::Patterns;

TEST(PausedTopicsTest, PausingAndResumingIsByTheVeryPattern) {
  PausedTopics paused;
  paused.pause("order.*");
  paused.pause("order.*");
  EXPECT_EQ(paused.current()->size(), 1U);
  EXPECT_FALSE(paused.resume("order.paid"));
  EXPECT_TRUE(paused.resume("order.*"));
  EXPECT_FALSE(paused.resume("order.*"));
  EXPECT_TRUE(paused.current()->empty());
}

TEST(PausedTopicsTest, TheNumberOfPatternsIsBounded) {
  PausedTopics paused;
  for (std::size_t i = 0; i < PausedTopics::kMaxPatterns; ++i)
    paused.pause("t" + std::to_string(i));
  EXPECT_THROW(paused.pause("one.more"), Error);
  EXPECT_NO_THROW(paused.pause("t0"));
}

TEST(PausedTopicsTest, WhatIsPausedWholeLeavesNothing) {
  EXPECT_FALSE(without_paused({}, Patterns{"*"}));
  EXPECT_FALSE(without_paused({.only = {"order.paid"}}, Patterns{"order.*"}));
  EXPECT_FALSE(without_paused({.only = {"order.*"}}, Patterns{"order.*"}));
  EXPECT_TRUE(without_paused({.only = {"order.*"}}, Patterns{"order.paid"}));
  EXPECT_TRUE(without_paused({}, Patterns{"order.*"}));
}

TEST(PausedTopicsTest, ATopicIsLeftExactlyWhenItIsWantedAndNotPaused) {
  // Over all small selections of nested patterns.
  const std::vector<std::string> patterns{"*", "a*", "ab*", "ab", "abc", "b*"};
  const std::vector<std::string> topics{"a", "ab", "abc", "abd", "b", "bc", "c"};
  std::mt19937 random(1);
  const auto some = [&] {
    Patterns chosen;
    for (const std::string& pattern : patterns) {
      if (random() % 4 == 0) chosen.emplace_back(pattern);
    }
    return chosen;
  };
  for (int round = 0; round < 5'000; ++round) {
    const TopicSelection wanted{.only = some(), .except = some()};
    const Patterns paused = some();
    const auto left = without_paused(wanted, paused);
    for (const std::string& topic : topics) {
      const bool expected = wanted.matches(topic) && !is_paused(paused, topic);
      EXPECT_EQ(left && left->matches(topic), expected) << topic << " in round " << round;
    }
  }
}

}  // namespace

}  // namespace oncebox::server
