// Ending deliveries: sections 6.4 to 6.6. Who may settle stands in settle_fencing_conformance.cpp.

#include "oncebox/conformance/fixture.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/retry_policy.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class SettleConformance : public StoreConformance {
 protected:
  static std::string repeated(std::string_view text, int times) {
    std::string joined;
    for (int i = 0; i < times; ++i) joined += text;
    return joined;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, SettleConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(SettleConformance, AckMakesTheMessageDone) {
  proves("IBX-044", "IBX-047", "IBX-049", "R-22");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  advance(5s);
  MessageRecord expected = record("a");
  EXPECT_EQ(settle(claimed, Ack{}), SettleStatus::settled);
  expected.status = Status::done;
  expected.state = State::done;
  expected.lease.reset();
  expected.finished_at = now();
  EXPECT_EQ(record("a"), expected);
  advance(24h);
  EXPECT_TRUE(claim_ids().empty());
  EXPECT_EQ(queue().reap(), ReapResult{});
}

TEST_P(SettleConformance, AbandonCountsAnAttemptAndSchedulesTheNext) {
  proves("IBX-050", "IBX-051", "IBX-053", "IBX-056", "IBX-057", "R-09");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  advance(5s);
  MessageRecord expected = record("a");
  EXPECT_EQ(settle(claimed, Abandon{.error = "no route", .delay = 7s}), SettleStatus::settled);
  expected.state = State::waiting;
  expected.waiting_for = WaitingFor::backoff;
  expected.lease.reset();
  expected.history.attempt = 1;
  expected.history.last_error = "no route";
  expected.eligible_at = now() + 7s;
  expected.attempts = record("a").attempts;
  EXPECT_EQ(record("a"), expected);
  advance(7s - 1ms);
  EXPECT_TRUE(claim_ids().empty());
  advance(1ms);
  const ClaimedMessage again = claim_one();
  EXPECT_EQ(again.history.attempt, 1);
  EXPECT_EQ(again.history.deliveries, 2);
  EXPECT_EQ(again.history.last_error, "no route");
}

TEST_P(SettleConformance, AbandonWithoutADelayBacksOffAsTheQueuesPolicySays) {
  proves("IBX-052", "IBX-080", "IBX-081", "R-12", "R-31");
  const bool is_outbox = GetParam().queue == QueueKind::outbox;
  enqueue(message("a"));
  Duration doubled = 1s;
  for (int attempt = 1; attempt < defaults::kMaxAttempts; ++attempt) {
    doubled = std::min<Duration>(2 * doubled, is_outbox ? 5min : 1min);
    const SettleOutcome outcome = settle(claim_one(), Abandon{});
    ASSERT_EQ(record("a").eligible_at, outcome.again_at);
    const Duration delay = outcome.again_at.value() - now();
    EXPECT_LE(delay, doubled);
    EXPECT_GE(delay, is_outbox ? doubled / 2 : doubled) << "an outbox has jitter";
    advance(delay);
  }
}

TEST_P(SettleConformance, AbandonedMessageStillWaitsForItsDueTime) {
  proves("IBX-032", "R-08");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  enqueue(message("a", {.due_at = now() + 100s}));
  settle(claimed, Abandon{.delay = 10s});
  EXPECT_EQ(at(record("a").eligible_at), at(now() + 100s));
}

TEST_P(SettleConformance, AbandonWithoutAnErrorKeepsTheLastOne) {
  proves("IBX-057", "R-27");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.delay = 1s});
  EXPECT_EQ(record("a").history.last_error, std::nullopt);
  advance(1s);
  settle(claim_one(), Abandon{.error = "no route", .delay = 1s});
  advance(1s);
  settle(claim_one(), Abandon{.delay = 1s});
  EXPECT_EQ(record("a").history.last_error, "no route");
  advance(1s);
  settle(claim_one(), Fail{.error = ""});
  EXPECT_EQ(record("a").history.last_error, "no route");
}

