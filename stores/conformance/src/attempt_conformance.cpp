// Every attempt leaves a trace, unless the message succeeds at once: R-32.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class AttemptConformance : public StoreConformance {
 protected:
  using Outcomes = std::vector<AttemptOutcome>;

  ClaimedMessage claim_as(const WorkerName& worker) {
    std::vector<ClaimedMessage> claimed = claim({.owner = alice, .worker = worker});
    EXPECT_EQ(claimed.size(), 1U);
    return claimed.at(0);
  }

  /// Claims the only message, takes a second for it, and lets the delay pass.
  void try_once(const Verdict& verdict, const WorkerName& worker = "w") {
    const ClaimedMessage claimed = claim_as(worker);
    advance(1s);
    const SettleOutcome outcome = settle(claimed, verdict);
    if (outcome.again_at && *outcome.again_at > now()) advance(*outcome.again_at - now());
  }

  [[nodiscard]] std::vector<Attempt> attempts(std::string_view id = "a") {
    return record(id).attempts;
  }
  [[nodiscard]] Outcomes outcomes(std::string_view id = "a") {
    Outcomes outcomes;
    for (const Attempt& attempt : attempts(id)) outcomes.push_back(attempt.outcome);
    return outcomes;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, AttemptConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(AttemptConformance, AMessageThatSucceedsAtOnceHasNone) {
  proves("R-32");
  enqueue_ids({"a", "b"});
  for (const ClaimedMessage& claimed : claim()) settle(claimed);
  enqueue_ids({"c"});
  settle(claim_one(), Release{});
  try_once(Ack{});
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_EQ(record(id).status, Status::done) << id;
    EXPECT_TRUE(attempts(id).empty()) << id;
  }
}

TEST_P(AttemptConformance, EachSaysWhoTriedWhenAndHowItEnded) {
  proves("R-32", "R-27");
  enqueue_ids({"a"});
  const TimePoint begun = now();
  try_once(Abandon{.error = "no route", .delay = 9s, .error_kind = "std::runtime_error"}, "shop-1");
  try_once(Abandon{.delay = 9s}, "shop-2");
  const std::vector<Attempt> expected{{.number = 1,
                                       .worker = "shop-1",
                                       .begun_at = begun,
                                       .ended_at = begun + 1s,
                                       .outcome = AttemptOutcome::abandoned,
                                       .error_kind = "std::runtime_error",
                                       .error = "no route"},
                                      {.number = 2,
                                       .worker = "shop-2",
                                       .begun_at = begun + 10s,
                                       .ended_at = begun + 11s,
                                       .outcome = AttemptOutcome::abandoned}};
  EXPECT_EQ(attempts(), expected);
  EXPECT_TRUE(queue_operator().list({}).records.at(0).attempts.empty()) << "lists leave them out";
  reopen();
  if (store().capabilities().durable) {
    EXPECT_EQ(attempts(), expected);
  }
}

