#include "oncebox/topic_pattern.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"

namespace oncebox {
namespace {

TEST(TopicPattern, MatchesExactlyAndCaseSensitively) {
  RecordProperty("requirement", "R-20,IBX-021");
  const TopicPattern pattern("order.created");
  EXPECT_TRUE(pattern.matches("order.created"));
  EXPECT_FALSE(pattern.matches("Order.Created"));
  EXPECT_FALSE(pattern.matches("order.created.v2"));
  EXPECT_FALSE(pattern.matches("order"));
}

TEST(TopicPattern, ATrailingStarMatchesAnyEnding) {
  RecordProperty("requirement", "R-20");
  const TopicPattern pattern("order.*");
  EXPECT_TRUE(pattern.matches("order.created"));
  EXPECT_TRUE(pattern.matches("order."));
  EXPECT_FALSE(pattern.matches("order"));
  EXPECT_TRUE(TopicPattern("*").matches("anything"));
}

TEST(TopicPattern, AStarElsewhereIsAnOrdinaryCharacter) {
  RecordProperty("requirement", "R-20");
  EXPECT_TRUE(TopicPattern("a*b").matches("a*b"));
  EXPECT_FALSE(TopicPattern("a*b").matches("axb"));
  EXPECT_TRUE(TopicPattern("a**").matches("a*b"));
}

TEST(TopicPattern, MadeFromATopicItMeansThatTopicAlone) {
  RecordProperty("requirement", "R-20");
  const TopicPattern pattern(Topic("order.*"));
  EXPECT_TRUE(pattern.matches("order.*"));
  EXPECT_FALSE(pattern.matches("order.created"));
}

TEST(TopicPattern, IsAValidName) {
  expect_error(ErrorCode::invalid_argument, [] { TopicPattern(""); });
  expect_error(ErrorCode::invalid_argument, [] { TopicPattern(std::string(256, 'x')); });
}

TEST(TopicPattern, ExactWinsThenTheLongestStem) {
  RecordProperty("requirement", "R-20");
  const std::vector<TopicPattern> patterns{"*", "order.*", "order.created", "order.c*"};
  EXPECT_EQ(best_match(patterns, "order.created"), 2U);
  EXPECT_EQ(best_match(patterns, "order.closed"), 3U);
  EXPECT_EQ(best_match(patterns, "order.paid"), 1U);
  EXPECT_EQ(best_match(patterns, "refund"), 0U);
  EXPECT_EQ(best_match(std::vector<TopicPattern>{"order.*"}, "refund"), std::nullopt);
}

TEST(TopicSelection, TakesOnlyTheseExceptThose) {
  EXPECT_TRUE(TopicSelection{}.matches("anything"));
  const TopicSelection selection{.only = {"order.*", "refund"}, .except = {"order.paid"}};
  EXPECT_TRUE(selection.matches("order.created"));
  EXPECT_TRUE(selection.matches("refund"));
  EXPECT_FALSE(selection.matches("order.paid"));
  EXPECT_FALSE(selection.matches("invoice"));
}

TEST(TopicSelection, TheMoreSpecificPatternWinsAndOfEqualsTheException) {
  const TopicSelection selection{.only = {"*", "order.paid", "stock.*", "user"},
                                 .except = {"order.*", "stock.low*", "user"}};
  EXPECT_TRUE(selection.matches("order.paid"));
  EXPECT_FALSE(selection.matches("order.created"));
  EXPECT_TRUE(selection.matches("stock.high"));
  EXPECT_FALSE(selection.matches("stock.low.shelf"));
  EXPECT_FALSE(selection.matches("user"));
  EXPECT_TRUE(selection.matches("invoice"));
}

}  // namespace
}  // namespace oncebox
