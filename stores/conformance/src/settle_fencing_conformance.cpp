// Who may settle a delivery, and until when: IBX-045, IBX-046, IBX-054, IBX-055, IBX-062, IBX-063,
// Each case is tried with every verdict, because each is a statement of its own in a
// database.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class SettleFencingConformance : public StoreConformance {
 protected:
  static std::vector<Verdict> every_verdict() {
    return {Ack{}, Abandon{.error = "late", .delay = 1s}, Fail{.error = "late"}, Release{}};
  }

  SettleOutcome settle_as(const Delivery& delivery, const Verdict& verdict) {
    return queue().settle({.delivery = delivery, .verdict = verdict});
  }

  /// Every verdict on this delivery is answered `lease_lost`, and so is an extension; nothing
  /// changes.
  void expect_lost(const Delivery& delivery) {
    const QueueDump before = dump();
    for (const Verdict& verdict : every_verdict()) {
      SCOPED_TRACE(verdict.index());
      EXPECT_EQ(settle_as(delivery, verdict), SettleStatus::lease_lost);
      EXPECT_TRUE(unchanged(before, dump()));
    }
    EXPECT_EQ(queue().extend({.delivery = delivery}), ExtendOutcome{});
    EXPECT_TRUE(unchanged(before, dump()));
  }

  /// For each verdict: a fresh message that alice claims, and then the verdict takes effect on the
  /// delivery as `name_delivery` names it.
  template <class Name>
  void expect_settled(Name name_delivery) {
    for (const Verdict& verdict : every_verdict()) {
      const std::string id = "a" + std::to_string(verdict.index());
      SCOPED_TRACE(id);
      enqueue(message(id));
      const ClaimedMessage claimed = claim_one(alice);
      EXPECT_EQ(settle_as(name_delivery(claimed), verdict), SettleStatus::settled);
      EXPECT_EQ(record(id).lease, std::nullopt);
      queue().mark({.key = key(id), .as = MarkAs::processed});  // out of the next one's way
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, SettleFencingConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(SettleFencingConformance, UnknownKeyIsLostQuietly) {
  proves("IBX-046", "IBX-055", "IBX-063", "R-14");
  put_every_situation();
  expect_lost({.key = key("nobody"), .owner = alice});
  expect_lost({.key = key("leased", "paypal"), .owner = alice});
}

TEST_P(SettleFencingConformance, ForeignOwnerChangesNothing) {
  proves("IBX-045", "IBX-046", "IBX-054", "IBX-055", "IBX-062", "IBX-063", "R-15");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one(alice);
  expect_lost({.key = key("a"), .owner = bob});
  expect_lost({.key = key("a"), .owner = bob, .number = claimed.delivery});
  EXPECT_EQ(settle(claimed), SettleStatus::settled);
}

TEST_P(SettleFencingConformance, ForeignOwnerChangesNothingAfterTheLeaseLapsedEither) {
  proves("IBX-045", "IBX-054", "IBX-062", "R-14");
  put(Situation::lapsed, "a");
  expect_lost({.key = key("a"), .owner = bob});
}

TEST_P(SettleFencingConformance, MessageThatNobodyHoldsIsLost) {
  proves("IBX-045", "IBX-054", "IBX-062", "IBX-071");
  put_every_situation();
  for (const char* id : {"seen", "marked_processing", "ready", "waiting", "done", "dead"}) {
    SCOPED_TRACE(id);
    expect_lost({.key = key(id), .owner = alice});
  }
}

TEST_P(SettleFencingConformance, HolderSettlesByNumber) {
  proves("R-15", "IBX-044", "IBX-050", "IBX-060");
  expect_settled([](const ClaimedMessage& claimed) { return delivery_of(claimed); });
}

TEST_P(SettleFencingConformance, HolderSettlesByOwnerAlone) {
  proves("R-15", "IBX-044", "IBX-050", "IBX-060");
  expect_settled([](const ClaimedMessage& claimed) {
    return Delivery{.key = claimed.message.key, .owner = claimed.owner};
  });
}

TEST_P(SettleFencingConformance, LapsedLeaseCanBeSettledWhileNobodyTookIt) {
  proves("R-14", "R-16");
  expect_settled([this](const ClaimedMessage& claimed) {
    advance(defaults::kLease + 1h);
    return delivery_of(claimed);
  });
}

TEST_P(SettleFencingConformance, LapsedLeaseCanBeSettledByOwnerAlone) {
  proves("R-14", "R-15");
  expect_settled([this](const ClaimedMessage& claimed) {
    advance(defaults::kLease);
    return Delivery{.key = claimed.message.key, .owner = claimed.owner};
  });
}

TEST_P(SettleFencingConformance, SettlingLateCountsNoLapse) {
  proves("R-14", "R-10");
  put(Situation::lapsed, "a");
  const Delivery delivery{.key = key("a"), .owner = alice};
  EXPECT_EQ(settle_as(delivery, Abandon{.delay = 1s}), SettleStatus::settled);
  EXPECT_EQ(record("a").history.lapses, 0);
  EXPECT_EQ(record("a").history.attempt, 1);
}

TEST_P(SettleFencingConformance, DeliveryIsLostOnceSomebodyElseClaimed) {
  proves("R-14", "R-15", "IBX-045");
  enqueue(message("a"));
  const ClaimedMessage first = claim_one(alice);
  advance(defaults::kLease);
  const ClaimedMessage second = claim_one(bob);
  expect_lost(delivery_of(first));
  expect_lost({.key = key("a"), .owner = alice});
  EXPECT_EQ(settle(second), SettleStatus::settled);
}

TEST_P(SettleFencingConformance, StaleNumberOfTheSameOwnerIsLost) {
  proves("R-15");
  enqueue(message("a"));
  const ClaimedMessage first = claim_one(alice);
  advance(defaults::kLease);
  const ClaimedMessage second = claim_one(alice);
  expect_lost(delivery_of(first));
  EXPECT_EQ(settle(second), SettleStatus::settled);
}

TEST_P(SettleFencingConformance, StaleNumberAmongCurrentOnesIsLostAlone) {
  proves("R-15");
  enqueue(message("a"));
  const ClaimedMessage stale = claim_one(alice);
  advance(defaults::kLease);
  const ClaimedMessage current = claim_one(alice);
  enqueue(message("b"));
  const ClaimedMessage other = claim_one(alice);
  const std::vector<Settlement> settlements{{.delivery = delivery_of(stale), .verdict = Ack{}},
                                            {.delivery = delivery_of(other), .verdict = Ack{}}};
  EXPECT_EQ(statuses_of(queue().settle(settlements)),
            (std::vector{SettleStatus::lease_lost, SettleStatus::settled}));
  EXPECT_EQ(record("b").status, Status::done);
  EXPECT_EQ(settle(current), SettleStatus::settled);
}

TEST_P(SettleFencingConformance, EachOwnerOfACallSettlesOnlyItsOwn) {
  proves("R-15", "IBX-045");
  enqueue(message("a"));
  const ClaimedMessage of_alice = claim_one(alice);
  enqueue(message("b"));
  const ClaimedMessage of_bob = claim_one(bob);
  enqueue(message("c"));
  Delivery claimed_by_bob = delivery_of(claim_one(bob));
  claimed_by_bob.owner = alice;
  const std::vector<Settlement> settlements{{.delivery = delivery_of(of_alice), .verdict = Ack{}},
                                            {.delivery = delivery_of(of_bob), .verdict = Ack{}},
                                            {.delivery = claimed_by_bob, .verdict = Ack{}}};
  EXPECT_EQ(statuses_of(queue().settle(settlements)),
            (std::vector{SettleStatus::settled, SettleStatus::settled, SettleStatus::lease_lost}));
}

TEST_P(SettleFencingConformance, OwnerAloneMeansWhateverDeliveryItHolds) {
  proves("R-15");
  enqueue(message("a"));
  claim_one(alice);
  advance(defaults::kLease);
  claim_one(alice);
  EXPECT_EQ(settle_as({.key = key("a"), .owner = alice}, Ack{}), SettleStatus::settled);
  EXPECT_EQ(record("a").status, Status::done);
}

TEST_P(SettleFencingConformance, NumberThatWasNeverGivenIsLost) {
  proves("R-15");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one(alice);
  const auto next = static_cast<DeliveryNumber>(static_cast<std::uint64_t>(claimed.delivery) + 1);
  expect_lost({.key = key("a"), .owner = alice, .number = next});
  expect_lost({.key = key("a"), .owner = alice, .number = DeliveryNumber{0}});
}

TEST_P(SettleFencingConformance, DeliveryIsLostOnceItsLeaseWasReaped) {
  proves("R-14", "IBX-069");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one(alice);
  advance(defaults::kLease);
  queue().reap();
  expect_lost(delivery_of(claimed));
  expect_lost({.key = key("a"), .owner = alice});
}

TEST_P(SettleFencingConformance, SecondSettlementIsLost) {
  proves("IBX-046", "IBX-055", "IBX-063", "R-14");
  for (const Verdict& verdict : every_verdict()) {
    const std::string id = "a" + std::to_string(verdict.index());
    SCOPED_TRACE(id);
    enqueue(message(id));
    const ClaimedMessage claimed = claim_one(alice);
    EXPECT_EQ(settle(claimed, verdict), SettleStatus::settled);
    expect_lost(delivery_of(claimed));
    expect_lost({.key = key(id), .owner = alice});
    queue().mark({.key = key(id), .as = MarkAs::processed});  // out of the next one's way
  }
}

TEST_P(SettleFencingConformance, OfTwoSettlementsInOneBatchTheFirstCounts) {
  proves("IBX-046", "IBX-102", "R-14");
  for (const Verdict& first : every_verdict()) {
    for (const Verdict& second : every_verdict()) {
      const std::string id =
          "a" + std::to_string(first.index()) + "." + std::to_string(second.index());
      SCOPED_TRACE(id);
      enqueue(message(id));
      const Delivery delivery = delivery_of(claim_one(alice));
      const std::vector<Settlement> batch{{.delivery = delivery, .verdict = first},
                                          {.delivery = delivery, .verdict = second}};
      EXPECT_EQ(statuses_of(queue().settle(batch)),
                (std::vector{SettleStatus::settled, SettleStatus::lease_lost}));
      const MessageRecord settled = record(id);
      EXPECT_EQ(settled.status == Status::done, std::holds_alternative<Ack>(first));
      EXPECT_EQ(settled.status == Status::dead, std::holds_alternative<Fail>(first));
      const bool has_failed =
          std::holds_alternative<Abandon>(first) || std::holds_alternative<Fail>(first);
      EXPECT_EQ(settled.history.attempt, has_failed ? 1 : 0);
      queue().mark({.key = key(id), .as = MarkAs::processed});  // out of the next one's way
    }
  }
}

TEST_P(SettleFencingConformance, DeliveryFromBeforeARemovalIsLost) {
  proves("R-15");
  enqueue(message("purged"));
  const ClaimedMessage before_purge = claim_one();
  settle(before_purge, Fail{"boom"});
  const std::vector<MessageKey> purged{key("purged")};
  queue_operator().purge(purged);
  enqueue(message("purged"));
  const ClaimedMessage after_purge = claim_one();
  EXPECT_EQ(settle(before_purge), SettleStatus::lease_lost);
  EXPECT_EQ(settle(after_purge), SettleStatus::settled);

  queue_operator().cleanup({.done_retention = 0s});
  ASSERT_FALSE(is_stored("purged"));
  enqueue(message("purged"));
  const ClaimedMessage after_cleanup = claim_one();
  EXPECT_EQ(settle(after_purge), SettleStatus::lease_lost);
  EXPECT_EQ(settle(after_cleanup), SettleStatus::settled);
}

TEST_P(SettleFencingConformance, DeliveryFromBeforeARevivalIsLost) {
  proves("R-15", "R-24");
  enqueue(message("a"));
  const ClaimedMessage before = claim_one(alice);
  queue().mark({.key = key("a"), .as = MarkAs::dead});
  const std::vector<MessageKey> keys{key("a")};
  queue_operator().revive(keys);
  expect_lost(delivery_of(before));
  const ClaimedMessage after = claim_one(alice);
  expect_lost(delivery_of(before));
  EXPECT_EQ(settle(after), SettleStatus::settled);
}

}  // namespace oncebox::conformance
