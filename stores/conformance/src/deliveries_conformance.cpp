// The deliveries are a queue as inbox and outbox are, of the same code in every store: what is
// shown here is that they are one, and one of their own.

#include "oncebox/conformance/fixture.hpp"
#include "oncebox/driver/work_listener.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class DeliveriesConformance : public StoreConformance {};

INSTANTIATE_TEST_SUITE_P(Stores, DeliveriesConformance, testing::ValuesIn(on_deliveries()),
                         case_name);

TEST_P(DeliveriesConformance, AreAQueueOfTheirOwn) {
  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::accepted);
  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::duplicate);
  EXPECT_FALSE(store().inbox().find(key("a")));
  EXPECT_FALSE(store().outbox().find(key("a")));
  EXPECT_EQ(store().outbox().enqueue(message("a")).status, EnqueueStatus::accepted);
  EXPECT_EQ(settle(claim_one()), SettleStatus::settled);
  EXPECT_EQ(record("a").status, Status::done);
  EXPECT_EQ(store().outbox().find(key("a"))->status, Status::processing);
}

TEST_P(DeliveriesConformance, GoByTheirOwnPolicies) {
  set_policy("t", {.max_attempts = 1});
  enqueue(message("a", {.topic = "t"}));
  settle(claim_one(), Abandon{.error = "refused"});
  EXPECT_EQ(record("a").status, Status::dead);
  EXPECT_EQ(record("a").attempts.size(), 1U);
  for (const QueueKind other : {QueueKind::inbox, QueueKind::outbox}) {
    EXPECT_TRUE(store().policies().policies(other).rules().empty());
  }
  set_policy("t", {.max_attempts = std::nullopt, .paused = true});
  const MessageKey dead = key("a");
  EXPECT_EQ(queue_operator().revive({&dead, 1}).at(0), ReviveOutcome::revived);
  EXPECT_TRUE(claim().empty()) << "its topic is paused";
}

TEST_P(DeliveriesConformance, AreCountedListedAndCleanedUp) {
  put_every_situation();
  const QueueStats stats = queue_operator().stats();
  EXPECT_FALSE(stats.topics.empty());
  EXPECT_FALSE(queue_operator().list({}).records.empty());
  advance(24h);
  EXPECT_GT(queue_operator().cleanup({.done_retention = 1h}).done_removed, 0U);
}

TEST_P(DeliveriesConformance, AreSeenThroughEveryHandleAndAfterReopening) {
  enqueue(message("a"));
  const std::shared_ptr<Store> other = open();
  EXPECT_TRUE(other->deliveries().find(key("a")));
  if (!store().capabilities().durable) return;
  reopen();
  EXPECT_TRUE(is_stored("a"));
}

TEST_P(DeliveriesConformance, KeepTheOrderOfAPartition) {
  enqueue(message("1", {.partition = "p"}));
  enqueue(message("2", {.partition = "p"}));
  const ClaimedMessage first = claim_one();
  EXPECT_EQ(first.message.key, key("1"));
  EXPECT_TRUE(claim().empty());
  settle(first);
  EXPECT_EQ(claim_ids(), std::vector<std::string>{"2"});
}

}  // namespace oncebox::conformance
