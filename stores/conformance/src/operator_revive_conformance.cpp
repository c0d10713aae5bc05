// Bringing dead messages back.

#include "oncebox/conformance/fixture.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class OperatorReviveConformance : public StoreConformance {
 protected:
  ReviveOutcome revive(std::string_view id, const ReviveOptions& options = {}) {
    const std::vector<MessageKey> keys{key(id)};
    return queue_operator().revive(keys, options).front();
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, OperatorReviveConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(OperatorReviveConformance, RevivedMessageBeginsAnewAndRemembersItsError) {
  proves("R-24", "R-30");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.error = "no route", .delay = 1s});
  advance(1s);
  claim_one();
  advance(defaults::kLease);
  settle(claim_one(), Fail{.error = "broken"});
  MessageRecord expected = record("a");
  ASSERT_EQ(expected.history.attempt, 2);
  ASSERT_EQ(expected.history.deliveries, 3);
  ASSERT_EQ(expected.history.lapses, 1);
  advance(1h);
  EXPECT_EQ(revive("a", {.reason = "the route is back"}), ReviveOutcome::revived);
  expected.status = Status::processing;
  expected.state = State::ready;
  expected.history.attempt = 0;
  expected.history.deliveries = 0;
  expected.history.lapses = 0;
  expected.finished_at.reset();
  expected.eligible_at = now();
  expected.revivals = {.count = 1, .last_at = now(), .last_reason = "the route is back"};
  EXPECT_EQ(record("a"), expected);
  const ClaimedMessage claimed = claim_one();
  EXPECT_EQ(claimed.message, message("a"));
  EXPECT_EQ(claimed.history.last_error, "broken");
  EXPECT_EQ(at(claimed.revived_at), at(now()));
  EXPECT_EQ(settle(claimed), SettleStatus::settled);
}

TEST_P(OperatorReviveConformance, DelayPostponesTheNextDelivery) {
  proves("R-13", "R-24");
  put(Situation::dead, "a");
  EXPECT_EQ(revive("a", {.delay = 10s}), ReviveOutcome::revived);
  EXPECT_EQ(at(record("a").eligible_at), at(now() + 10s));
  advance(10s - 1ms);
  EXPECT_TRUE(claim_ids().empty());
  advance(1ms);
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(OperatorReviveConformance, DelayOfZeroIsAccepted) {
  proves("R-13", "R-24");
  put(Situation::dead, "a");
  EXPECT_EQ(revive("a", {.delay = 0ms}), ReviveOutcome::revived);
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(OperatorReviveConformance, DueTimeIsStillWaitedFor) {
  proves("R-24", "IBX-032");
  enqueue(message("a", {.due_at = now() + 1h}));
  queue().mark({.key = key("a"), .as = MarkAs::dead});
  const TimePoint due_at = now() + 1h;
  revive("a", {.delay = 10s});
  EXPECT_EQ(at(record("a").eligible_at), at(due_at));
}

TEST_P(OperatorReviveConformance, BackoffFromBeforeTheDeathIsForgotten) {
  proves("R-24", "R-08");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.delay = 1h});
  queue().mark({.key = key("a"), .as = MarkAs::dead});
  revive("a");
  EXPECT_EQ(at(record("a").eligible_at), at(now()));
  enqueue(message("a"));
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(OperatorReviveConformance, OnlyTheDeadAreRevived) {
  proves("R-24");
  put_every_situation();
  const QueueDump before = dump();
  for (const Situation situation : kEverySituation) {
    if (situation == Situation::dead) continue;
    EXPECT_EQ(revive(to_string(situation)), ReviveOutcome::not_dead) << to_string(situation);
  }
  EXPECT_EQ(revive("nobody"), ReviveOutcome::unknown);
  EXPECT_TRUE(unchanged(before, dump()));
}

TEST_P(OperatorReviveConformance, BatchIsAnsweredInOrderAndADuplicateInItIsNoLongerDead) {
  proves("R-24", "R-30", "IBX-102");
  for (const char* id : {"a", "b"}) put(Situation::dead, id);
  put(Situation::done, "c");
  const std::vector<MessageKey> keys{key("b"), key("c"), key("nobody"), key("a"), key("b")};
  EXPECT_EQ(queue_operator().revive(keys),
            (std::vector{ReviveOutcome::revived, ReviveOutcome::not_dead, ReviveOutcome::unknown,
                         ReviveOutcome::revived, ReviveOutcome::not_dead}));
  EXPECT_EQ(record("b").revivals.count, 1);
  EXPECT_TRUE(queue_operator().revive(std::vector<MessageKey>{}).empty());
}

TEST_P(OperatorReviveConformance, EveryRevivalIsCountedAndTheLastOneDescribed) {
  proves("R-24");
  put(Situation::dead, "a");
  for (int count = 1; count <= 3; ++count) {
    advance(1s);
    const std::string reason = "try " + std::to_string(count);
    revive("a", {.reason = reason});
    const Revivals expected{.count = count, .last_at = now(), .last_reason = reason};
    EXPECT_EQ(record("a").revivals.count, expected.count);
    EXPECT_EQ(at(record("a").revivals.last_at), at(expected.last_at));
    EXPECT_EQ(record("a").revivals.last_reason, expected.last_reason);
    settle(claim_one(), Fail{.error = "broken again"});
  }
}

TEST_P(OperatorReviveConformance, LongReasonIsCutAtACharacter) {
  proves("R-24", "R-27");
  put(Situation::dead, "a");
  std::string reason;
  for (int i = 0; i < 700; ++i) reason += "€";  // three bytes each
  revive("a", {.reason = reason});
  EXPECT_EQ(record("a").revivals.last_reason, reason.substr(0, 682 * 3));
}

TEST_P(OperatorReviveConformance, ExpiryThatPassedIsDropped) {
  proves("R-24", "R-28");
  enqueue(message("a", {.expires_at = now() + 1s}));
  enqueue(message("b", {.expires_at = now() + 1h}));
  queue().mark({.key = key("b"), .as = MarkAs::dead});
  advance(1s);
  queue().reap();
  revive("a");
  revive("b");
  EXPECT_EQ(at(record("a").message->expires_at), kNever);
  EXPECT_EQ(at(record("b").message->expires_at), at(now() - 1s + 1h));
  EXPECT_EQ(claim_ids(), (Ids{"a", "b"}));
}

TEST_P(OperatorReviveConformance, ExpiryThatPassesBeforeTheMessageCanBeClaimedIsDropped) {
  proves("R-24", "R-28");
  enqueue(message("a", {.expires_at = now() + 10s}));
  enqueue(message("b", {.expires_at = now() + 10s + 1ms}));
  enqueue(message("c", {.due_at = now() + 10s, .expires_at = now() + 10s}));
  for (const char* id : {"a", "b", "c"}) queue().mark({.key = key(id), .as = MarkAs::dead});
  revive("a", {.delay = 10s});
  revive("b", {.delay = 10s});
  revive("c");
  EXPECT_EQ(at(record("a").message->expires_at), kNever);
  EXPECT_EQ(at(record("b").message->expires_at), at(now() + 10s + 1ms));
  EXPECT_EQ(at(record("c").message->expires_at), kNever);
  advance(10s);
  EXPECT_EQ(queue().reap(), ReapResult{});
  EXPECT_EQ(claim_ids().size(), 3U);
}

TEST_P(OperatorReviveConformance, TheEndOfADelayIsADueTime) {
  proves("R-24");
  enqueue(message("a", {.due_at = now() + 5s}));
  enqueue(message("b", {.due_at = now() + 1h}));
  enqueue(message("c"));
  for (const char* id : {"a", "b", "c"}) queue().mark({.key = key(id), .as = MarkAs::dead});
  revive("a", {.delay = 10s});
  revive("b", {.delay = 10s});
  revive("c");
  EXPECT_EQ(at(record("a").message->due_at), at(now() + 10s));
  EXPECT_EQ(at(record("b").message->due_at), at(now() + 1h));
  EXPECT_EQ(at(record("c").message->due_at), kNever);
}

TEST_P(OperatorReviveConformance, KeyThatWasNeverEnqueuedBecomesSeen) {
  proves("R-24", "R-02");
  put(Situation::seen, "a");
  queue().mark({.key = key("a"), .as = MarkAs::dead, .error = "refused"});
  EXPECT_EQ(revive("a"), ReviveOutcome::revived);
  const MessageRecord revived = record("a");
  EXPECT_EQ(revived.status, Status::seen);
  EXPECT_EQ(at(revived.finished_at), kNever);
  EXPECT_EQ(at(revived.eligible_at), kNever);
  EXPECT_EQ(revived.revivals.count, 1);
  EXPECT_TRUE(claim_ids().empty());
  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::accepted);
}