TEST_P(AttemptConformance, TextsAreCutLikeTheLastError) {
  proves("R-32", "R-27");
  enqueue_ids({"a"});
  try_once(Abandon{.error = std::string(5'000, 'x'), .error_kind = std::string(500, 'k')});
  EXPECT_EQ(attempts().at(0).error, std::string(limits::kMaxErrorBytes, 'x'));
  EXPECT_EQ(attempts().at(0).error, record("a").history.last_error);
  EXPECT_EQ(attempts().at(0).error_kind, std::string(limits::kMaxErrorKindBytes, 'k'));
}

TEST_P(AttemptConformance, ASuccessAfterAFailureIsKeptToo) {
  proves("R-32");
  enqueue_ids({"failed", "fresh", "lapsed", "updated"});
  for (const ClaimedMessage& claimed : claim()) {
    const std::string id = claimed.message.key.message_id.str();
    if (id == "failed") settle(claimed, Abandon{.error = "boom", .delay = 1s});
    if (id == "fresh" || id == "updated") settle(claimed, Release{});
  }
  enqueue(message("updated", {.payload = "other"}));
  advance(defaults::kLease);
  const std::vector<ClaimedMessage> again = claim({.owner = alice, .worker = "w"});
  ASSERT_EQ(again.size(), 4U);
  const TimePoint begun = now();
  advance(1s);
  std::vector<Settlement> settlements;
  for (const ClaimedMessage& claimed : again) settlements.push_back({delivery_of(claimed), Ack{}});
  EXPECT_EQ(statuses_of(queue().settle(settlements)), std::vector(4, SettleStatus::settled));
  const Attempt success{.number = 2,
                        .worker = "w",
                        .begun_at = begun,
                        .ended_at = now(),
                        .outcome = AttemptOutcome::succeeded};
  for (const char* id : {"failed", "lapsed"}) EXPECT_EQ(attempts(id).back(), success) << id;
  EXPECT_EQ(outcomes("failed"), (Outcomes{AttemptOutcome::abandoned, AttemptOutcome::succeeded}));
  EXPECT_EQ(outcomes("lapsed"), (Outcomes{AttemptOutcome::lapsed, AttemptOutcome::succeeded}));
  EXPECT_TRUE(attempts("fresh").empty());
  EXPECT_TRUE(attempts("updated").empty()) << "it succeeded at once";
  EXPECT_EQ(record("failed").finished_at, now());
}

TEST_P(AttemptConformance, AReleaseIsNoAttempt) {
  proves("R-32", "R-35");
  enqueue_ids({"a"});
  try_once(Release{.delay = 1s});
  EXPECT_TRUE(attempts().empty());
  try_once(Abandon{.error = "boom"});
  try_once(Release{});
  EXPECT_EQ(outcomes(), Outcomes{AttemptOutcome::abandoned});
}

TEST_P(AttemptConformance, ALapsedLeaseIsAnAttemptThatEndedWithTheLease) {
  proves("R-32");
  enqueue_ids({"a"});
  const TimePoint begun = now();
  (void)claim_as("gone");
  advance(defaults::kLease + 5min);
  EXPECT_TRUE(attempts().empty()) << "until somebody notices";
  queue().reap();
  const Attempt expected{.number = 1,
                         .worker = "gone",
                         .begun_at = begun,
                         .ended_at = begun + defaults::kLease,
                         .outcome = AttemptOutcome::lapsed};
  EXPECT_EQ(attempts(), std::vector<Attempt>{expected});
  (void)claim_as("gone too");
  advance(defaults::kLease);
  (void)claim_as("third");
  EXPECT_EQ(outcomes(), (Outcomes{AttemptOutcome::lapsed, AttemptOutcome::lapsed}))
      << "a claim notices, too";
}

TEST_P(AttemptConformance, AFailureOfADeliveryThatWasNotTriedIsNoAttempt) {
  proves("R-32", "R-09");
  enqueue_ids({"b"});
  try_once(Fail{.error = "given up", .error_kind = "policy", .untried = true});
  const MessageRecord dead = record("b");
  EXPECT_EQ(dead.status, Status::dead);
  EXPECT_EQ(dead.history.last_error, "given up");
  EXPECT_EQ(dead.history.attempt, 0);
  EXPECT_EQ(dead.history.deliveries, 1);
  EXPECT_EQ(outcomes("b"), Outcomes{});
  enqueue_ids({"a"});
  try_once(Abandon{.error = "no route"});
  EXPECT_EQ(settle(claim_one(), Fail{.error = "given up", .untried = true}),
            (SettleOutcome{.death = SettledDeath::failed}));
  EXPECT_EQ(record("a").history.attempt, 1);
  EXPECT_EQ(outcomes("a"), Outcomes{AttemptOutcome::abandoned});
}

TEST_P(AttemptConformance, DeathLeavesTheAttemptThatLedToIt) {
  proves("R-32", "R-10");
  set_policy("*", {.max_attempts = 2, .max_deliveries = 2});
  enqueue_ids({"a"});
  try_once(Fail{.error = "no such order", .error_kind = "PermanentFailure"});
  EXPECT_EQ(outcomes("a"), Outcomes{AttemptOutcome::failed});
  EXPECT_EQ(attempts("a").at(0).error, "no such order");
  enqueue_ids({"b"});
  for (int i = 0; i < 2; ++i) {
    (void)claim_as("w");
    advance(defaults::kLease);
  }
  queue().reap();
  EXPECT_EQ(record("b").status, Status::dead);
  EXPECT_EQ(outcomes("b"), (Outcomes{AttemptOutcome::lapsed, AttemptOutcome::lapsed}));
  enqueue(message("c", {.expires_at = now() + 1s}));
  advance(1s);
  queue().reap();
  EXPECT_EQ(record("c").status, Status::dead);
  EXPECT_TRUE(attempts("c").empty()) << "nobody has tried";
}

TEST_P(AttemptConformance, ASupersededDeliveryIsAnAttemptWithoutItsVerdict) {
  proves("R-32", "R-07");
  enqueue_ids({"a"});
  const ClaimedMessage claimed = claim_as("w");
  enqueue(message("a", {.payload = "other"}));
  EXPECT_EQ(settle(claimed, Abandon{.error = "old content"}), SettleStatus::superseded);
  EXPECT_EQ(outcomes(), Outcomes{AttemptOutcome::superseded});
  EXPECT_EQ(attempts().at(0).error, "");
  try_once(Ack{});
  EXPECT_EQ(outcomes(), (Outcomes{AttemptOutcome::superseded, AttemptOutcome::succeeded}));
}

TEST_P(AttemptConformance, WhoTakesAMessageFromItsWorkerLeavesTheAttempt) {
  proves("R-32", "R-30", "R-03");
  const TimePoint begun = now();
  enqueue_ids({"a"});
  (void)claim_as("shop-1");
  advance(1s);
  queue_operator().act(std::vector{key("a")}, Cancel{}, {.reason = "sent by mistake"});
  Attempt expected{.number = 1,
                   .worker = "shop-1",
                   .begun_at = begun,
                   .ended_at = begun + 1s,
                   .outcome = AttemptOutcome::cancelled,
                   .error = "cancelled: sent by mistake"};
  EXPECT_EQ(attempts("a"), std::vector{expected});
  enqueue_ids({"b"});
  (void)claim_as("shop-2");
  advance(1s);
  queue().mark({.key = key("b"), .as = MarkAs::dead, .error = "no such order"});
  expected = {.number = 1,
              .worker = "shop-2",
              .begun_at = begun + 1s,
              .ended_at = begun + 2s,
              .outcome = AttemptOutcome::marked_dead,
              .error = "no such order"};
  EXPECT_EQ(attempts("b"), std::vector{expected});
  for (const char* id : {"a", "b"}) {
    EXPECT_EQ(record(id).history.lapses, 1) << id << ": its lease ended without a settlement";
    EXPECT_EQ(record(id).history.attempt, 0) << id << ": nobody said that it failed";
    queue_operator().revive(std::vector{key(id)});
    try_once(Ack{});
    ASSERT_EQ(attempts(id).size(), 2U) << id;
    EXPECT_EQ(outcomes(id).back(), AttemptOutcome::succeeded) << id;
  }
}

TEST_P(AttemptConformance, ALeaseThatHadRunOutBeforeHasLapsed) {
  proves("R-32");
  enqueue_ids({"a", "b"});
  const TimePoint lapsed_at = now() + defaults::kLease;
  (void)claim();
  advance(defaults::kLease + 1s);
  queue_operator().act(std::vector{key("a")}, Cancel{});
  queue().mark({.key = key("b"), .as = MarkAs::dead});
  for (const char* id : {"a", "b"}) {
    ASSERT_EQ(outcomes(id), Outcomes{AttemptOutcome::lapsed}) << id;
    EXPECT_EQ(at(attempts(id).back().ended_at), at(lapsed_at)) << id;
  }
}

TEST_P(AttemptConformance, WhatIsMarkedAsProcessedSucceeded) {
  proves("R-32", "R-03");
  enqueue_ids({"a"});
  (void)claim_as("w");
  queue().mark({.key = key("a"), .as = MarkAs::processed});
  EXPECT_TRUE(attempts("a").empty()) << "at once";
  enqueue_ids({"b"});
  try_once(Abandon{.error = "boom", .delay = 1s});
  (void)claim_as("w");
  queue().mark({.key = key("b"), .as = MarkAs::processed});
  EXPECT_EQ(outcomes("b"), (Outcomes{AttemptOutcome::abandoned, AttemptOutcome::succeeded}));
}

TEST_P(AttemptConformance, WhatIsMarkedAsProcessingWasNotTried) {
  proves("R-32", "R-03");
  enqueue_ids({"a"});
  (void)claim_as("w");
  queue().mark({.key = key("a"), .as = MarkAs::processing});
  try_once(Ack{});
  EXPECT_TRUE(attempts("a").empty());
}

TEST_P(AttemptConformance, TheLastTwentyAreKept) {
  proves("R-32");
  set_policy("*", {.max_attempts = 100});
  enqueue_ids({"a"});
  for (int i = 1; i <= 23; ++i) {
    try_once(Abandon{.error = "failure " + std::to_string(i), .delay = 1s});
  }
  ASSERT_EQ(attempts().size(), defaults::kKeptAttempts);
  EXPECT_EQ(attempts().front().number, 4);
  EXPECT_EQ(attempts().front().error, "failure 4");
  EXPECT_EQ(attempts().back().number, 23);
  try_once(Ack{});
  ASSERT_EQ(attempts().size(), defaults::kKeptAttempts);
  EXPECT_EQ(attempts().front().number, 5);
  EXPECT_EQ(attempts().back().outcome, AttemptOutcome::succeeded);
}

TEST_P(AttemptConformance, ARevivalKeepsThemAndNumbersGoOn) {
  proves("R-32", "R-24");
  enqueue_ids({"a"});
  try_once(Fail{.error = "first life"});
  queue_operator().revive(std::vector{key("a")});
  EXPECT_EQ(outcomes(), Outcomes{AttemptOutcome::failed});
  try_once(Fail{.error = "second life"});
  queue_operator().revive_edited(std::vector{EditedMessage{key("a"), "better"}});
  try_once(Ack{});
  EXPECT_EQ(outcomes(),
            (Outcomes{AttemptOutcome::failed, AttemptOutcome::failed, AttemptOutcome::succeeded}));
  EXPECT_EQ(attempts().back().number, 3);
}

TEST_P(AttemptConformance, WhoRemovesAMessageRemovesThem) {
  proves("R-32");
  enqueue_ids({"a"});
  try_once(Fail{.error = "purged"});
  EXPECT_EQ(queue_operator().purge(std::vector{key("a")}), std::vector{PurgeOutcome::purged});
  enqueue_ids({"b"});
  try_once(Abandon{.error = "boom", .delay = 1s});
  try_once(Ack{});
  enqueue_ids({"c"});
  try_once(Fail{.error = "dead"});
  enqueue_ids({"d"});
  (void)claim_as("w");
  queue_operator().act(std::vector{key("d")}, Cancel{});
  enqueue_ids({"e"});
  (void)claim_as("w");
  queue().mark({.key = key("e"), .as = MarkAs::dead});
  queue().mark({.key = key("e"), .as = MarkAs::processed});
  EXPECT_EQ(outcomes("e"), Outcomes{AttemptOutcome::marked_dead});
  advance(1h);
  EXPECT_EQ(queue_operator().cleanup({.done_retention = 1h, .dead_retention = 1h}).total(), 4U);
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    enqueue_ids({id});
    try_once(Abandon{.error = "again", .delay = 1s});
    EXPECT_EQ(outcomes(id), Outcomes{AttemptOutcome::abandoned}) << id;
    try_once(Ack{});
  }
}

}  // namespace oncebox::conformance