TEST_P(SettleConformance, FailMakesTheMessageDeadWithItsError) {
  proves("IBX-060", "IBX-061", "IBX-064", "IBX-065", "R-09");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  advance(5s);
  MessageRecord expected = record("a");
  EXPECT_EQ(settle(claimed, Fail{.error = "schema invalid"}), SettleStatus::settled);
  expected.status = Status::dead;
  expected.state = State::dead;
  expected.lease.reset();
  expected.history.attempt = 1;
  expected.history.last_error = "schema invalid";
  expected.finished_at = now();
  expected.attempts = record("a").attempts;
  EXPECT_EQ(record("a"), expected) << "a failure for good is one, too";
  advance(24h);
  EXPECT_TRUE(claim_ids().empty());
  EXPECT_EQ(queue().reap(), ReapResult{});
}

TEST_P(SettleConformance, ReleaseGivesTheMessageBackAtOnceAndCountsNothing) {
  proves("R-09", "R-10", "R-17");
  enqueue(message("a"));
  MessageRecord expected = record("a");
  advance(1s);
  const ClaimedMessage claimed = claim_one();
  advance(5s);
  EXPECT_EQ(settle(claimed, Release{}), SettleStatus::settled);
  expected.history.deliveries = 1;
  EXPECT_EQ(record("a"), expected);
  EXPECT_EQ(claim_one().history.attempt, 0);
}

