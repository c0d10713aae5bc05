// Messages that come too late to be of use: R-28.

#include <set>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class ExpiryConformance : public StoreConformance {
 protected:
  void expect_dead_of_expiry(std::string_view id) {
    queue().reap();
    const MessageRecord dead = record(id);
    EXPECT_EQ(dead.status, Status::dead);
    EXPECT_EQ(dead.history.last_error, "expired");
    EXPECT_EQ(dead.lease, std::nullopt);
    EXPECT_EQ(at(dead.eligible_at), kNever);
    EXPECT_NE(at(dead.finished_at), kNever);
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, ExpiryConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(ExpiryConformance, MessageIsHandedOutUntilJustBeforeItExpires) {
  proves("R-28");
  enqueue(message("a", {.expires_at = now() + 60s}));
  advance(60s - 1ms);
  EXPECT_EQ(claim_ids(), std::vector<std::string>{"a"});
}

TEST_P(ExpiryConformance, ExpiredMessageGoesDeadInsteadOfBeingHandedOut) {
  proves("R-28", "R-16");
  enqueue(message("a", {.expires_at = now() + 60s}));
  advance(60s);
  EXPECT_TRUE(claim_ids().empty());
  expect_dead_of_expiry("a");
  EXPECT_EQ(record("a").history.attempt, 0);
  EXPECT_EQ(record("a").history.deliveries, 0);
}

TEST_P(ExpiryConformance, ReapBuriesTheExpiredAndCountsThem) {
  proves("R-28", "R-23");
  enqueue(message("a", {.expires_at = now() + 1s}));
  enqueue(message("b", {.due_at = now() + 1h, .expires_at = now() + 1s}));
  enqueue(message("c"));
  advance(1s);
  EXPECT_EQ(queue().reap(), buried({"a", "b"}, "expired"));
  EXPECT_EQ(queue().reap(), ReapResult{});
  EXPECT_EQ(record("a").history.last_error, "expired");
  EXPECT_EQ(record("b").status, Status::dead) << "it would have come due too late";
  EXPECT_EQ(record("c").status, Status::processing);
}

TEST_P(ExpiryConformance, ClaimTellsWhatItBuriedAndWhichLeasesItEnded) {
  proves("R-28", "R-33");
  enqueue(message("a", {.expires_at = now() + 1s}));
  enqueue(message("b"));
  (void)queue().claim({.owner = alice, .limit = 2});
  enqueue(message("c", {.topic = "other", .expires_at = now() + 1s}));
  advance(defaults::kLease);
  const ClaimResult claimed = queue().claim({.owner = alice});
  EXPECT_EQ(ids_of(claimed.messages), (std::vector<std::string>{"b"}));
  EXPECT_EQ(claimed.reaped.released, 1U) << "the lease of b";
  ReapResult told = claimed.reaped;
  told.add(queue().reap());  // a claim may leave burials for later
  EXPECT_EQ(told.released, 1U);
  EXPECT_EQ(told.buried, 2U);
  std::set<Topic> topics;
  for (const Death& death : told.deaths) topics.insert(death.topic);
  EXPECT_EQ(topics, (std::set<Topic>{record("a").message->topic, Topic("other")}));
  EXPECT_EQ(queue().claim({.owner = alice}).reaped, ReapResult{}) << "each is told once";
}

TEST_P(ExpiryConformance, MessageThatComesExpiredIsNeverHandedOut) {
  proves("R-28");
  enqueue(message("a", {.expires_at = now()}));
  enqueue(message("b", {.expires_at = kMinTime}));
  EXPECT_TRUE(claim_ids().empty());
  expect_dead_of_expiry("a");
  expect_dead_of_expiry("b");
}

TEST_P(ExpiryConformance, ExpiredMessagesDoNotTakePlacesInABatch) {
  proves("R-28", "IBX-039");
  for (int i = 0; i < 5; ++i) {
    enqueue(message("old" + std::to_string(i), {.priority = 9, .expires_at = now() + 1s}));
  }
  enqueue_ids({"a", "b", "c"});
  advance(1s);
  EXPECT_EQ(claim_ids(2), (std::vector<std::string>{"a", "b"}));
}

TEST_P(ExpiryConformance, HolderMayStillSettleAMessageThatExpiresInItsHands) {
  proves("R-28", "R-14");
  enqueue(message("a", {.expires_at = now() + 10s}));
  const ClaimedMessage claimed = claim_one();
  advance(20s);
  EXPECT_EQ(queue().reap(), ReapResult{});
  EXPECT_EQ(record("a").status, Status::processing);
  EXPECT_EQ(settle(claimed), SettleStatus::settled);
  EXPECT_EQ(record("a").status, Status::done);
}

TEST_P(ExpiryConformance, ExpiredMessageDiesWhenItsDeliveryEndsWithoutSuccess) {
  proves("R-28");
  const std::vector<std::pair<std::string, Verdict>> verdicts{
      {"abandoned", Abandon{.error = "no route", .delay = 1s}}, {"released", Release{}}};
  for (const auto& [id, verdict] : verdicts) {
    SCOPED_TRACE(id);
    enqueue(message(id, {.expires_at = now() + 10s}));
    const ClaimedMessage claimed = claim_one();
    advance(10s);
    EXPECT_EQ(settle(claimed, verdict), SettleStatus::settled);
    EXPECT_TRUE(claim_ids().empty());
    expect_dead_of_expiry(id);
  }
}

TEST_P(ExpiryConformance, ExpiredMessageDiesWhenItsLeaseLapses) {
  proves("R-28", "R-16");
  enqueue(message("a", {.expires_at = now() + 10s}));
  claim_one();
  advance(defaults::kLease);
  EXPECT_TRUE(claim_ids().empty());
  expect_dead_of_expiry("a");
}

TEST_P(ExpiryConformance, LapsedAndExpiredCountsAsBuriedOnce) {
  proves("R-28", "R-23");
  enqueue(message("a", {.expires_at = now() + 10s}));
  claim_one();
  advance(defaults::kLease);
  EXPECT_EQ(queue().reap(), buried({"a"}, "expired"));
}

TEST_P(ExpiryConformance, LaterEnqueueMovesTheExpiry) {
  proves("R-28", "R-08");
  enqueue(message("a", {.expires_at = now() + 10s}));
  enqueue(message("b", {.expires_at = now() + 10s}));
  enqueue(message("c"));
  enqueue(message("a", {.expires_at = now() + 60s}));
  enqueue(message("b"));
  enqueue(message("c", {.expires_at = now() + 10s}));
  advance(10s);
  EXPECT_EQ(claim_ids(), (std::vector<std::string>{"a", "b"}));
  expect_dead_of_expiry("c");
}

TEST_P(ExpiryConformance, ExpiredMessageIsListedAmongTheDead) {
  proves("R-28", "R-30");
  enqueue(message("a", {.expires_at = now() + 1s}));
  advance(1s);
  queue().reap();
  const MessageFilter expired{.statuses = {Status::dead}, .error_contains = "expired"};
  EXPECT_EQ(ids_of(queue_operator().list({.filter = expired}).records),
            std::vector<std::string>{"a"});
}

TEST_P(ExpiryConformance, EnqueueThatRevivesKeepsItsOwnExpiry) {
  proves("R-05", "R-28");
  put(Situation::dead, "a");
  const Message expired = message("a", {.expires_at = now()});
  EXPECT_EQ(enqueue(expired, {.on_dead = DeadPolicy::revive}), EnqueueStatus::revived);
  EXPECT_EQ(claim_ids().size(), 0U);
  queue().reap();
  expect_dead_of_expiry("a");
}

}  // namespace oncebox::conformance
