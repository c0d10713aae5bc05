#include "host_lanes.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace oncebox::webhook {
namespace {

using namespace std::chrono_literals;
using Id = HostLanes::RequestId;

constexpr SteadyTime kNever = SteadyTime::max();

std::vector<Id> begin_all(HostLanes& lanes) {
  std::vector<Id> begun;
  while (const auto id = lanes.begin_next()) begun.push_back(*id);
  return begun;
}

TEST(HostLanes, RequestsOfALaneBeginInTheirOrder) {
  HostLanes lanes(2, 100);
  for (Id id = 1; id <= 4; ++id) lanes.add(id, {"a"}, kNever);
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{1, 2}));
  lanes.end(2);
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{3}));
  lanes.end(1);
  lanes.end(3);
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{4}));
  lanes.end(4);
  EXPECT_TRUE(lanes.empty());
}

TEST(HostLanes, LaneThatIsFullHoldsUpNoOther) {
  HostLanes lanes(1, 100);
  for (Id id = 1; id <= 3; ++id) lanes.add(id, {"full"}, kNever);
  lanes.add(4, {"other"}, kNever);
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{1, 4}));
}

TEST(HostLanes, LaneWithTheFewestGoesFirst) {
  HostLanes lanes(3, 100);
  for (Id id = 1; id <= 3; ++id) lanes.add(id, {"a"}, kNever);
  for (Id id = 11; id <= 13; ++id) lanes.add(id, {"b"}, kNever);
  const std::vector<Id> begun = begin_all(lanes);
  EXPECT_EQ(begun, (std::vector<Id>{1, 11, 2, 12, 3, 13}));
}

TEST(HostLanes, LanesThatHangLeaveRoomForOthers) {
  HostLanes lanes(8, 10);
  for (Id id = 0; id < 24; ++id) lanes.add(id, {"hangs" + std::to_string(id / 8)}, kNever);
  EXPECT_EQ(begin_all(lanes).size(), 5U);  // half of them
  for (Id id = 100; id < 105; ++id) lanes.add(id, {"other" + std::to_string(id)}, kNever);
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{100, 101, 102, 103, 104}));
  lanes.add(200, {"one more"}, kNever);
  EXPECT_TRUE(begin_all(lanes).empty());  // all places are taken
  lanes.end(100);
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{200}));
}

TEST(HostLanes, OnePlaceIsEnoughForAll) {
  for (const std::string group : {"", "tenant"}) {
    HostLanes lanes(8, 1);
    lanes.add(1, {"a", group}, kNever);
    lanes.add(2, {"a", group}, kNever);
    EXPECT_EQ(begin_all(lanes), (std::vector<Id>{1}));
    lanes.end(1);
    EXPECT_EQ(begin_all(lanes), (std::vector<Id>{2}));
  }
}

/// One request to each of so many hosts of a group.
void add_hosts(HostLanes& lanes, Id first, std::size_t count, const std::string& group) {
  for (Id id = first; id < first + count; ++id) {
    lanes.add(id, {std::to_string(id), group}, kNever);
  }
}

