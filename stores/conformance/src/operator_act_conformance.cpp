// What an operator does with messages, one by one or all that match: cancel, run now, reschedule,
// delete.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class OperatorActConformance : public StoreConformance {
 protected:
  ActOutcome act(std::string_view id, const OperatorAction& action,
                 const ActOptions& options = {}) {
    const std::vector<MessageKey> keys{key(id)};
    return queue_operator().act(keys, action, options).at(0);
  }

  /// Puts one message into every situation and answers those that an action changes. By keys and by
  /// a filter it is the same, and a dry run tells as many.
  Ids changed_by(const OperatorAction& action) {
    use_fresh_space();
    put_every_situation();
    const std::size_t told = queue_operator().count_actable({}, action);
    Ids ids;
    for (const Situation situation : kEverySituation) {
      const std::string id = to_string(situation);
      if (act(id, action) == ActOutcome::changed) ids.push_back(id);
    }
    EXPECT_EQ(ids.size(), told);
    use_fresh_space();
    put_every_situation();
    EXPECT_EQ(queue_operator().act_matching({}, action, 100), told);
    return ids;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, OperatorActConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(OperatorActConformance, EachActionHasItsStates) {
  proves("R-30", "R-34");
  EXPECT_EQ(changed_by(Cancel{}), (Ids{"ready", "waiting", "leased", "lapsed"}));
  EXPECT_EQ(changed_by(RunNow{}), Ids{"waiting"});
  EXPECT_EQ(changed_by(Reschedule{now() + 1h}), (Ids{"ready", "waiting", "lapsed"}));
  EXPECT_EQ(changed_by(Delete{}),
            (Ids{"seen", "marked_processing", "ready", "waiting", "lapsed", "done", "dead"}));
  EXPECT_EQ(changed_by(Purge{}), Ids{"dead"});
}

TEST_P(OperatorActConformance, OutcomesComeInTheOrderOfTheKeys) {
  proves("R-30", "IBX-102");
  put_every_situation();
  const std::vector<MessageKey> keys{key("ready"), key("nobody"), key("done"), key("ready")};
  EXPECT_EQ(queue_operator().act(keys, Cancel{}),
            (std::vector{ActOutcome::changed, ActOutcome::unknown, ActOutcome::refused,
                         ActOutcome::refused}));
  EXPECT_EQ(queue_operator().act(keys, Delete{}),
            (std::vector{ActOutcome::changed, ActOutcome::unknown, ActOutcome::changed,
                         ActOutcome::unknown}));
  EXPECT_TRUE(queue_operator().act(std::vector<MessageKey>{}, Cancel{}).empty());
}

TEST_P(OperatorActConformance, ACancelledMessageIsDeadWithTheReason) {
  proves("R-30", "R-33");
  enqueue(message("a"));
  advance(5s);
  MessageRecord expected = record("a");
  EXPECT_EQ(act("a", Cancel{}, {.reason = "sent by mistake"}), ActOutcome::changed);
  expected.status = Status::dead;
  expected.state = State::dead;
  expected.history.last_error = "cancelled: sent by mistake";
  expected.eligible_at.reset();
  expected.finished_at = now();
  EXPECT_EQ(record("a"), expected);
  EXPECT_TRUE(claim_ids().empty());
  enqueue(message("b"));
  EXPECT_EQ(act("b", Cancel{}), ActOutcome::changed);
  EXPECT_EQ(record("b").history.last_error, "cancelled");
  const std::vector<MessageKey> keys{key("a")};
  EXPECT_EQ(queue_operator().revive(keys).at(0), ReviveOutcome::revived);
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(OperatorActConformance, TheWorkerOfACancelledMessageHasLostItsLease) {
  proves("R-30", "R-14");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  EXPECT_EQ(act("a", Cancel{}), ActOutcome::changed);
  EXPECT_EQ(settle(claimed), SettleStatus::lease_lost);
  EXPECT_EQ(queue().extend({.delivery = delivery_of(claimed), .lease = 30s}).locked_until,
            std::nullopt);
  EXPECT_EQ(record("a").state, State::dead);
}

TEST_P(OperatorActConformance, AWaitingMessageRunsNow) {
  proves("R-30", "R-34");
  enqueue(message("due", {.due_at = now() + 1h}));
  enqueue(message("backs off"));
  settle(claim_one(), Abandon{.error = "no", .delay = 1min});
  advance(1s);
  EXPECT_EQ(act("due", RunNow{}), ActOutcome::changed);
  EXPECT_EQ(act("backs off", RunNow{}), ActOutcome::changed);
  EXPECT_EQ(at(record("due").eligible_at), at(now()));
  EXPECT_EQ(at(record("due").message->due_at), at(now()));
  EXPECT_EQ(at(record("backs off").message->due_at), kNever);
  EXPECT_EQ(record("backs off").history.attempt, 1) << "its failures still count";
  EXPECT_EQ(claim_ids(), (Ids{"due", "backs off"}));
}

TEST_P(OperatorActConformance, TheAgeOfAMessageThatRunsNowCountsFromWhenItIsDue) {
  proves("R-30", "R-11", "R-31");
  set_policy("*", {.max_attempts = 1, .give_up_after = 1h});
  enqueue(message("was due", {.due_at = now() + 24h}));
  advance(24h);
  settle(claim_one(), Abandon{.error = "no", .delay = 10min});
  const TimePoint was_due = *record("was due").message->due_at;
  EXPECT_EQ(act("was due", RunNow{}), ActOutcome::changed);
  EXPECT_EQ(at(record("was due").message->due_at), at(was_due)) << "a time that has passed stays";
  EXPECT_TRUE(settle(claim_one(), Abandon{.error = "no", .delay = 10min}).again_at);

  enqueue(message("is due now", {.due_at = now() + 48h}));
  advance(24h);
  EXPECT_EQ(act("is due now", RunNow{}), ActOutcome::changed);
  const std::vector<ClaimedMessage> claimed = claim();
  ASSERT_EQ(ids_of(claimed), (Ids{"was due", "is due now"}));
  EXPECT_TRUE(settle(claimed.at(0), Abandon{.error = "no"}).death) << "it is older than an hour";
  EXPECT_TRUE(settle(claimed.at(1), Abandon{.error = "no"}).again_at) << "it has just become due";
}

TEST_P(OperatorActConformance, AMessageIsNotRescheduledToWhenItHasExpired) {
  proves("R-30", "R-28");
  const TimePoint expiry = now() + 1h;
  enqueue(message("expires", {.expires_at = expiry}));
  enqueue(message("stays"));
  const MessageRecord before = record("expires");
  for (const TimePoint due : {expiry, expiry + 1ms, expiry + 24h}) {
    EXPECT_EQ(act("expires", Reschedule{due}), ActOutcome::expires_first);
    EXPECT_EQ(queue_operator().count_actable({}, Reschedule{due}), 1U);
    EXPECT_EQ(queue_operator().act_matching({}, Reschedule{due}, 1), 1U) << "the other one";
  }
  EXPECT_EQ(record("expires"), before);
  EXPECT_EQ(at(record("stays").message->due_at), at(expiry + 24h));
  EXPECT_EQ(act("expires", Reschedule{expiry - 1ms}), ActOutcome::changed);
  EXPECT_EQ(at(record("expires").message->due_at), at(expiry - 1ms));
  EXPECT_EQ(queue_operator().count({.expires_after = expiry - 1ms}), 2U);
  EXPECT_EQ(queue_operator().count({.expires_after = expiry}), 1U);
}

TEST_P(OperatorActConformance, RunNowNeverOvertakesTheHeadOfAPartition) {
  proves("R-30", "R-29");
  enqueue(message("head", {.partition = "p", .due_at = now() + 1h}));
  enqueue(message("next", {.partition = "p"}));
  EXPECT_EQ(act("next", RunNow{}), ActOutcome::refused);
  EXPECT_TRUE(claim_ids().empty());
  EXPECT_EQ(act("head", RunNow{}), ActOutcome::changed);
  EXPECT_EQ(claim_ids(), Ids{"head"});
}

TEST_P(OperatorActConformance, ARescheduledMessageIsDueAtTheNewTimeAlone) {
  proves("R-30", "R-08");
  enqueue(message("backs off"));
  settle(claim_one(), Abandon{.error = "no", .delay = 1min});
  enqueue(message("ready"));
  const TimePoint due = now() + 10s;
  EXPECT_EQ(act("ready", Reschedule{due}), ActOutcome::changed);
  EXPECT_EQ(act("backs off", Reschedule{due}), ActOutcome::changed);
  for (const char* id : {"ready", "backs off"}) {
    EXPECT_EQ(record(id).waiting_for, WaitingFor::due);
    EXPECT_EQ(at(record(id).message->due_at), at(due));
  }
  advance(10s - 1ms);
  EXPECT_TRUE(claim_ids().empty());
  advance(1ms);
  EXPECT_EQ(claim_ids(), (Ids{"backs off", "ready"}));
  expect_refused("a due time beyond the calendar", ErrorCode::out_of_range,
                 [&] { act("ready", Reschedule{kMaxTime + 1ms}); });
}

TEST_P(OperatorActConformance, AReadyMessageKeepsItsPlaceWhenItsNewDueTimeHasPassed) {
  proves("R-30", "R-17");
  enqueue(message("first"));
  advance(1s);
  enqueue(message("second"));
  advance(1s);
  EXPECT_EQ(act("first", Reschedule{now() - 1h}), ActOutcome::changed);
  EXPECT_EQ(at(record("first").message->due_at), at(now())) << "a time in the past means now";
  EXPECT_EQ(claim_ids(1), Ids{"first"});
}

TEST_P(OperatorActConformance, ADeletedKeyIsForgotten) {
  proves("R-30");
  put_every_situation();
  EXPECT_EQ(act("done", Delete{}), ActOutcome::changed);
  EXPECT_EQ(act("ready", Delete{}), ActOutcome::changed);
  EXPECT_EQ(act("leased", Delete{}), ActOutcome::refused);
  EXPECT_FALSE(is_stored("done"));
  EXPECT_FALSE(is_stored("ready"));
  EXPECT_EQ(queue_operator().stats().total().done, 0U);
  EXPECT_EQ(enqueue(message("done")), EnqueueStatus::accepted) << "a sender is heard again";
}

TEST_P(OperatorActConformance, WhatLeavesAPartitionFreesTheNext) {
  proves("R-30", "R-29");
  for (const char* id : {"a", "b", "c"}) enqueue(message(id, {.partition = "p"}));
  EXPECT_EQ(act("a", Cancel{}), ActOutcome::changed);
  EXPECT_EQ(record("b").state, State::ready);
  EXPECT_EQ(act("b", Delete{}), ActOutcome::changed);
  EXPECT_EQ(claim_ids(), Ids{"c"});
}

TEST_P(OperatorActConformance, AllThatMatchAreChangedOldestFirstUpToTheLimit) {
  proves("R-30");
  enqueue_ids({"a", "b", "c"});
  enqueue(message("mail", {.topic = "mail"}));
  const MessageFilter orders{.topic = "order.*"};
  EXPECT_EQ(queue_operator().count_actable(orders, Cancel{}), 3U);
  EXPECT_EQ(queue_operator().act_matching(orders, Cancel{}, 2), 2U);
  EXPECT_EQ(claim_ids(), (Ids{"c", "mail"}));
  EXPECT_EQ(queue_operator().act_matching({.states = {State::ready}}, Cancel{}, 10), 0U);
  EXPECT_EQ(queue_operator().act_matching({.states = {State::dead}}, Cancel{}, 10), 0U);
  EXPECT_EQ(queue_operator().act_matching({.states = {State::dead}}, Delete{}, 10), 2U);
}

TEST_P(OperatorActConformance, OfKeysOnlyThoseThatStillMatchAreChanged) {
  proves("R-30");
  enqueue(message("ready"));
  enqueue(message("mail", {.topic = "mail"}));
  enqueue(message("due", {.due_at = now() + 1h}));
  const std::vector<MessageKey> keys{key("ready"), key("mail"), key("nobody"), key("due")};
  const ActOptions orders{.only = MessageFilter{.topic = "order.*"}};
  const ActOptions ready{.only = MessageFilter{.states = {State::ready}}};
  const MessageRecord mail = record("mail");
  const TimePoint later = now() + 2h;
  EXPECT_EQ(queue_operator().act(keys, Reschedule{later}, ready),
            (std::vector{ActOutcome::changed, ActOutcome::changed, ActOutcome::unknown,
                         ActOutcome::refused}));
  EXPECT_EQ(queue_operator().act(keys, RunNow{}, orders),
            (std::vector{ActOutcome::changed, ActOutcome::refused, ActOutcome::unknown,
                         ActOutcome::changed}));
  EXPECT_EQ(act("mail", RunNow{}), ActOutcome::changed);
  EXPECT_EQ(record("mail").state, mail.state);
  EXPECT_EQ(act("mail", Cancel{}, orders), ActOutcome::refused);
  EXPECT_EQ(act("mail", Delete{}, orders), ActOutcome::refused);
  EXPECT_EQ(act("ready", Cancel{}, orders), ActOutcome::changed);
  EXPECT_EQ(act("ready", Purge{}, ready), ActOutcome::refused);
  const std::vector<MessageKey> dead{key("ready")};
  EXPECT_EQ(queue_operator().purge(dead, {.only = MessageFilter{.topic = "mail"}}).at(0),
            PurgeOutcome::not_dead);
  EXPECT_EQ(queue_operator().purge(dead, {.only = MessageFilter{.topic = "order.*"}}).at(0),
            PurgeOutcome::purged);
}

TEST_P(OperatorActConformance, AllKeysAreJudgedBeforeTheFirstIsChanged) {
  proves("R-30", "R-29");
  enqueue(message("head", {.partition = "p", .due_at = now() + 1h}));
  enqueue(message("next", {.partition = "p"}));
  enqueue(message("twice"));
  const ActOptions waiting{.only = MessageFilter{.states = {State::waiting}}};
  const std::vector<MessageKey> partition{key("head"), key("next")};
  EXPECT_EQ(queue_operator().act(partition, Delete{}, waiting),
            (std::vector{ActOutcome::changed, ActOutcome::changed}));
  const std::vector<MessageKey> twice{key("twice"), key("twice")};
  EXPECT_EQ(queue_operator().act(twice, Reschedule{now() + 1h},
                                 {.only = MessageFilter{.states = {State::ready}}}),
            (std::vector{ActOutcome::changed, ActOutcome::changed}));
}

TEST_P(OperatorActConformance, MessagesThatArriveInOneCallCanBeCancelledEach) {
  proves("R-30");
  std::vector<Message> batch;
  for (int i = 0; i < 30; ++i) batch.push_back(message("m" + std::to_string(i)));
  queue().enqueue(batch);
  EXPECT_EQ(act("m7", Delete{}), ActOutcome::changed);
  EXPECT_EQ(act("m9", Reschedule{now() + 1h}), ActOutcome::changed);
  EXPECT_EQ(claim().size(), 28U);
  EXPECT_EQ(queue_operator().act_matching({.states = {State::leased}}, Cancel{}, 5), 5U);
  EXPECT_EQ(queue_operator().stats().total().dead, 5U);
  EXPECT_EQ(queue_operator().stats().total().leased, 23U);
}

}  // namespace oncebox::conformance
