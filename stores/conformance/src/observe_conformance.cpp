// What a queue answers and keeps when a key is only observed: sections 6.1 and.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class ObserveConformance : public StoreConformance {
 protected:
  ObserveOutcome observe(std::string_view id, std::optional<ContentHash> hash = {}) {
    return queue().observe({.key = key(id), .hash = std::move(hash)});
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, ObserveConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(ObserveConformance, UnknownKeyIsStoredAsSeen) {
  proves("IBX-002", "IBX-004", "IBX-025", "R-02", "R-04");
  const ObserveOutcome outcome = observe("a");
  EXPECT_EQ(outcome, ObserveOutcome{.state = ObservedState::unseen});
  EXPECT_FALSE(outcome.already_processed());

  const MessageRecord expected{.key = key("a"),
                               .status = Status::seen,
                               .history = {.first_seen_at = now(), .last_seen_at = now()}};
  EXPECT_EQ(record("a"), expected);
}

TEST_P(ObserveConformance, KnownKeyMovesLastSeenAndNothingElse) {
  proves("IBX-005", "IBX-026", "R-04", "R-09");
  put_every_situation();
  for (const Situation situation : kEverySituation) {
    const std::string id = to_string(situation);
    SCOPED_TRACE(id);
    MessageRecord expected = record(id);
    advance(1ms);
    observe(id);
    expected.history.last_seen_at = now();
    EXPECT_EQ(record(id), expected);
  }
}

TEST_P(ObserveConformance, AnswersTheStateThatWasKnown) {
  proves("IBX-002", "IBX-003", "IBX-005", "R-02", "R-04", "R-16", "R-34");
  put_every_situation();
  EXPECT_EQ(observe("seen").state, ObservedState::seen);
  EXPECT_EQ(observe("marked_processing").state, ObservedState::waiting);
  EXPECT_EQ(observe("ready").state, ObservedState::ready);
  EXPECT_EQ(observe("waiting").state, ObservedState::waiting);
  EXPECT_EQ(observe("leased").state, ObservedState::leased);
  EXPECT_EQ(observe("lapsed").state, ObservedState::ready);
  EXPECT_EQ(observe("done").state, ObservedState::done);
  EXPECT_EQ(observe("dead").state, ObservedState::dead);
}

TEST_P(ObserveConformance, OnlyDoneIsAlreadyProcessed) {
  proves("IBX-002", "IBX-003", "IBX-005", "R-04");
  put_every_situation();
  for (const Situation situation : kEverySituation) {
    const std::string id = to_string(situation);
    EXPECT_EQ(observe(id).already_processed(), situation == Situation::done) << id;
  }
}

TEST_P(ObserveConformance, KeyIsSourceAndMessageIdTogether) {
  proves("IBX-001", "R-01");
  EXPECT_EQ(queue().observe({.key = key("a", "stripe")}).state, ObservedState::unseen);
  EXPECT_EQ(queue().observe({.key = key("a", "paypal")}).state, ObservedState::unseen);
  EXPECT_EQ(queue().mark({.key = key("a", "paypal"), .as = MarkAs::processed}),
            MarkOutcome::marked);
  EXPECT_EQ(queue().observe({.key = key("a", "stripe")}).state, ObservedState::seen);
  EXPECT_EQ(queue().observe({.key = key("a", "paypal")}).state, ObservedState::done);
}

TEST_P(ObserveConformance, KeyIsNotTheTextOfSourceAndIdRunTogether) {
  proves("IBX-001", "R-01");
  queue().observe({.key = key("bc", "a")});
  EXPECT_EQ(queue().observe({.key = key("c", "ab")}).state, ObservedState::unseen);
  EXPECT_EQ(queue().observe({.key = key("b/c", "a")}).state, ObservedState::unseen);
  EXPECT_EQ(queue().observe({.key = key("c", "a/b")}).state, ObservedState::unseen);
}

TEST_P(ObserveConformance, FirstHashIsStored) {
  proves("IBX-007", "R-18");
  observe("a", hash_of("one"));
  EXPECT_EQ(record("a").hash, hash_of("one"));
}

TEST_P(ObserveConformance, HashIsStoredWhereThereWasNone) {
  proves("IBX-007");
  observe("a");
  EXPECT_EQ(record("a").hash, std::nullopt);
  EXPECT_EQ(observe("a", hash_of("one")), ObserveOutcome{.state = ObservedState::seen});
  EXPECT_EQ(record("a").hash, hash_of("one"));
  EXPECT_FALSE(observe("a").hash_mismatch) << "an observation without a hash contradicts nothing";
  EXPECT_EQ(record("a").hash, hash_of("one"));
}

TEST_P(ObserveConformance, OtherHashIsFlaggedInEveryStateAndTheFirstStays) {
  proves("IBX-008", "R-18");
  for (const Situation situation : kEverySituation) {
    const std::string id = to_string(situation);
    SCOPED_TRACE(id);
    put(situation, message(id, {.topic = "topic." + id, .hash = hash_of("one")}));
    MessageRecord expected = record(id);
    EXPECT_FALSE(observe(id, hash_of("one")).hash_mismatch);
    EXPECT_TRUE(observe(id, hash_of("two")).hash_mismatch);
    expected.history.last_seen_at = now();
    EXPECT_EQ(record(id), expected);
    queue().mark({.key = key(id), .as = MarkAs::processed});  // out of the next one's way
  }
}

TEST_P(ObserveConformance, HashOfAnotherAlgorithmIsNoMismatch) {
  proves("IBX-008", "R-18");
  observe("a", hash_of("one"));
  EXPECT_FALSE(observe("a", ContentHash("md5", "0123456789abcdef")).hash_mismatch);
  EXPECT_EQ(record("a").hash, hash_of("one"));
}

TEST_P(ObserveConformance, BatchAnswersInOrderAsIfOneByOne) {
  proves("IBX-002", "IBX-006", "IBX-102");
  const std::vector<Observation> batch{{.key = key("a"), .hash = hash_of("one")},
                                       {.key = key("b")},
                                       {.key = key("a"), .hash = hash_of("two")}};
  const std::vector<ObserveOutcome> expected{{.state = ObservedState::unseen},
                                             {.state = ObservedState::unseen},
                                             {.state = ObservedState::seen, .hash_mismatch = true}};
  EXPECT_EQ(queue().observe(batch), expected);
  EXPECT_EQ(record("a").hash, hash_of("one"));
}

TEST_P(ObserveConformance, EmptyBatchIsANoOp) {
  proves("IBX-002");
  put_every_situation();
  const QueueDump before = dump();
  EXPECT_TRUE(queue().observe(std::vector<Observation>{}).empty());
  EXPECT_TRUE(unchanged(before, dump()));
}

TEST_P(ObserveConformance, ObservedKeyIsNeverHandedOut) {
  proves("IBX-031", "R-02");
  observe("a");
  observe("a");
  advance(24h);
  EXPECT_TRUE(claim_ids().empty());
  EXPECT_EQ(queue().reap(), ReapResult{});
  EXPECT_EQ(record("a").status, Status::seen);
}

TEST_P(ObserveConformance, ObservationLeavesALeaseToItsHolder) {
  proves("IBX-005", "R-04");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  EXPECT_EQ(observe("a").state, ObservedState::leased);
  EXPECT_EQ(settle(claimed), SettleStatus::settled);
}

}  // namespace oncebox::conformance