TEST_P(OperatorReviveConformance, AllMatchingAreRevivedOldestFirstUpToTheLimit) {
  proves("R-24", "R-30");
  for (const char* id : {"c", "a", "d", "b"}) put(Situation::dead, message(id, {.topic = "t"}));
  put(Situation::dead, message("other", {.topic = "u"}));
  put(Situation::done, message("done", {.topic = "t"}));
  const MessageFilter filter{.topic = "t"};
  EXPECT_EQ(queue_operator().revive_matching(filter, {.reason = "all"}, 3), 3U);
  EXPECT_EQ(claim_ids(), (Ids{"c", "a", "d"}));
  EXPECT_EQ(record("c").revivals.last_reason, "all");
  EXPECT_EQ(queue_operator().revive_matching(filter, {}, 3), 1U);
  EXPECT_EQ(queue_operator().revive_matching(filter, {}, 3), 0U);
  EXPECT_EQ(claim_ids(), Ids{"b"});
  EXPECT_EQ(record("other").status, Status::dead);
  EXPECT_EQ(record("done").status, Status::done);
}

TEST_P(OperatorReviveConformance, MatchingTakesEveryKindOfFilter) {
  proves("R-30");
  enqueue(message("a", {.source = "paypal", .partition = "p"}));
  settle(claim_one(), Fail{.error = "no route"});
  advance(10s);
  put(Situation::dead, "b");
  EXPECT_EQ(queue_operator().revive_matching({.error_contains = "timeout"}, {}, 10), 0U);
  EXPECT_EQ(queue_operator().revive_matching({.finished = {.until = now() - 10s}}, {}, 10), 0U);
  EXPECT_EQ(queue_operator().revive_matching({.statuses = {Status::dead},
                                              .source = "paypal",
                                              .partition_key = "p",
                                              .error_contains = "route",
                                              .finished = {.until = now()}},
                                             {.delay = 1s}, 10),
            1U);
  EXPECT_EQ(at(record("a", "paypal").eligible_at), at(now() + 1s));
  EXPECT_EQ(queue_operator().revive_matching({}, {}, 10), 1U);
  EXPECT_EQ(record("b").status, Status::processing);
}

}  // namespace oncebox::conformance
