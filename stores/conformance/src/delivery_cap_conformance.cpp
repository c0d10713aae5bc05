// A message that kills its workers must not do so for ever: R-10.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class DeliveryCapConformance : public StoreConformance {
 protected:
  /// Claims where messages are delivered `max_deliveries` times at most; the caller lets the lease
  /// lapse.
  std::vector<ClaimedMessage> claim_with_cap(int max_deliveries) {
    set_policy("*", {.max_deliveries = max_deliveries});
    return claim({.owner = alice, .lease = 10s});
  }

  void expect_dead(std::string_view id, std::string_view error) {
    const MessageRecord dead = record(id);
    EXPECT_EQ(dead.status, Status::dead);
    EXPECT_EQ(dead.history.last_error, error);
    EXPECT_EQ(dead.lease, std::nullopt);
    EXPECT_EQ(at(dead.eligible_at), kNever);
    EXPECT_NE(at(dead.finished_at), kNever);
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, DeliveryCapConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(DeliveryCapConformance, WorkerKillingMessageEndsDeadThroughTheReaper) {
  proves("R-10", "R-09");
  enqueue(message("a"));
  for (int lapses = 1; lapses <= 3; ++lapses) {
    ASSERT_EQ(ids_of(claim_with_cap(3)), Ids{"a"});
    EXPECT_EQ(record("a").history.deliveries, lapses);
    advance(10s);
    EXPECT_EQ(queue().reap(),
              lapses < 3 ? ReapResult{.released = 1} : buried({"a"}, "lease expired 3 times"));
    EXPECT_EQ(record("a").history.lapses, lapses);
    EXPECT_EQ(record("a").history.attempt, 0) << "a lapsed lease changes no attempt";
  }
  expect_dead("a", "lease expired 3 times");
  EXPECT_TRUE(claim_with_cap(3).empty());
}

TEST_P(DeliveryCapConformance, WorkerKillingMessageEndsDeadWithoutAReaperInBetween) {
  proves("R-10", "R-23", "R-33");
  enqueue(message("a"));
  for (int lapses = 1; lapses <= 4; ++lapses) {
    ASSERT_EQ(ids_of(claim_with_cap(4)), Ids{"a"});
    advance(10s);
  }
  const ClaimResult last = queue().claim({.owner = alice});
  EXPECT_TRUE(last.empty()) << "it is never handed out a fifth time";
  ReapResult told = last.reaped;
  told.add(queue().reap());
  EXPECT_EQ(told, buried({"a"}, "lease expired 4 times")) << "once, by the claim or by the reap";
  expect_dead("a", "lease expired 4 times");
  EXPECT_EQ(record("a").history.deliveries, 4);
}

TEST_P(DeliveryCapConformance, CapOfOneMeansOneDelivery) {
  proves("R-10");
  enqueue(message("a"));
  ASSERT_EQ(ids_of(claim_with_cap(1)), Ids{"a"});
  advance(10s);
  EXPECT_TRUE(claim_with_cap(1).empty());
  queue().reap();
  expect_dead("a", "lease expired 1 times");
}

TEST_P(DeliveryCapConformance, DefaultIsTwiceTheAttempts) {
  proves("R-10", "R-26");
  enqueue(message("a"));
  const bool is_outbox = GetParam().queue == QueueKind::outbox;
  const int most = 2 * (is_outbox ? outbox_retry_policy() : RetryPolicy{}).max_attempts;
  for (int i = 0; i < most; ++i) {
    ASSERT_EQ(claim_ids(), Ids{"a"}) << "after " << i << " lapses";
    advance(defaults::kLease);
  }
  EXPECT_TRUE(claim_ids().empty());
  queue().reap();
  expect_dead("a", "lease expired " + std::to_string(most) + " times");
}

TEST_P(DeliveryCapConformance, FailedDeliveriesCountToo) {
  proves("R-10", "R-09");
  enqueue(message("a"));
  for (int i = 0; i < 2; ++i) {
    settle(claim_with_cap(3).at(0), Abandon{.error = "boom", .delay = 1s});
    advance(1s);
  }
  ASSERT_EQ(ids_of(claim_with_cap(3)), Ids{"a"});
  advance(10s);
  queue().reap();
  expect_dead("a", "lease expired 1 times");
  EXPECT_EQ(record("a").history.attempt, 2);
}

TEST_P(DeliveryCapConformance, AbandonAloneNeverReachesTheCap) {
  proves("R-10", "R-11");
  enqueue(message("a"));
  for (int i = 0; i < 5; ++i) {
    settle(claim_with_cap(2).at(0), Abandon{.delay = 1s});
    advance(1s);
    EXPECT_EQ(queue().reap(), ReapResult{});
  }
  EXPECT_EQ(record("a").status, Status::processing);
  ASSERT_EQ(ids_of(claim_with_cap(2)), Ids{"a"}) << "only a lapse looks at the cap";
  advance(10s);
  EXPECT_TRUE(claim_with_cap(2).empty());
}

TEST_P(DeliveryCapConformance, ReleasedDeliveriesDoNotCount) {
  proves("R-10");
  enqueue(message("a"));
  for (int i = 0; i < 30; ++i) settle(claim_with_cap(2).at(0), Release{});
  EXPECT_EQ(record("a").history.deliveries, 30);
  ASSERT_EQ(ids_of(claim_with_cap(2)), Ids{"a"});
  advance(10s);
  EXPECT_EQ(queue().reap(), ReapResult{.released = 1});
  ASSERT_EQ(ids_of(claim_with_cap(2)), Ids{"a"});
  advance(10s);
  EXPECT_EQ(queue().reap(), buried({"a"}, "lease expired 2 times"));
  expect_dead("a", "lease expired 2 times");
}

TEST_P(DeliveryCapConformance, LastDeliveryMayStillBeSettledLate) {
  proves("R-10", "R-14");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_with_cap(1).at(0);
  advance(1h);
  EXPECT_EQ(settle(claimed), SettleStatus::settled);
  queue().reap();
  EXPECT_EQ(record("a").status, Status::done);
}

TEST_P(DeliveryCapConformance, MessagesThatAreTooOftenDeliveredTakeNoPlaceInABatch) {
  proves("R-10", "IBX-039");
  enqueue_ids({"a", "b"});
  ASSERT_EQ(claim_with_cap(1).size(), 2U);
  advance(10s);
  enqueue_ids({"c", "d"});
  EXPECT_EQ(ids_of(claim({.owner = bob, .limit = 2})), (Ids{"c", "d"}));
}

TEST_P(DeliveryCapConformance, RevivalBeginsTheCountAnew) {
  proves("R-10", "R-24");
  enqueue(message("a"));
  claim_with_cap(1);
  advance(10s);
  queue().reap();
  const std::vector<MessageKey> keys{key("a")};
  queue_operator().revive(keys);
  EXPECT_EQ(record("a").history.lapses, 0);
  ASSERT_EQ(ids_of(claim_with_cap(2)), Ids{"a"});
  advance(10s);
  EXPECT_EQ(ids_of(claim_with_cap(2)), Ids{"a"});
}

}  // namespace oncebox::conformance
