#include "claim_floors.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "connection.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;
using sql::StoredMessage;

constexpr TimePoint kNow{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

StoredMessage claimed(TimePoint eligible_at, std::uint64_t order, int priority = 0) {
  StoredMessage message{.id = 1, .key = {"shop", "1"}, .state = {}};
  message.state.eligible_at = eligible_at;
  message.state.enqueue_order = order;
  message.state.priority = Priority(priority);
  return message;
}

class ClaimFloorsTest : public ::testing::Test {
 protected:
  testing::ManualClock clock_;
  ClaimFloors floors_{clock_};

  // The first look is at everything; the ones behind it begin where it ended.
  ClaimFloors::Floors after(const std::vector<StoredMessage>& messages, bool is_exhausted,
                            TimePoint now = kNow) {
    const ClaimFloors::Floors used = floors_.before_claim({});
    floors_.after_claim({}, used, {.now = now, .messages = messages, .is_exhausted = is_exhausted});
    return floors_.before_claim({});
  }
};

TEST_F(ClaimFloorsTest, FirstLookIsAtEverything) {
  RecordProperty("requirement", "IBX-122");
  const ClaimFloors::Floors floors = floors_.before_claim({});
  EXPECT_TRUE(floors.is_complete);
  EXPECT_TRUE(floors.by_priority.empty());
  EXPECT_FALSE(floors.lapsed);
}

TEST_F(ClaimFloorsTest, NextLookBeginsBehindTheLastClaimedOfEachPriority) {
  RecordProperty("requirement", "IBX-122,R-17");
  const ClaimFloors::Floors floors =
      after({claimed(kNow - 1h, 7, 5), claimed(kNow - 2h, 3), claimed(kNow - 1h, 4)}, false);
  EXPECT_FALSE(floors.is_complete);
  EXPECT_EQ(floors.by_priority.at(5).enqueue_order, 7);
  EXPECT_EQ(floors.by_priority.at(0).eligible_at, kNow - 1h);
  EXPECT_EQ(floors.by_priority.at(0).enqueue_order, 4);
}

TEST_F(ClaimFloorsTest, WhatIsCommittedALittleLateIsNotPassed) {
  RecordProperty("requirement", "IBX-122");
  const ClaimFloors::Floors floors = after({claimed(kNow, 9)}, true);
  EXPECT_LE(floors.by_priority.at(0).eligible_at, kNow - 1s);
  EXPECT_LE(floors.lapsed, kNow - 1s);
}

TEST_F(ClaimFloorsTest, EverythingIsLookedAtEveryFewSeconds) {
  RecordProperty("requirement", "IBX-122");
  after({claimed(kNow - 1h, 7)}, false);
  clock_.advance(4'999ms);
  EXPECT_FALSE(floors_.before_claim({}).is_complete);
  clock_.advance(1ms);
  EXPECT_TRUE(floors_.before_claim({}).is_complete);
}

TEST_F(ClaimFloorsTest, ALookThatTookLongIsRepeatedLessOftenButOftenEnough) {
  RecordProperty("requirement", "IBX-122");
  const auto look = [this](Duration took) {
    const ClaimFloors::Floors used = floors_.before_claim({});
    EXPECT_TRUE(used.is_complete);
    floors_.after_claim({}, used, {.now = kNow, .took = took});
  };
  look(1s);
  clock_.advance(19'999ms);
  EXPECT_FALSE(floors_.before_claim({}).is_complete);
  clock_.advance(1ms);
  look(10s);
  clock_.advance(29'999ms);
  EXPECT_FALSE(floors_.before_claim({}).is_complete);
  clock_.advance(1ms);
  EXPECT_TRUE(floors_.before_claim({}).is_complete);
}

TEST_F(ClaimFloorsTest, OtherTopicsHaveOtherPlaces) {
  RecordProperty("requirement", "R-20");
  after({claimed(kNow - 1h, 7)}, false);
  EXPECT_TRUE(floors_.before_claim({.only = {"order.*"}}).is_complete);
}

TEST_F(ClaimFloorsTest, ClockThatWentBackForgetsEverything) {
  RecordProperty("requirement", "IBX-122");
  after({claimed(kNow - 1h, 7)}, false);
  const ClaimFloors::Floors floors = after({}, false, kNow - 10s);
  EXPECT_TRUE(floors.by_priority.empty());
}

// What is claimed leaves dead entries in the index for as long as somebody could still see them.
class ClaimUnderAHeldSnapshot : public ::testing::Test {
 protected:
  static constexpr int kMessages = 2'000;
  static constexpr int kBatch = 50;

  // Drains the messages, and answers how many entries of the index were read for it.
  std::int64_t entries_read(const std::string& index, const Message& like, int at_least) {
    {
      PostgresqlStore store(space_.options(), clock_);
      std::vector<Message> messages(kMessages, like);
      for (int i = 0; i < kMessages; ++i) {
        messages[static_cast<std::size_t>(i)].key = {"shop", std::to_string(i)};
      }
      store.inbox().enqueue(messages);
      clock_.advance(10s);
      Connection holder(space_.options());
      holder.run_text("BEGIN ISOLATION LEVEL REPEATABLE READ", Exchange::changes_nothing,
                      far_away());
      holder.run_text("SELECT 1", Exchange::changes_nothing, far_away());
      drain(store.inbox());
    }
    // The server tells what its sessions have read when they end, a little later.
    const auto give_up = far_away();
    std::int64_t read = 0;
    do {
      read = space_.number(
          "SELECT coalesce(max(idx_tup_read), 0) FROM pg_stat_user_indexes "
          "WHERE schemaname = '{schema}' AND indexrelname = '" +
          index + "'");
    } while (read < at_least && time_left(give_up) > 0ms);
    return read;
  }

  testing::ManualClock clock_;  // a slow machine would otherwise look at everything again

 private:
  static Deadline far_away() { return deadline_in(1min); }

  static void drain(QueueStore& queue) {
    const OwnerToken owner = OwnerToken::generate();
    for (int i = 0; i < kMessages / kBatch; ++i) {
      const auto batch = queue.claim({.owner = owner, .limit = kBatch});
      ASSERT_EQ(batch.size(), static_cast<std::size_t>(kBatch));
      std::vector<Settlement> settlements;
      for (const ClaimedMessage& one : batch) settlements.push_back({.delivery = delivery_of(one)});
      queue.settle(settlements);
    }
  }

  TestSpace space_;
};

TEST_F(ClaimUnderAHeldSnapshot, DoesNotPassWhatIsDead) {
  RecordProperty("requirement", "IBX-122");
  const Message with_due_time{
      .key = {"shop", "0"}, .topic = "order.created", .due_at = clock_.now()};
  const std::int64_t read = entries_read("oncebox_inbox_work_claimable", with_due_time, kMessages);
  EXPECT_GE(read, kMessages);
  // From the front, claim after claim, it would have been forty thousand.
  EXPECT_LT(read, 3 * kMessages);
}

TEST_F(ClaimUnderAHeldSnapshot, DoesNotPassRunsThatAreDead) {
  RecordProperty("requirement", "IBX-122");
  constexpr int kClaims = kMessages / kBatch;
  const Message plain{.key = {"shop", "0"}, .topic = "order.created"};
  const std::int64_t read = entries_read("oncebox_inbox_run_claimable", plain, kClaims);
  EXPECT_GE(read, kClaims);
  // A claim looks at some runs more than it takes. From the front it would have been two thousand.
  EXPECT_LT(read, 30 * kClaims);
}

}  // namespace
}  // namespace oncebox::postgresql
