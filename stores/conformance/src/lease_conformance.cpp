// Prolonging leases, and ending those that lapsed: section 6.7, R-16 and R-23.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class LeaseConformance : public StoreConformance {
 protected:
  std::optional<TimePoint> extend(const ClaimedMessage& claimed, Duration lease) {
    return queue().extend({.delivery = delivery_of(claimed), .lease = lease}).locked_until;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, LeaseConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(LeaseConformance, ExtensionCountsFromNow) {
  proves("IBX-033", "IBX-034");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one(alice, 30s);
  advance(20s);
  MessageRecord expected = record("a");
  EXPECT_EQ(at(extend(claimed, 30s)), at(now() + 30s));
  expected.lease->locked_until = now() + 30s;
  EXPECT_EQ(record("a"), expected) << "an extension changes the end of the lease only";
  advance(30s - 1ms);
  EXPECT_TRUE(claim({.owner = bob}).empty());
  advance(1ms);
  EXPECT_EQ(ids_of(claim({.owner = bob})), Ids{"a"});
}

TEST_P(LeaseConformance, ExtensionNeverShortensALease) {
  proves("IBX-034");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one(alice, 60s);
  EXPECT_EQ(at(extend(claimed, 1ms)), at(now() + 60s));
  EXPECT_EQ(at(record("a").lease->locked_until), at(now() + 60s));
}

TEST_P(LeaseConformance, LapsedLeaseCanBeExtendedWhileNobodyTookIt) {
  proves("R-14", "R-16");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one(alice, 10s);
  advance(1h);
  EXPECT_EQ(at(extend(claimed, 10s)), at(now() + 10s));
  EXPECT_TRUE(claim({.owner = bob}).empty());
  EXPECT_EQ(queue().reap(), ReapResult{});
  EXPECT_EQ(record("a").history.lapses, 0);
  EXPECT_EQ(settle(claimed), SettleStatus::settled);
}

TEST_P(LeaseConformance, OwnerAloneExtendsWhateverDeliveryItHolds) {
  proves("R-15");
  enqueue(message("a"));
  claim_one(alice, 10s);
  const Delivery by_owner{.key = key("a"), .owner = alice};
  EXPECT_EQ(at(queue().extend({.delivery = by_owner, .lease = 20s}).locked_until), at(now() + 20s));
}

TEST_P(LeaseConformance, LostLeaseIsNotExtended) {
  proves("R-14", "R-15", "IBX-069");
  put_every_situation();
  enqueue(message("a"));
  const QueueDump before = dump();
  for (const char* id : {"nobody", "seen", "marked_processing", "ready", "done", "dead", "a"}) {
    EXPECT_EQ(queue().extend({.delivery = {.key = key(id), .owner = alice}}), ExtendOutcome{})
        << id;
  }
  EXPECT_EQ(queue().extend({.delivery = {.key = key("leased"), .owner = bob}}), ExtendOutcome{});
  EXPECT_TRUE(unchanged(before, dump()));
}

TEST_P(LeaseConformance, BatchOfExtensionsIsAnsweredInOrder) {
  proves("IBX-102");
  enqueue_ids({"a", "b"});
  const std::vector<ClaimedMessage> claimed = claim({.owner = alice, .lease = 10s});
  ASSERT_EQ(claimed.size(), 2U);
  const std::vector<LeaseExtension> batch{
      {.delivery = delivery_of(claimed[1]), .lease = 20s},
      {.delivery = {.key = key("nobody"), .owner = alice}, .lease = 20s},
      {.delivery = delivery_of(claimed[0]), .lease = 30s},
      {.delivery = delivery_of(claimed[1]), .lease = 15s}};
  const std::vector<ExtendOutcome> expected{{now() + 20s}, {}, {now() + 30s}, {now() + 20s}};
  EXPECT_EQ(queue().extend(batch), expected);
  EXPECT_TRUE(queue().extend(std::vector<LeaseExtension>{}).empty());
}

TEST_P(LeaseConformance, ReapEndsLapsedLeases) {
  proves("IBX-068", "IBX-069", "IBX-070", "R-09", "R-23");
  enqueue(message("a"));
  claim_one(alice, 10s);
  MessageRecord expected = record("a");
  const TimePoint lease_end = now() + 10s;
  advance(15s);
  EXPECT_EQ(queue().reap(), ReapResult{.released = 1});
  expected.state = State::ready;
  expected.lease.reset();
  expected.history.lapses = 1;
  expected.eligible_at = lease_end;
  expected.attempts = record("a").attempts;
  EXPECT_EQ(record("a"), expected) << "no attempt is counted, and no delivery";
  EXPECT_EQ(queue().reap(), ReapResult{});
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(LeaseConformance, LeaseThatEndsNowHasEndedForTheReaper) {
  proves("R-16", "IBX-068");
  enqueue(message("a"));
  claim_one(alice, 10s);
  advance(10s - 1ms);
  EXPECT_EQ(queue().reap(), ReapResult{});
  advance(1ms);
  EXPECT_EQ(queue().reap().released, 1U);
}

TEST_P(LeaseConformance, ReapTouchesNothingElse) {
  proves("IBX-068", "IBX-071");
  put_every_situation();
  QueueDump before = dump();
  EXPECT_EQ(queue().reap(), ReapResult{.released = 1});
  const QueueDump after = dump();
  ASSERT_EQ(after.records.size(), before.records.size());
  for (std::size_t i = 0; i < after.records.size(); ++i) {
    if (after.records[i].key == key("lapsed")) continue;
    EXPECT_EQ(after.records[i], before.records[i]);
  }
}

TEST_P(LeaseConformance, ReapedMessageStillWaitsForItsDueTime) {
  proves("IBX-070", "IBX-032", "R-08");
  for (const bool reap_first : {false, true}) {
    SCOPED_TRACE(reap_first ? "reaped first" : "taken over by the claim");
    const std::string id = reap_first ? "a" : "b";
    enqueue(message(id));
    claim_one(alice, 10s);
    enqueue(message(id, {.due_at = now() + 100s}));
    advance(10s);
    if (reap_first) queue().reap();
    EXPECT_TRUE(claim_ids().empty());
    advance(90s);
    EXPECT_EQ(claim_ids(), Ids{id});
    queue().mark({.key = key(id), .as = MarkAs::processed});  // out of the next one's way
  }
}

TEST_P(LeaseConformance, ReapStopsAtItsLimitAndGoesOnWhenCalledAgain) {
  proves("IBX-068", "R-23");
  enqueue_ids({"a", "b", "c", "d", "e"});
  claim(5);
  enqueue(message("f", {.expires_at = now() + 1s}));
  advance(defaults::kLease);
  std::size_t total = 0;
  for (const std::size_t expected : {4U, 2U, 0U}) {
    const ReapResult result = queue().reap({.limit = 4});
    EXPECT_EQ(result.total(), expected);
    total += result.released;
  }
  EXPECT_EQ(total, 5U);
  EXPECT_EQ(record("f").status, Status::dead);
}

TEST_P(LeaseConformance, SupersededContentIsHandedOutAfterALapse) {
  proves("R-07", "R-23");
  enqueue(message("a"));
  claim_one(alice);
  enqueue(message("a", {.payload = "newer"}));
  advance(defaults::kLease);
  const ClaimedMessage second = claim_one(bob);
  EXPECT_EQ(second.message.payload, Payload("newer"));
  EXPECT_EQ(settle(second), SettleStatus::settled);
  EXPECT_EQ(record("a").status, Status::done);
}

TEST_P(LeaseConformance, LeaseSurvivesReopening) {
  proves("IBX-013", "IBX-033");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one(alice);
  const MessageRecord before = record("a");
  reopen();
  EXPECT_EQ(record("a"), before);
  EXPECT_TRUE(claim({.owner = bob}).empty());
  EXPECT_EQ(settle(claimed), SettleStatus::settled);
}

}  // namespace oncebox::conformance
