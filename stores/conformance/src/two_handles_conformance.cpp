// Two handles on one space, as two processes have them, and what a store says about itself.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class TwoHandlesConformance : public StoreConformance {
 protected:
  QueueStore& other_queue() { return queue_of(*other_); }
  QueueOperator& other_operator() { return operator_of(*other_); }

  std::shared_ptr<Store> other_ = open();
};

INSTANTIATE_TEST_SUITE_P(Stores, TwoHandlesConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(TwoHandlesConformance, WhatOneTakesInTheOtherKnows) {
  proves("IBX-013", "IBX-105", "IBX-001");
  enqueue(message("a"));
  EXPECT_EQ(other_queue().enqueue(message("a")).status, EnqueueStatus::duplicate);
  EXPECT_EQ(other_queue().observe({.key = key("a")}).state, ObservedState::ready);
  EXPECT_EQ(other_queue().find(key("a")), record("a"));
  EXPECT_TRUE(unchanged(dump(), dump_of(other_operator())));
}

TEST_P(TwoHandlesConformance, WhatOneHoldsTheOtherIsNotGiven) {
  proves("IBX-033", "IBX-105", "IBX-106");
  enqueue_ids({"a", "b", "c"});
  EXPECT_EQ(claim_ids(1), Ids{"a"});
  EXPECT_EQ(ids_of(other_queue().claim({.owner = bob, .limit = 1})), Ids{"b"});
  EXPECT_EQ(claim_ids(), Ids{"c"});
  EXPECT_TRUE(other_queue().claim({.owner = bob}).empty());
}

TEST_P(TwoHandlesConformance, DeliveryIsSettledThroughEitherHandle) {
  proves("IBX-105", "R-15");
  enqueue_ids({"a", "b"});
  const std::vector<ClaimedMessage> claimed = claim();
  EXPECT_EQ(other_queue().settle({.delivery = delivery_of(claimed.at(0))}), SettleStatus::settled);
  EXPECT_EQ(settle(claimed.at(0)), SettleStatus::lease_lost);
  EXPECT_EQ(other_queue().extend({.delivery = delivery_of(claimed.at(1)), .lease = 1h}),
            ExtendOutcome{now() + 1h});
  EXPECT_EQ(settle(claimed.at(1)), SettleStatus::settled);
}

TEST_P(TwoHandlesConformance, FencingHoldsAcrossHandles) {
  proves("R-14", "R-15", "IBX-106");
  enqueue(message("a"));
  const ClaimedMessage stale = claim_one(alice);
  advance(defaults::kLease);
  const std::vector<ClaimedMessage> taken_over = other_queue().claim({.owner = alice});
  ASSERT_EQ(taken_over.size(), 1U);
  EXPECT_GT(taken_over[0].delivery, stale.delivery);
  EXPECT_EQ(settle(stale), SettleStatus::lease_lost);
  EXPECT_EQ(other_queue().settle({.delivery = delivery_of(taken_over[0])}), SettleStatus::settled);
}

TEST_P(TwoHandlesConformance, ReaperOfOneFreesWhatADeadWorkerOfTheOtherHeld) {
  proves("IBX-068", "IBX-072", "R-23");
  enqueue(message("a"));
  claim_one(alice);  // and alice is never heard of again
  advance(defaults::kLease);
  EXPECT_EQ(other_queue().reap().released, 1U);
  EXPECT_EQ(ids_of(other_queue().claim({.owner = bob})), Ids{"a"});
}

TEST_P(TwoHandlesConformance, NewContentThroughOneSupersedesADeliveryOfTheOther) {
  proves("R-07", "IBX-105");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one(alice);
  EXPECT_EQ(other_queue().enqueue(message("a", {.payload = "newer"})).status,
            EnqueueStatus::superseding);
  EXPECT_EQ(settle(claimed), SettleStatus::superseded);
}

TEST_P(TwoHandlesConformance, OperatorOfOneWorksOnWhatTheOtherBuried) {
  proves("R-30", "R-24", "IBX-105");
  put(Situation::dead, "a");
  put(Situation::dead, "b");
  const std::vector<MessageKey> first{key("a")};
  const std::vector<MessageKey> second{key("b")};
  EXPECT_EQ(other_operator().revive(first), std::vector{ReviveOutcome::revived});
  EXPECT_EQ(other_operator().purge(second), std::vector{PurgeOutcome::purged});
  EXPECT_EQ(claim_ids(), Ids{"a"});
  EXPECT_FALSE(is_stored("b"));
}

TEST_P(TwoHandlesConformance, ClosingOneHandleLeavesTheOtherAtWork) {
  proves("IBX-013", "IBX-105");
  enqueue_ids({"a", "b"});
  const std::vector<ClaimedMessage> held = other_queue().claim({.owner = bob, .limit = 1});
  other_.reset();
  EXPECT_EQ(record("a").lease.value().owner, bob) << "its leases run on";
  EXPECT_EQ(claim_ids(), Ids{"b"});
  EXPECT_EQ(settle(held.at(0)), SettleStatus::settled);
}

TEST_P(TwoHandlesConformance, WorkGoesOnAfterEveryHandleWasClosed) {
  proves("IBX-013");
  put_every_situation();
  const QueueDump before = dump();
  other_.reset();
  reopen();
  EXPECT_TRUE(unchanged(before, dump()));
  const Delivery held{.key = key("leased"), .owner = alice};
  EXPECT_EQ(queue().settle({.delivery = held}), SettleStatus::settled);
  EXPECT_EQ(enqueue(message("done")), EnqueueStatus::duplicate_done);
}

TEST_P(TwoHandlesConformance, SpacesOfTwoTestsAreStrangers) {
  proves("IBX-085");
  enqueue(message("a"));
  other_.reset();
  use_fresh_space();
  EXPECT_EQ(queue_operator().count({}), 0U);
  EXPECT_FALSE(keys().is_processed("a"));
}

TEST_P(TwoHandlesConformance, StoreIsHealthyAndTakesSixteenMebibytes) {
  proves("IBX-118");
  EXPECT_EQ(store().health().status, HealthStatus::healthy) << store().health().detail;
  EXPECT_GE(store().capabilities().max_payload_bytes, std::size_t{16} << 20);
}

TEST_P(TwoHandlesConformance, MigrationIsIdempotentAndKeepsEverything) {
  proves("IBX-116");
  put_every_situation();
  const QueueDump before = dump();
  const MigrationResult first = store().migrate();
  const MigrationResult second = other_->migrate();
  EXPECT_EQ(second.from_version, first.to_version);
  EXPECT_EQ(second.to_version, first.to_version);
  EXPECT_TRUE(unchanged(before, dump()));
}

}  // namespace oncebox::conformance
