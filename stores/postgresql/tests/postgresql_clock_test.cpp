// What holds after the clock of the database's server went back.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

/// A store whose clock is set back by an hour, while it is open or while it is closed.
class PostgresqlClockSetBack : public ::testing::TestWithParam<bool> {
 protected:
  static Message message(const std::string& id) {
    return {.key = {"shop", id}, .topic = "order.created"};
  }
  void enqueue_together(const Ids& ids) {
    std::vector<Message> messages;
    for (const std::string& id : ids) messages.push_back(message(id));
    queue().enqueue(messages);
  }
  void set_back() {
    clock_.advance(-1h);
    if (GetParam()) store_.emplace(space_.options(), clock_);
  }
  [[nodiscard]] Ids claimed(const TopicSelection& topics = {}) {
    Ids ids;
    for (const ClaimedMessage& one :
         queue().claim({.owner = owner_, .lease = 30s, .topics = topics})) {
      ids.push_back(one.message.key.message_id.str());
    }
    return ids;
  }
  QueueStore& queue() { return store_->inbox(); }

  const OwnerToken owner_ = OwnerToken::generate();
  TestSpace space_;
  testing::FakeClock clock_;
  std::optional<PostgresqlStore> store_{std::in_place, space_.options(), clock_};
};
INSTANTIATE_TEST_SUITE_P(Reopened, PostgresqlClockSetBack, ::testing::Bool());

TEST_P(PostgresqlClockSetBack, MessagesThatWereReadyCanStillBeClaimed) {
  enqueue_together({"1", "2", "3"});
  clock_.advance(1min);
  queue().enqueue(message("4"));
  set_back();
  EXPECT_EQ(claimed(), (Ids{"1", "2", "3", "4"}));
}

TEST_P(PostgresqlClockSetBack, MessagesBehindThePlaceOfTheLastClaimAreFound) {
  enqueue_together({"1", "2"});
  clock_.advance(1min);
  EXPECT_EQ(claimed(), (Ids{"1", "2"}));
  enqueue_together({"3", "4"});
  queue().enqueue(message("5"));
  set_back();
  EXPECT_EQ(claimed(), (Ids{"3", "4", "5"}));
}

TEST_P(PostgresqlClockSetBack, LimitedTopicsCanStillBeClaimed) {
  store_->policies().update(QueueKind::inbox, "order.*", {.limits = {.max_concurrency = 2}});
  enqueue_together({"1", "2", "3"});
  set_back();
  EXPECT_EQ(claimed(), (Ids{"1", "2"}));
}

TEST_P(PostgresqlClockSetBack, MessagesThatWaitForADueTimeStillWaitForIt) {
  Message later = message("later");
  later.due_at = clock_.now() + 1min;
  queue().enqueue(later);
  queue().enqueue(message("now"));
  set_back();
  EXPECT_EQ(claimed(), Ids{"now"});
  clock_.advance(1h + 1min);
  EXPECT_EQ(claimed(), (Ids{"now", "later"})) << "the lease has lapsed, and the other is due";
}

TEST_P(PostgresqlClockSetBack, ALeaseLastsNoLongerThanItWouldHave) {
  enqueue_together({"1", "2"});
  queue().enqueue(message("3"));
  EXPECT_EQ(claimed(), (Ids{"1", "2", "3"}));
  set_back();
  EXPECT_EQ(claimed(), Ids{}) << "they are still held";
  clock_.advance(30s);
  Ids again = claimed();
  std::sort(again.begin(), again.end());
  EXPECT_EQ(again, (Ids{"1", "2", "3"}));
}

TEST_P(PostgresqlClockSetBack, TheNextOfAPartitionAndWhatIsReleasedCanBeClaimed) {
  Message first = message("first");
  first.partition_key = "p";
  Message second = message("second");
  second.partition_key = "p";
  queue().enqueue(first);
  queue().enqueue(second);
  const std::vector<ClaimedMessage> held = queue().claim({.owner = owner_});
  ASSERT_EQ(held.size(), 1U);
  set_back();
  queue().settle({.delivery = delivery_of(held[0]), .verdict = Release{}});
  EXPECT_EQ(claimed(), Ids{"first"});
  queue().mark(Mark{.key = first.key});
  EXPECT_EQ(claimed(), Ids{"second"});
}

TEST_P(PostgresqlClockSetBack, WhatWasHeldCanBeSettled) {
  enqueue_together({"1", "2", "3"});
  const std::vector<ClaimedMessage> held = queue().claim({.owner = owner_, .lease = 30s});
  ASSERT_EQ(held.size(), 3U);
  set_back();
  EXPECT_EQ(claimed(), Ids{});
  EXPECT_EQ(queue().settle({.delivery = delivery_of(held[1])}), SettleStatus::settled);
  clock_.advance(30s);
  EXPECT_EQ(claimed(), (Ids{"1", "3"}));
}

TEST_P(PostgresqlClockSetBack, HealthSaysSoUntilTheClockHasCaughtUp) {
  queue().enqueue(message("1"));
  EXPECT_EQ(store_->health().status, HealthStatus::healthy);
  set_back();
  (void)claimed();
  EXPECT_EQ(store_->health().status, HealthStatus::degraded);
  EXPECT_NE(store_->health().detail.find("server's clock went back"), std::string::npos);
  clock_.advance(1h);
  EXPECT_EQ(store_->health().status, HealthStatus::healthy);
}

}  // namespace
}  // namespace oncebox::postgresql
