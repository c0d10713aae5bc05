// The dead by topic and kind of error.

#include "oncebox/operate/dead_groups.hpp"

#include <gmock/gmock.h>

#include "expect_error.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::minutes;
using ::testing::IsEmpty;

class DeadGroupsTest : public OnEachStore {
 protected:
  void bury_orders(int count) {
    for (int i = 0; i < count; ++i) {
      bury(store_->inbox(), message_of("order-" + std::to_string(i), "order"),
           "order " + std::to_string(i) + " has no address");
      clock_.advance(minutes{1});
    }
  }

  std::unique_ptr<Store> store_ = make_store();
};
ONCEBOX_ON_EACH_STORE(DeadGroupsTest);

TEST_P(DeadGroupsTest, AreCountedByTopicAndKindOfErrorWithTimesAndASample) {
  RecordProperty("requirement", "R-30");
  const TimePoint start = clock_.now();
  bury_orders(3);
  bury(store_->inbox(), message_of("p", "payment"), "order 9 has no address");
  bury(store_->inbox(), message_of("q", "order"), "timeout");
  store_->inbox().enqueue(message_of("alive", "order"));
  const DeadGroups found = group_dead(store_->inbox_operator());
  ASSERT_EQ(found.groups.size(), 3U);
  EXPECT_EQ(found.messages, 5U);
  EXPECT_EQ(found.others, 0U);
  EXPECT_TRUE(found.complete);
  const DeadGroup& first = found.groups.front();
  EXPECT_EQ(first.id.str(), "order:" + error_fingerprint("order 1 has no address"));
  EXPECT_EQ(first.error, "order <n> has no address");
  EXPECT_EQ(first.count, 3U);
  EXPECT_EQ(first.first_at, start);
  EXPECT_EQ(first.last_at, start + minutes{2});
  EXPECT_EQ(first.sample, (MessageKey{"shop", "order-2"}));
}

TEST_P(DeadGroupsTest, WhatWasNeverEnqueuedHasNoTopicAndWhatHasNoErrorHasAGroupToo) {
  store_->inbox().observe(Observation{.key = {"shop", "only-seen"}});
  store_->inbox().mark(Mark{.key = {"shop", "only-seen"}, .as = MarkAs::dead});
  const DeadGroups found = group_dead(store_->inbox_operator());
  ASSERT_EQ(found.groups.size(), 1U);
  EXPECT_EQ(found.groups[0].id, DeadGroupId{.fingerprint = error_fingerprint("")});
  EXPECT_EQ(found.groups[0].error, "");
}

TEST_P(DeadGroupsTest, AnErrorThatNamesItsMessageIsTheSameForAll) {
  RecordProperty("requirement", "R-30");
  for (const std::string id : {"g1", "g2", "g3x"}) {
    Message message = message_of(id, "order");
    message.partition_key = PartitionKey("customer-" + id);
    message.headers.set("correlationId", "c:" + id);
    bury(store_->inbox(), message, "no customer " + id + " of customer-" + id + " (c:" + id + ")");
  }
  const DeadGroups found = group_dead(store_->inbox_operator());
  ASSERT_EQ(found.groups.size(), 1U);
  EXPECT_EQ(found.groups[0].count, 3U);
  EXPECT_EQ(found.groups[0].error, "no customer <id> of <id> (<id>)");
}

TEST_P(DeadGroupsTest, AFilterNarrowsThem) {
  bury_orders(2);
  bury(store_->inbox(), message_of("p", "payment"), "no money");
  const DeadGroups found =
      group_dead(store_->inbox_operator(), {.filter = {.topic = TopicPattern("pay*")}});
  ASSERT_EQ(found.groups.size(), 1U);
  EXPECT_EQ(found.groups[0].error, "no money");
  expect_error(ErrorCode::invalid_argument, [&] {
    (void)group_dead(store_->inbox_operator(), {.filter = {.statuses = {Status::dead}}});
  });
}

TEST_P(DeadGroupsTest, NoMoreAreRememberedAndLookedAtThanAsked) {
  for (const std::string error : {"a", "b", "c", "c"}) {
    bury(store_->inbox(),
         message_of(error + std::to_string(clock_.now().time_since_epoch().count())), error);
    clock_.advance(minutes{1});
  }
  const DeadGroups two = group_dead(store_->inbox_operator(), {.max_groups = 2});
  EXPECT_EQ(two.groups.size(), 2U);
  EXPECT_EQ(two.groups[0].error, "c");
  EXPECT_EQ(two.others, 1U);
  EXPECT_TRUE(two.complete);
  const DeadGroups newest = group_dead(store_->inbox_operator(), {.max_records = 3});
  EXPECT_EQ(newest.messages, 3U);
  EXPECT_FALSE(newest.complete);
  EXPECT_EQ(newest.groups.size(), 2U);
  EXPECT_TRUE(group_dead(store_->inbox_operator(), {.max_records = 4}).complete);
  for (const DeadGroupsRequest& bad :
       {DeadGroupsRequest{.max_groups = 0}, DeadGroupsRequest{.max_records = 0}}) {
    expect_error(ErrorCode::out_of_range, [&] { (void)group_dead(store_->inbox_operator(), bad); });
  }
}

TEST_P(DeadGroupsTest, ManyPagesAreWalkedOver) {
  std::vector<Message> messages;
  std::vector<Mark> marks;
  for (int i = 0; i < 2'500; ++i) {
    messages.push_back(message_of("m" + std::to_string(i)));
    marks.push_back({.key = messages.back().key,
                     .as = MarkAs::dead,
                     .error = i % 2 == 0 ? "even " + std::to_string(i) : "odd"});
  }
  store_->inbox().enqueue(messages);
  store_->inbox().mark(marks);
  const DeadGroups found = group_dead(store_->inbox_operator());
  ASSERT_EQ(found.groups.size(), 2U);
  EXPECT_EQ(found.groups[0].count, 1'250U);
  EXPECT_EQ(found.groups[1].count, 1'250U);
  EXPECT_THAT(group_dead(store_->outbox_operator()).groups, IsEmpty());

  int pages = 0;
  const DeadGroups first = group_dead(store_->inbox_operator(), {}, [&] { return ++pages < 2; });
  EXPECT_EQ(first.messages, 1'000U) << "nobody waits for the rest";
  EXPECT_FALSE(first.complete);
  EXPECT_EQ(group_dead(store_->inbox_operator(), {}, [] { return false; }).messages, 0U);
}

}  // namespace
}  // namespace oncebox
