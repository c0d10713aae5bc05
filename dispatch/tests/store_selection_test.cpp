// Which of many stores comes next, and who waits for whom.

#include "oncebox/dispatch/store_selection.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace oncebox {
namespace {

std::vector<StoreCandidate> stores(std::initializer_list<std::string_view> names) {
  std::vector<StoreCandidate> candidates;
  for (const std::string_view name : names) candidates.push_back({.name = name});
  return candidates;
}

std::string choose(StoreSelection& selection, const std::vector<StoreCandidate>& candidates) {
  const auto chosen = selection.choose(candidates);
  return chosen ? std::string(candidates.at(*chosen).name) : "none";
}

TEST(RoundRobin, TakesABatchOfEachInTurn) {
  RecordProperty("requirement", "IBX-086,IBX-087");
  const auto selection = round_robin();
  const auto all = stores({"a", "b", "c"});
  for (const char* expected : {"a", "b", "c", "a", "b"})
    EXPECT_EQ(choose(*selection, all), expected);
}

TEST(RoundRobin, GoesOnFromWhereItWasWhenStoresComeAndGo) {
  RecordProperty("requirement", "IBX-087");
  const auto selection = round_robin();
  EXPECT_EQ(choose(*selection, stores({"a", "b", "c"})), "a");
  EXPECT_EQ(choose(*selection, stores({"a", "c"})), "c");
  EXPECT_EQ(choose(*selection, stores({"a", "b", "c", "d"})), "d");
  EXPECT_EQ(choose(*selection, stores({"b", "c"})), "b");
}

TEST(RoundRobin, PassesOverWhatIsNotFree) {
  const auto selection = round_robin();
  auto all = stores({"a", "b", "c"});
  all[0].is_free = false;
  EXPECT_EQ(choose(*selection, all), "b");
  EXPECT_EQ(choose(*selection, all), "c");
  EXPECT_EQ(choose(*selection, all), "b");
}

/// What one database server sees when it has a connection to spare: only its own can be chosen.
std::vector<StoreCandidate> asked_by(std::string_view server, std::vector<StoreCandidate> all) {
  for (StoreCandidate& candidate : all) {
    candidate.is_free = candidate.is_free && candidate.server == server;
  }
  return all;
}

TEST(RoundRobin, OnEachServerTheTurnGoesOnWhateverOthersChoose) {
  RecordProperty("requirement", "IBX-087");
  const auto selection = round_robin();
  const std::vector<StoreCandidate> all{{.name = "a", .server = "one"},
                                        {.name = "b", .server = "one"},
                                        {.name = "c", .server = "one"},
                                        {.name = "z", .server = "two"}};
  for (const char* expected : {"a", "b", "c", "a", "b", "c"}) {
    EXPECT_EQ(choose(*selection, asked_by("one", all)), expected);
    EXPECT_EQ(choose(*selection, asked_by("two", all)), "z");
  }
}

TEST(RoundRobin, GoesOnWithMoreServersThanItRemembers) {
  const auto selection = round_robin();
  for (int i = 0; i < 3'000; ++i) {
    const std::string server = std::to_string(i);
    const std::vector<StoreCandidate> all{{.name = "a", .server = server},
                                          {.name = "b", .server = server}};
    for (const char* expected : {"a", "b", "a"}) EXPECT_EQ(choose(*selection, all), expected);
  }
}

TEST(DrainFirst, StaysUntilTheStoreIsEmpty) {
  RecordProperty("requirement", "IBX-086,IBX-088");
  const auto selection = drain_first();
  EXPECT_EQ(choose(*selection, stores({"a", "b", "c"})), "a");
  EXPECT_EQ(choose(*selection, stores({"a", "b", "c"})), "a");
  EXPECT_EQ(choose(*selection, stores({"b", "c"})), "b");
  EXPECT_EQ(choose(*selection, stores({"a", "b", "c"})), "b");
  EXPECT_EQ(choose(*selection, stores({"a", "c"})), "c");
  EXPECT_EQ(choose(*selection, stores({"a"})), "a");
}

TEST(DrainFirst, WaitsForTheClaimUnderWayInsteadOfMovingOn) {
  RecordProperty("requirement", "IBX-088");
  const auto selection = drain_first();
  auto all = stores({"a", "b"});
  EXPECT_EQ(choose(*selection, all), "a");
  all[0].is_free = false;
  EXPECT_EQ(choose(*selection, all), "none");
}

TEST(DrainFirst, AClaimUnderWayHoldsUpItsOwnServerOnly) {
  RecordProperty("requirement", "IBX-088");
  const auto selection = drain_first();
  std::vector<StoreCandidate> all{{.name = "a", .server = "one"},
                                  {.name = "b", .server = "one"},
                                  {.name = "c", .server = "two"},
                                  {.name = "d", .server = "two"}};
  EXPECT_EQ(choose(*selection, asked_by("one", all)), "a");
  all[0].is_free = false;
  EXPECT_EQ(choose(*selection, asked_by("one", all)), "none");
  EXPECT_EQ(choose(*selection, asked_by("two", all)), "c");
  EXPECT_EQ(choose(*selection, asked_by("two", all)), "c");
  all[0].is_free = true;
  EXPECT_EQ(choose(*selection, asked_by("one", all)), "a");
}

TEST(WeightedFair, ClaimsFromWhoHoldsLeastForItsWeight) {
  RecordProperty("requirement", "IBX-086");
  const auto selection =
      weighted_fair([](std::string_view store) { return store == "b" ? 4.0 : 1.0; });
  auto all = stores({"a", "b"});
  all[0].in_flight = 10;
  all[1].in_flight = 30;
  EXPECT_EQ(choose(*selection, all), "b");
  all[1].in_flight = 50;
  EXPECT_EQ(choose(*selection, all), "a");
}

TEST(WeightedFair, AmongEqualsEveryOneHasItsTurn) {
  const auto selection = weighted_fair();
  const auto all = stores({"a", "b", "c"});
  std::map<std::string, int> turns;
  for (int i = 0; i < 9; ++i) ++turns[choose(*selection, all)];
  EXPECT_EQ(turns, (std::map<std::string, int>{{"a", 3}, {"b", 3}, {"c", 3}}));
}

/// The order in which messages that were claimed in this order are handled.
std::string handled(StoreSelection& selection, std::string_view claimed) {
  std::multimap<double, char> line;
  for (const char store : claimed) line.emplace(selection.place(std::string(1, store), 0), store);
  std::string order;
  for (const auto& [place, store] : line) order += store;
  return order;
}

TEST(WeightedFair, OneWithMuchToDoDoesNotHoldUpOneWithLittle) {
  const auto selection = weighted_fair();
  EXPECT_EQ(handled(*selection, "aaaaaaaabb"), "ababaaaaaa");
}

TEST(WeightedFair, SharesByWeight) {
  const auto selection =
      weighted_fair([](std::string_view store) { return store == "a" ? 2.0 : 1.0; });
  EXPECT_EQ(handled(*selection, "aaaaaabbb"), "abaabaaba");
}

TEST(WeightedFair, WhatWasNotUsedIsNotSavedUp) {
  const auto selection = weighted_fair();
  for (int i = 0; i < 100; ++i) (void)selection->place("a", 0);
  // "b" comes when "a" has been served 50 times: it is next, not 50 times in a row.
  EXPECT_DOUBLE_EQ(selection->place("b", 50), 50);
  EXPECT_DOUBLE_EQ(selection->place("b", 50), 51);
}

TEST(WeightedFair, LeavesRoomForOneMoreStore) {
  const auto selection = weighted_fair();
  for (std::size_t busy = 1; busy < 20; ++busy) {
    const std::size_t share = selection->share(200, busy);
    EXPECT_GE(200 - busy * share, share) << busy;
  }
  EXPECT_EQ(selection->share(10, 1'000), 1U);
}

TEST(WeightedFair, WeightThatMakesNoSenseCountsAsOne) {
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity()}) {
    const auto selection = weighted_fair([&](std::string_view) { return weight; });
    (void)selection->place("a", 0);
    EXPECT_DOUBLE_EQ(selection->place("a", 0), 1) << weight;
  }
}

}  // namespace
}  // namespace oncebox
