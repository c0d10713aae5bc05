// Who may have how much of the memory that clients make the server hold.

#include "http/memory_budget.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>

#include "watched.hpp"

namespace oncebox::server {
namespace {

class BudgetTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 1'600;

  [[nodiscard]] std::shared_ptr<ClientAddress> new_address() {
    return std::make_shared<ClientAddress>(budget);
  }

  const std::shared_ptr<MemoryBudget> budget = std::make_shared<MemoryBudget>(kBytes);
  const std::shared_ptr<ClientAddress> address = new_address();
};

TEST_F(BudgetTest, WhatIsHeldIsGivenBackByItself) {
  {
    MemoryHold hold(address, MemoryPart::callers);
    EXPECT_TRUE(hold.resize(1'000));
    EXPECT_TRUE(hold.resize(400)) << "less is always possible";
    MemoryHold moved = std::move(hold);
    EXPECT_EQ(budget->held(), 400U);
    EXPECT_EQ(moved.size(), 400U);
    MemoryHold other(address, MemoryPart::connections);
    EXPECT_TRUE(other.resize(100));
    other = std::move(moved);
    EXPECT_EQ(budget->held(), 400U) << "what it held before is free";
    EXPECT_EQ(budget->held(MemoryPart::connections), 0U);
  }
  EXPECT_EQ(budget->held(), 0U);
}

TEST_F(BudgetTest, BeyondTheLimitNothingChangesAndTheRefusalIsCounted) {
  MemoryHold hold(address, MemoryPart::callers);
  const std::size_t most = budget->limit(MemoryPart::callers);
  EXPECT_TRUE(hold.resize(most));
  MemoryHold more(address, MemoryPart::callers);
  EXPECT_FALSE(more.resize(1));
  EXPECT_EQ(more.size(), 0U);
  EXPECT_EQ(budget->held(), most);
  EXPECT_EQ(budget->refusals(MemoryPart::callers), 1U);
  more.force(10);
  EXPECT_EQ(budget->held(), most + 10) << "it is there already";
}

TEST_F(BudgetTest, ConnectionsAndStrangersLeaveAQuarterForCallers) {
  RecordProperty("requirement", "R-38");
  MemoryHold connections(address, MemoryPart::connections);
  EXPECT_TRUE(connections.resize(kBytes / 2));
  EXPECT_FALSE(connections.resize(kBytes / 2 + 1));
  MemoryHold stranger(address, MemoryPart::strangers);
  EXPECT_TRUE(stranger.resize(kBytes / 4)) << "a lone address may have all of the part";
  EXPECT_FALSE(stranger.resize(kBytes / 4 + 1));
  MemoryHold caller(address, MemoryPart::callers);
  EXPECT_TRUE(caller.resize(kBytes / 4));
}

TEST_F(BudgetTest, RequestsLeaveAQuarterForConnections) {
  RecordProperty("requirement", "R-38");
  MemoryHold stranger(address, MemoryPart::strangers);
  EXPECT_TRUE(stranger.resize(100));
  MemoryHold caller(address, MemoryPart::callers);
  EXPECT_FALSE(caller.resize(kBytes - kBytes / 4 - 99));
  EXPECT_TRUE(caller.resize(kBytes - kBytes / 4 - 100));
  EXPECT_FALSE(stranger.resize(101)) << "they share it";
  MemoryHold connections(address, MemoryPart::connections);
  EXPECT_TRUE(connections.resize(kBytes / 4));
}

TEST_F(BudgetTest, WhatWasForcedLeavesAQuarterForConnections) {
  RecordProperty("requirement", "R-38");
  MemoryHold caller(address, MemoryPart::callers);
  caller.force(2 * kBytes);
  EXPECT_EQ(budget->room(MemoryPart::connections), kBytes / 4);
  EXPECT_EQ(budget->shortage(MemoryPart::connections, kBytes / 4), 0U);
  MemoryHold connections(address, MemoryPart::connections);
  EXPECT_TRUE(connections.resize(kBytes / 4));
  EXPECT_FALSE(connections.resize(kBytes / 4 + 1));
}

TEST_F(BudgetTest, ItTellsHowMuchIsMissing) {
  MemoryHold connections(address, MemoryPart::connections);
  EXPECT_TRUE(connections.resize(kBytes / 2 - 10));
  EXPECT_EQ(budget->shortage(MemoryPart::connections, 10), 0U);
  EXPECT_EQ(budget->shortage(MemoryPart::connections, 15), 5U);
  MemoryHold caller(address, MemoryPart::callers);
  caller.force(kBytes);
  EXPECT_EQ(budget->shortage(MemoryPart::connections, 1), kBytes / 4 - 10 + 1)
      << "a quarter is theirs in any case";
}

TEST_F(BudgetTest, ALargeRefusalDoesNotMakeSmallOnesFail) {
  std::jthread large([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      MemoryHold hold(address, MemoryPart::callers);
      EXPECT_FALSE(hold.resize(kBytes + 1));
    }
  });
  const auto refuses = [&] { return budget->refusals(MemoryPart::callers) > 0; };
  EXPECT_TRUE(eventually(refuses));
  for (int i = 0; i < 300'000; ++i) {
    MemoryHold hold(address, MemoryPart::connections);
    ASSERT_TRUE(hold.resize(1)) << i;
  }
}

TEST_F(BudgetTest, AnAddressThatHasItsShareGetsNoMoreWhenStrangersHoldALot) {
  // The strangers' part is 400, of which 200 are for whoever comes first and 50 are a share.
  MemoryHold first(address, MemoryPart::strangers);
  EXPECT_TRUE(first.resize(200));
  MemoryHold more(address, MemoryPart::strangers);
  EXPECT_FALSE(more.resize(1));
  const auto second = new_address();
  MemoryHold other(second, MemoryPart::strangers);
  EXPECT_TRUE(other.resize(40));
  EXPECT_TRUE(other.resize(50));
  EXPECT_FALSE(other.resize(51));
  MemoryHold large(new_address(), MemoryPart::strangers);
  EXPECT_TRUE(large.resize(100)) << "who holds nothing gets one thing, if there is room";
  EXPECT_FALSE(large.resize(101));
}

TEST_F(BudgetTest, ACallerThatHoldsALotLeavesTheRestToOthers) {
  RecordProperty("requirement", "R-38");
  // The callers' part is 1200, of which 600 are for whoever comes first and 400 are a share.
  MemoryHold greedy(address, MemoryPart::callers);
  EXPECT_TRUE(greedy.resize(300));
  EXPECT_TRUE(greedy.resize(600));
  EXPECT_FALSE(greedy.resize(601));
  const auto second = new_address();
  MemoryHold other(second, MemoryPart::callers);
  EXPECT_TRUE(other.resize(100));
  EXPECT_TRUE(other.resize(400));
  EXPECT_FALSE(other.resize(401));
  MemoryHold large(new_address(), MemoryPart::callers);
  EXPECT_TRUE(large.resize(200)) << "who holds nothing gets one thing, if there is room";
}

TEST_F(BudgetTest, TheLastEighthIsForCallersThatHoldLittle) {
  RecordProperty("requirement", "R-38");
  MemoryHold greedy(address, MemoryPart::callers);
  EXPECT_TRUE(greedy.resize(500));
  MemoryHold stranger(address, MemoryPart::strangers);
  EXPECT_TRUE(stranger.resize(100));
  MemoryHold connections(address, MemoryPart::connections);
  EXPECT_FALSE(connections.resize(801));
  EXPECT_TRUE(connections.resize(800));
  EXPECT_FALSE(stranger.resize(101));
  EXPECT_FALSE(greedy.resize(501));
  EXPECT_EQ(budget->room(MemoryPart::strangers), 0U);
  EXPECT_EQ(budget->room(MemoryPart::callers), kBytes / 8);
  MemoryHold other(new_address(), MemoryPart::callers);
  EXPECT_TRUE(other.resize(kBytes / 8 - 50));
  MemoryHold third(new_address(), MemoryPart::callers);
  EXPECT_TRUE(third.resize(50));
}

TEST_F(BudgetTest, ItIsShortWhenLessThanAQuarterIsLeft) {
  MemoryHold strangers(address, MemoryPart::strangers);
  EXPECT_TRUE(strangers.resize(300));
  EXPECT_FALSE(budget->is_short(MemoryPart::strangers));
  strangers.force(301);
  EXPECT_TRUE(budget->is_short(MemoryPart::strangers));
  EXPECT_FALSE(budget->is_short(MemoryPart::callers));
  MemoryHold callers(address, MemoryPart::callers);
  EXPECT_TRUE(callers.resize(600));
  EXPECT_TRUE(budget->is_short(MemoryPart::callers));
}

TEST_F(BudgetTest, AHoldWithoutAnAddressCountsNothing) {
  MemoryHold hold;
  EXPECT_TRUE(hold.resize(10 * kBytes));
  EXPECT_FALSE(hold.is_short());
}

}  // namespace
}  // namespace oncebox::server