TEST_P(SettleConformance, ReleasedMessageStillWaitsForItsDueTime) {
  proves("IBX-032", "R-08");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  enqueue(message("a", {.due_at = now() + 100s}));
  settle(claimed, Release{});
  EXPECT_TRUE(claim_ids().empty());
  advance(100s);
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(SettleConformance, VerdictsMixInOneBatchAndAreAnsweredInOrder) {
  proves("IBX-044", "IBX-046", "IBX-051", "IBX-060", "IBX-102");
  enqueue_ids({"a", "b", "c", "d"});
  const std::vector<ClaimedMessage> claimed = claim();
  ASSERT_EQ(claimed.size(), 4U);
  const std::vector<Settlement> batch{
      {.delivery = delivery_of(claimed[3]), .verdict = Release{}},
      {.delivery = {.key = key("nobody"), .owner = alice}, .verdict = Ack{}},
      {.delivery = delivery_of(claimed[0]), .verdict = Ack{}},
      {.delivery = delivery_of(claimed[2]), .verdict = Fail{.error = "broken"}},
      {.delivery = delivery_of(claimed[1]), .verdict = Abandon{.delay = 1s}}};
  EXPECT_EQ(statuses_of(queue().settle(batch)),
            (std::vector<SettleStatus>{SettleStatus::settled, SettleStatus::lease_lost,
                                       SettleStatus::settled, SettleStatus::settled,
                                       SettleStatus::settled}));
  EXPECT_EQ(record("a").status, Status::done);
  EXPECT_EQ(record("b").history.attempt, 1);
  EXPECT_EQ(record("c").status, Status::dead);
  EXPECT_EQ(claim_ids(), Ids{"d"});
}

TEST_P(SettleConformance, EmptyBatchIsANoOp) {
  proves("IBX-048", "IBX-059", "IBX-066");
  put_every_situation();
  const QueueDump before = dump();
  EXPECT_TRUE(queue().settle(std::vector<Settlement>{}).empty());
  EXPECT_TRUE(unchanged(before, dump()));
}

TEST_P(SettleConformance, SupersededVerdictEndsTheLeaseAndNothingElse) {
  proves("R-07", "R-09");
  const std::vector<Verdict> verdicts{Ack{}, Abandon{.error = "stale", .delay = 1h},
                                      Fail{.error = "stale"}};
  for (const Verdict& verdict : verdicts) {
    const std::string id = "a" + std::to_string(verdict.index());
    SCOPED_TRACE(id);
    enqueue(message(id));
    const ClaimedMessage claimed = claim_one();
    enqueue(message(id, {.payload = "newer"}));
    MessageRecord expected = record(id);
    advance(1s);
    EXPECT_EQ(settle(claimed, verdict), SettleStatus::superseded);
    expected.state = State::ready;
    expected.lease.reset();
    expected.eligible_at = now();
    expected.attempts = record(id).attempts;
    EXPECT_EQ(record(id), expected);
    const ClaimedMessage again = claim_one();
    EXPECT_EQ(again.message.payload, Payload("newer"));
    EXPECT_EQ(settle(again), SettleStatus::settled);
  }
}

TEST_P(SettleConformance, SupersededMessageStillWaitsForItsDueTime) {
  proves("R-07", "R-08");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  const TimePoint due_at = now() + 100s;
  enqueue(message("a", {.payload = "newer", .due_at = due_at}));
  EXPECT_EQ(settle(claimed), SettleStatus::superseded);
  EXPECT_EQ(at(record("a").eligible_at), at(due_at));
}

TEST_P(SettleConformance, ReleaseOfASupersededDeliveryIsSimplySettled) {
  proves("R-07");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  enqueue(message("a", {.payload = "newer"}));
  EXPECT_EQ(settle(claimed, Release{}), SettleStatus::settled);
  EXPECT_EQ(claim_one().message.payload, Payload("newer"));
}

TEST_P(SettleConformance, ErrorIsCutToItsLimitAtACharacter) {
  proves("R-27", "IBX-057", "IBX-061");
  const std::string ascii = repeated("x", 2'048);
  const std::string euros = repeated("€", 1'000);       // three bytes each
  const std::string emoji = "x" + repeated("😀", 600);  // four bytes each
  const std::vector<std::pair<std::string, std::string>> cases{
      {ascii, ascii},
      {ascii + "y", ascii},
      {euros, euros.substr(0, 682 * 3)},
      {emoji, emoji.substr(0, 1 + 511 * 4)}};
  enqueue(message("a"));
  for (const auto& [given, kept] : cases) {
    settle(claim_one(), Abandon{.error = given, .delay = 1s});
    EXPECT_EQ(record("a").history.last_error, kept);
    advance(1s);
  }
  settle(claim_one(), Fail{.error = euros});
  EXPECT_EQ(record("a").history.last_error, euros.substr(0, 682 * 3));
}

TEST_P(SettleConformance, ErrorBytesThatAreNoTextAreReplaced) {
  proves("R-27");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.error = std::string("bad \xFF byte, NUL \0 too", 21), .delay = 1s});
  EXPECT_EQ(record("a").history.last_error, "bad \uFFFD byte, NUL \uFFFD too");
}

TEST_P(SettleConformance, AttemptsEndByTheQueuesPolicyWhoeverFails) {
  proves("R-11", "R-31", "IBX-083", "IBX-084");
  const RetryPolicy policy =
      GetParam().queue == QueueKind::outbox ? outbox_retry_policy() : RetryPolicy{};
  enqueue(message("a"));
  for (int attempt = 1; attempt < policy.max_attempts; ++attempt) {
    const Abandon abandon{.error = "boom", .delay = 1s};
    ASSERT_EQ(settle(claim_one(attempt % 2 == 0 ? alice : bob), abandon),
              (SettleOutcome{.again_at = now() + 1s, .policy = PolicyOrigin::queue}));
    advance(1s);
  }
  if (policy.give_up_after) {
    EXPECT_EQ(settle(claim_one(), Abandon{.delay = 1s}).again_at, now() + 1s)
        << "it is not old enough";
    advance(*policy.give_up_after);
  }
  const int attempts = record("a").history.attempt + 1;
  EXPECT_EQ(settle(claim_one(), Abandon{.error = "the last"}),
            (SettleOutcome{.death = SettledDeath::attempts, .policy = PolicyOrigin::queue}));
  const MessageRecord dead = record("a");
  EXPECT_EQ(dead.status, Status::dead);
  EXPECT_EQ(dead.history.attempt, attempts);
  EXPECT_EQ(dead.history.last_error, "the last");
  EXPECT_EQ(dead.finished_at, now());
  advance(24h);
  EXPECT_TRUE(claim_ids().empty());
}

TEST_P(SettleConformance, TheLimitOfAWorkerEndsWhatFailedWithIt) {
  proves("R-11", "R-31", "IBX-083", "IBX-084");
  for (const int max_attempts : {1, 3, 2 * outbox_retry_policy().max_attempts}) {
    SCOPED_TRACE(max_attempts);
    const std::string id = "a" + std::to_string(max_attempts);
    enqueue(message(id));
    int failed_deliveries = 0;
    while (record(id).status == Status::processing && failed_deliveries <= max_attempts) {
      ++failed_deliveries;
      EXPECT_EQ(settle(claim_one(),
                       Abandon{.error = "boom", .delay = 1s, .limit = AttemptLimit{max_attempts}}),
                SettleStatus::settled);
      advance(1s);
    }
    EXPECT_EQ(failed_deliveries, max_attempts);
    EXPECT_EQ(record(id).status, Status::dead);
    EXPECT_EQ(record(id).history.deliveries, max_attempts);
    EXPECT_EQ(record(id).history.attempt, max_attempts);
    EXPECT_EQ(record(id).history.last_error, "boom");
  }
}

TEST_P(SettleConformance, TwoWorkersOfDifferentLimitsApplyEachItsOwn) {
  proves("R-31");
  enqueue(message("a"));
  const Abandon patient{.error = "boom", .delay = 1s, .limit = AttemptLimit{5}};
  const Abandon hasty{.error = "boom", .delay = 1s, .limit = AttemptLimit{2}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(settle(claim_one(bob), patient),
              (SettleOutcome{.again_at = now() + 1s, .policy = PolicyOrigin::worker}));
    advance(1s);
  }
  EXPECT_EQ(settle(claim_one(alice), hasty),
            (SettleOutcome{.death = SettledDeath::attempts, .policy = PolicyOrigin::worker}));
  EXPECT_EQ(record("a").history.attempt, 4);
}

TEST_P(SettleConformance, AgeCountsFromTheDueTimeAndFromTheLastRevival) {
  proves("R-11", "R-31", "R-24");
  const Abandon by_age{
      .error = "boom", .delay = 1s, .limit = AttemptLimit{.max_attempts = 1, .give_up_after = 10s}};
  enqueue(message("a", {.due_at = now() + 100s}));
  advance(100s);
  EXPECT_TRUE(settle(claim_one(), by_age).again_at) << "due just now";
  advance(10s);
  EXPECT_EQ(settle(claim_one(), by_age).death, SettledDeath::attempts);
  advance(1s);
  (void)queue_operator().revive(std::vector{key("a")});
  EXPECT_TRUE(settle(claim_one(), by_age).again_at) << "revived just now";
  advance(10s);
  EXPECT_EQ(settle(claim_one(), by_age).death, SettledDeath::attempts);
}

TEST_P(SettleConformance, ReleaseMayNameADelayAndCountsNothing) {
  proves("R-35");
  enqueue(message("a"));
  EXPECT_EQ(settle(claim_one(), Release{.delay = 30s}), (SettleOutcome{.again_at = now() + 30s}));
  EXPECT_EQ(record("a").eligible_at, now() + 30s);
  EXPECT_EQ(record("a").history.attempt, 0);
  advance(30s - 1ms);
  EXPECT_TRUE(claim_ids().empty());
  enqueue(message("a"));  // a duplicate does not shorten it
  EXPECT_TRUE(claim_ids().empty());
  advance(1ms);
  EXPECT_EQ(claim_one().history.attempt, 0);
}

TEST_P(SettleConformance, AnswersTellWhatBecameOfTheMessage) {
  proves("R-07", "R-31");
  enqueue_ids({"done", "failed", "released"});
  const TimePoint enqueued_at = now();
  advance(1s);
  const std::vector<ClaimedMessage> claimed = claim();
  EXPECT_EQ(settle(claimed[0], Ack{}), SettleOutcome{});
  EXPECT_EQ(settle(claimed[1], Fail{"no"}), (SettleOutcome{.death = SettledDeath::failed}));
  EXPECT_EQ(settle(claimed[2], Release{}), (SettleOutcome{.again_at = enqueued_at}));
  EXPECT_EQ(settle(claimed[0], Ack{}), (SettleOutcome{SettleStatus::lease_lost}));
  const ClaimedMessage superseded = claim_one();
  enqueue(message("released", {.payload = "other"}));
  EXPECT_EQ(settle(superseded, Ack{}), (SettleOutcome{SettleStatus::superseded, now()}));
}

}  // namespace oncebox::conformance