TEST(HostLanes, AGroupAloneHasAllPlacesButThoseThatAreKept) {
  RecordProperty("requirement", "R-37");
  HostLanes lanes(512, 512);
  for (Id id = 0; id < 512; ++id) lanes.add(id, {"hangs", "a"}, kNever);
  EXPECT_EQ(begin_all(lanes).size(), 256U) << "half of them is for hosts that have none";
  add_hosts(lanes, 1'000, 512, "a");
  EXPECT_EQ(begin_all(lanes).size(), 192U) << "an eighth is kept";
}

TEST(HostLanes, AGroupLeavesAsManyPlacesAsItHas) {
  RecordProperty("requirement", "R-37");
  HostLanes lanes(4, 73);  // 10 of them are kept
  add_hosts(lanes, 1, 1, "other");
  EXPECT_EQ(begin_all(lanes).size(), 1U);
  add_hosts(lanes, 1'000, 100, "a");
  EXPECT_EQ(begin_all(lanes).size(), 31U);
  add_hosts(lanes, 2'000, 100, "b");
  EXPECT_EQ(begin_all(lanes).size(), 16U);
  add_hosts(lanes, 3'000, 100, "c");
  EXPECT_EQ(begin_all(lanes).size(), 8U);
  for (Id id = 1'000; id < 1'031; ++id) lanes.end(id);
  EXPECT_EQ(begin_all(lanes).size(), 23U) << "those that have fewest share what was given back";
}

TEST(HostLanes, AGroupThatHadAllWaitsUntilItLeavesAsManyAsItHas) {
  RecordProperty("requirement", "R-37");
  HostLanes lanes(1, 64);  // 8 of them are kept
  add_hosts(lanes, 1'000, 100, "a");
  EXPECT_EQ(begin_all(lanes).size(), 56U);
  add_hosts(lanes, 2'000, 1, "b");
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{2'000})) << "at once";
  for (Id id = 1'000; id < 1'028; ++id) lanes.end(id);
  EXPECT_TRUE(begin_all(lanes).empty()) << "it has 28, and 27 are shared";
  lanes.end(1'028);
  EXPECT_EQ(begin_all(lanes).size(), 1U);
  lanes.end(2'000);
  EXPECT_EQ(begin_all(lanes).size(), 28U) << "it is alone again";
}

TEST(HostLanes, WhatIsKeptIsForGroupsThatHaveFew) {
  RecordProperty("requirement", "R-37");
  HostLanes lanes(4, 512);  // 64 of them are kept
  add_hosts(lanes, 1'000, 1'000, "a");
  EXPECT_EQ(begin_all(lanes).size(), 448U);
  std::vector<std::size_t> expected(15, 4);
  expected.insert(expected.end(), {2, 1, 1});
  Id first = 1'000;
  for (const std::size_t count : expected) {
    first += 1'000;
    add_hosts(lanes, first, 100, "hangs" + std::to_string(first));
    EXPECT_EQ(begin_all(lanes).size(), count) << first;
  }
  EXPECT_EQ(lanes.under_way(), 512U);
}

TEST(HostLanes, OneThatHangsLeavesToItsGroupAPartOfWhatIsKept) {
  RecordProperty("requirement", "R-37");
  HostLanes lanes(4, 64);  // 8 of them are kept
  add_hosts(lanes, 1'000, 100, "a");
  EXPECT_EQ(begin_all(lanes).size(), 56U);
  for (Id id = 1; id <= 4; ++id) lanes.add(id, {"hangs", "b"}, kNever);
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{1, 2}));
  add_hosts(lanes, 10, 3, "b");
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{10, 11}));
}

TEST(HostLanes, HostsThatHangLeaveRoomForTheOthersOfTheirGroup) {
  RecordProperty("requirement", "R-37");
  HostLanes lanes(100, 65);  // 9 of them are kept
  add_hosts(lanes, 500, 1, "other");
  EXPECT_EQ(begin_all(lanes).size(), 1U);
  for (Id id = 0; id < 100; ++id) lanes.add(id, {"hangs", "a"}, kNever);
  EXPECT_EQ(begin_all(lanes).size(), 14U);
  add_hosts(lanes, 1'000, 100, "a");
  EXPECT_EQ(begin_all(lanes).size(), 14U);
}

TEST(HostLanes, TwoGroupsShareTwoPlaces) {
  RecordProperty("requirement", "R-37");
  HostLanes lanes(4, 2);
  add_hosts(lanes, 10, 3, "a");
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{10}));
  add_hosts(lanes, 20, 3, "b");
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{20}));
}

TEST(HostLanes, TheGroupWithTheFewestGoesFirst) {
  HostLanes lanes(4, 64);
  add_hosts(lanes, 10, 3, "a");
  add_hosts(lanes, 20, 3, "b");
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{10, 20, 11, 21, 12, 22}));
  add_hosts(lanes, 30, 1, "a");
  add_hosts(lanes, 40, 1, "c");
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{40, 30}));
}

TEST(HostLanes, LanesOfOneNameInTwoGroupsAreTwo) {
  HostLanes lanes(1, 64);
  lanes.add(1, {"host", "a"}, kNever);
  lanes.add(2, {"host", "b"}, kNever);
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{1, 2}));
}

TEST(HostLanes, OneThatWaitsCanBeTakenOut) {
  HostLanes lanes(1, 100);
  for (Id id = 1; id <= 3; ++id) lanes.add(id, {"a"}, kNever);
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{1}));
  lanes.end(2);
  lanes.end(2);  // of one that is not there
  lanes.end(1);
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{3}));
  EXPECT_EQ(lanes.under_way(), 1U);
}

TEST(HostLanes, OnlyThoseThatWaitExpire) {
  const SteadyTime begin{1h};
  HostLanes lanes(1, 100);
  lanes.add(1, {"a"}, begin + 1s);
  lanes.add(2, {"a"}, begin + 3s);
  lanes.add(3, {"a"}, begin + 2s);
  EXPECT_EQ(begin_all(lanes), (std::vector<Id>{1}));
  EXPECT_EQ(lanes.next_expiry(), begin + 2s);
  EXPECT_EQ(lanes.take_expired(begin + 1s), std::nullopt);
  EXPECT_EQ(lanes.take_expired(begin + 9s), 3U);
  EXPECT_EQ(lanes.take_expired(begin + 9s), 2U);
  EXPECT_EQ(lanes.take_expired(begin + 9s), std::nullopt);
  EXPECT_EQ(lanes.next_expiry(), std::nullopt);
  EXPECT_EQ(lanes.under_way(), 1U);
}

}  // namespace
}  // namespace oncebox::webhook
