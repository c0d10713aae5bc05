// What a message is doing, in the same words wherever it is asked, and what the dead tell of
// how often they failed.

#include <map>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class StatesConformance : public StoreConformance {
 protected:
  Ids listed(const MessageFilter& filter) {
    Ids ids = ids_of(queue_operator().list({.filter = filter}).records);
    EXPECT_EQ(queue_operator().count(filter), ids.size());
    return ids;
  }

  /// Every message is in the state that its record says: for lists, counts, statistics and
  /// observations.
  void expect_agreement() {
    TopicStats counted;
    for (const MessageRecord& one : queue_operator().list({}).records) {
      const std::string id = one.key.message_id.str();
      SCOPED_TRACE(id);
      EXPECT_EQ(status_of(one.state), one.status);
      EXPECT_EQ(one.waiting_for.has_value(), one.state == State::waiting);
      const MessageRecord found = record(id);
      EXPECT_EQ(found.state, one.state);
      EXPECT_EQ(found.waiting_for, one.waiting_for);
      const MessageFilter same{.states = {one.state},
                               .waiting_for = one.waiting_for ? std::vector{*one.waiting_for}
                                                              : std::vector<WaitingFor>{},
                               .message_id = one.key.message_id};
      EXPECT_EQ(listed(same), Ids{id});
      count(one, counted);
    }
    const TopicStats total = queue_operator().stats().total();
    EXPECT_EQ(total.waiting, counted.waiting);
    EXPECT_EQ(total.seen, counted.seen);
    EXPECT_EQ(total.ready, counted.ready);
    EXPECT_EQ(total.leased, counted.leased);
    EXPECT_EQ(total.done, counted.done);
    EXPECT_EQ(total.dead, counted.dead);
    for (const MessageRecord& one : queue_operator().list({}).records) {
      EXPECT_EQ(to_string(queue().observe({.key = one.key}).state), to_string(one.state))
          << one.key.message_id;
    }
  }

  static void count(const MessageRecord& record, TopicStats& counted) {
    const std::map<State, std::size_t*> places{{State::seen, &counted.seen},
                                               {State::ready, &counted.ready},
                                               {State::leased, &counted.leased},
                                               {State::done, &counted.done},
                                               {State::dead, &counted.dead}};
    ++*(record.waiting_for ? &counted.waiting.of(*record.waiting_for) : places.at(record.state));
  }

  [[nodiscard]] std::string state_of(std::string_view id) {
    const MessageRecord found = record(id);
    std::string words(to_string(found.state));
    if (found.waiting_for) words += " " + std::string(to_string(*found.waiting_for));
    return words;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, StatesConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(StatesConformance, EverySituationHasItsWord) {
  proves("R-34", "R-02");
  put_every_situation();
  EXPECT_EQ(state_of("seen"), "seen");
  EXPECT_EQ(state_of("marked_processing"), "waiting content");
  EXPECT_EQ(state_of("ready"), "ready");
  EXPECT_EQ(state_of("waiting"), "waiting due");
  EXPECT_EQ(state_of("leased"), "leased");
  EXPECT_EQ(state_of("lapsed"), "ready");
  EXPECT_EQ(state_of("done"), "done");
  EXPECT_EQ(state_of("dead"), "dead");
  expect_agreement();
}

TEST_P(StatesConformance, AFilterTakesEachState) {
  proves("R-34", "R-30");
  put_every_situation();
  EXPECT_EQ(listed({.states = {State::seen}}), Ids{"seen"});
  EXPECT_EQ(listed({.states = {State::waiting}}), (Ids{"waiting", "marked_processing"}));
  EXPECT_EQ(listed({.states = {State::ready}}), (Ids{"lapsed", "ready"}));
  EXPECT_EQ(listed({.states = {State::leased}}), Ids{"leased"});
  EXPECT_EQ(listed({.states = {State::done}}), Ids{"done"});
  EXPECT_EQ(listed({.states = {State::dead}}), Ids{"dead"});
  EXPECT_EQ(listed({.states = {State::dead, State::ready}}), (Ids{"lapsed", "dead", "ready"}));
  EXPECT_EQ(listed({.waiting_for = {WaitingFor::due}}), Ids{"waiting"});
  EXPECT_EQ(listed({.waiting_for = {WaitingFor::content, WaitingFor::pause}}),
            Ids{"marked_processing"});
  EXPECT_EQ(
      listed({.states = {State::leased, State::waiting}, .waiting_for = {WaitingFor::content}}),
      (Ids{"leased", "marked_processing"}));
  EXPECT_TRUE(listed({.statuses = {Status::done}, .states = {State::ready}}).empty());
  expect_refused("what is waited for without waiting", ErrorCode::invalid_argument, [&] {
    (void)queue_operator().count({.states = {State::ready}, .waiting_for = {WaitingFor::backoff}});
  });
}

TEST_P(StatesConformance, AFailedMessageWaitsForItsBackoffOrForALaterDueTime) {
  proves("R-34", "IBX-056");
  enqueue(message("fails"));
  settle(claim_one(), Abandon{.error = "no", .delay = 10s});
  enqueue(message("is released"));
  settle(claim_one(), Release{.delay = 5s});
  EXPECT_EQ(state_of("fails"), "waiting backoff");
  EXPECT_EQ(state_of("is released"), "waiting backoff");
  enqueue(message("fails", {.due_at = now() + 20s}));
  EXPECT_EQ(state_of("fails"), "waiting due");
  enqueue(message("fails", {.due_at = now() + 5s}));
  EXPECT_EQ(state_of("fails"), "waiting backoff");
  expect_agreement();
  advance(10s);
  EXPECT_EQ(listed({.states = {State::ready}}), (Ids{"fails", "is released"}));
  expect_agreement();
}

TEST_P(StatesConformance, ARevivalWithADelayWaitsUntilItIsDue) {
  proves("R-34", "R-24");
  put(Situation::dead, "a");
  const std::vector<MessageKey> keys{key("a")};
  queue_operator().revive(keys, {.delay = 10s});
  EXPECT_EQ(state_of("a"), "waiting due");
  expect_agreement();
}

TEST_P(StatesConformance, ALapsedLeaseMayWaitForALaterDueTime) {
  proves("R-34", "R-08", "R-16");
  put(Situation::leased, "a");
  enqueue(message("a", {.due_at = now() + 1h}));
  EXPECT_EQ(state_of("a"), "leased");
  advance(defaults::kLease);
  EXPECT_EQ(state_of("a"), "waiting due");
  expect_agreement();
  queue().reap();
  EXPECT_EQ(state_of("a"), "waiting due");
  expect_agreement();
}

TEST_P(StatesConformance, BehindTheHeadOfAPartitionAMessageWaitsForIt) {
  proves("R-34", "R-29");
  for (const char* id : {"a", "b", "c"}) enqueue(message(id, {.partition = "p"}));
  enqueue(message("d", {.partition = "p", .due_at = now() + 1h}));
  EXPECT_EQ(listed({.states = {State::ready}}), Ids{"a"});
  EXPECT_EQ(listed({.waiting_for = {WaitingFor::partition}}), (Ids{"b", "c", "d"}));
  expect_agreement();

  const ClaimedMessage head = claim_one(alice, 10s);
  EXPECT_EQ(listed({.waiting_for = {WaitingFor::partition}}), (Ids{"b", "c", "d"}));
  expect_agreement();
  settle(head, Abandon{.error = "no", .delay = 5s});
  EXPECT_EQ(state_of("a"), "waiting backoff");
  EXPECT_EQ(state_of("b"), "waiting partition");
  expect_agreement();
  queue().mark({.key = key("a"), .as = MarkAs::dead, .error = "stopped"});
  EXPECT_EQ(state_of("b"), "ready");
  EXPECT_EQ(state_of("c"), "waiting partition");
  expect_agreement();
}

TEST_P(StatesConformance, WhatCouldBeClaimedWaitsForTheEndOfAPause) {
  proves("R-34");
  put_every_situation();
  enqueue(message("other", {.topic = "mail"}));
  set_policy("order.*", {.paused = true});
  EXPECT_EQ(state_of("ready"), "waiting pause");
  EXPECT_EQ(state_of("lapsed"), "waiting pause");
  EXPECT_EQ(state_of("waiting"), "waiting due") << "it could not be claimed without the pause";
  EXPECT_EQ(state_of("leased"), "leased");
  EXPECT_EQ(listed({.waiting_for = {WaitingFor::pause}}), (Ids{"lapsed", "ready"}));
  EXPECT_EQ(listed({.states = {State::ready}}), Ids{"other"});
  EXPECT_EQ(at(queue_operator().stats().total().oldest_ready_at), at(now()));
  expect_agreement();
  const auto another = open();
  EXPECT_EQ(queue_of(*another).find(key("ready"))->waiting_for, WaitingFor::pause);

  set_policy("order.*", {.paused = false});
  set_policy("order.created", {.paused = true});
  EXPECT_EQ(state_of("ready"), "waiting pause");
  EXPECT_EQ(state_of("lapsed"), "ready");
  expect_agreement();
  set_policy("order.created", {.paused = false});
  EXPECT_EQ(listed({.states = {State::ready}}), (Ids{"lapsed", "ready", "other"}));
  expect_agreement();
}

// The dead ----------------------------------------------------------------------------------------

TEST_P(StatesConformance, TheDeadTellHowOftenTheyFailed) {
  proves("R-09", "R-11", "R-30");
  enqueue(message("last attempt"));
  for (int attempt = 1; attempt <= 3; ++attempt) {
    settle(claim_one(), Abandon{.error = "no", .delay = 1s, .limit = AttemptLimit{3}});
    advance(1s);
  }
  enqueue(message("fails for good"));
  settle(claim_one(), Fail{.error = "never"});
  enqueue(message("fails once, then for good"));
  settle(claim_one(), Abandon{.error = "no", .delay = 1s});
  advance(1s);
  settle(claim_one(), Fail{.error = "never"});
  for (const MessageRecord& dead :
       queue_operator().list({.filter = {.states = {State::dead}}}).records) {
    EXPECT_EQ(dead.history.attempt, dead.history.deliveries) << dead.key.message_id;
    EXPECT_EQ(record(dead.key.message_id.str()).history, dead.history);
  }
  EXPECT_EQ(record("last attempt").history.attempt, 3);
  EXPECT_EQ(record("fails for good").history.attempt, 1);
  EXPECT_EQ(record("fails once, then for good").history.attempt, 2);
}

TEST_P(StatesConformance, ADeathWithoutAVerdictIsNoFailure) {
  proves("R-09", "R-10", "R-28", "R-30");
  set_policy("*", {.max_attempts = 3, .max_deliveries = 3});
  enqueue(message("lapses"));
  settle(claim_one(), Abandon{.error = "no", .delay = 1s});
  advance(1s);
  for (int lapse = 1; lapse <= 2; ++lapse) {
    claim_one(alice, 1s);
    advance(1s);
    queue().reap();
  }
  EXPECT_EQ(record("lapses").state, State::dead);
  EXPECT_EQ(record("lapses").history.attempt, 1);
  EXPECT_EQ(record("lapses").history.lapses, 2);

  enqueue(message("expires", {.expires_at = now() + 5s}));
  settle(claim_one(), Abandon{.error = "no", .delay = 1s});
  advance(5s);
  queue().reap();
  EXPECT_EQ(record("expires").state, State::dead);
  EXPECT_EQ(record("expires").history.attempt, 1);

  enqueue(message("is marked"));
  settle(claim_one(), Abandon{.error = "no", .delay = 1s});
  queue().mark({.key = key("is marked"), .as = MarkAs::dead, .error = "stopped"});
  EXPECT_EQ(record("is marked").state, State::dead);
  EXPECT_EQ(record("is marked").history.attempt, 1);
}

}  // namespace oncebox::conformance
