// Setting a state directly, without a claim: R-03.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class MarkConformance : public StoreConformance {
 protected:
  MarkOutcome mark(std::string_view id, MarkAs as, std::string error = {}) {
    return queue().mark({.key = key(id), .as = as, .error = std::move(error)});
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, MarkConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(MarkConformance, UnknownKeyAnswersUnknownAndChangesNothing) {
  proves("R-03");
  put_every_situation();
  const QueueDump before = dump();
  for (const MarkAs as : {MarkAs::processing, MarkAs::processed, MarkAs::dead}) {
    EXPECT_EQ(mark("nobody", as), MarkOutcome::unknown);
  }
  EXPECT_TRUE(unchanged(before, dump()));
}

TEST_P(MarkConformance, ProcessingOfAnObservedKeyIsAStateButNothingToHandOut) {
  proves("R-03", "R-02", "IBX-031");
  put(Situation::seen, "a");
  EXPECT_EQ(mark("a", MarkAs::processing), MarkOutcome::marked);
  const MessageRecord marked = record("a");
  EXPECT_EQ(marked.status, Status::processing);
  EXPECT_EQ(marked.message, std::nullopt);
  EXPECT_EQ(at(marked.eligible_at), kNever);
  EXPECT_EQ(at(marked.finished_at), kNever);
  EXPECT_TRUE(claim_ids().empty());
  EXPECT_EQ(queue().reap(), ReapResult{});
}

TEST_P(MarkConformance, ProcessingIsPossibleFromSeenAndProcessingOnly) {
  proves("R-03");
  put_every_situation();
  const QueueDump before = dump();
  EXPECT_EQ(mark("done", MarkAs::processing), MarkOutcome::refused);
  EXPECT_EQ(mark("dead", MarkAs::processing), MarkOutcome::refused);
  EXPECT_TRUE(unchanged(before, dump()));
  for (const char* id : {"seen", "marked_processing", "ready", "waiting", "leased", "lapsed"}) {
    EXPECT_EQ(mark(id, MarkAs::processing), MarkOutcome::marked) << id;
    EXPECT_EQ(record(id).status, Status::processing) << id;
  }
}

TEST_P(MarkConformance, ProcessedIsPossibleFromEveryState) {
  proves("R-03", "IBX-047", "IBX-049");
  put_every_situation();
  for (const Situation situation : kEverySituation) {
    const std::string id = to_string(situation);
    const bool already = situation == Situation::done;
    EXPECT_EQ(mark(id, MarkAs::processed), already ? MarkOutcome::already : MarkOutcome::marked)
        << id;
    const MessageRecord marked = record(id);
    EXPECT_EQ(marked.status, Status::done) << id;
    EXPECT_EQ(marked.lease, std::nullopt) << id;
    EXPECT_EQ(at(marked.eligible_at), kNever) << id;
    EXPECT_NE(at(marked.finished_at), kNever) << id;
    EXPECT_TRUE(queue().observe({.key = key(id)}).already_processed()) << id;
  }
  advance(2h);
  EXPECT_TRUE(claim_ids().empty());
}

TEST_P(MarkConformance, DeadIsPossibleFromEveryStateButDone) {
  proves("R-03", "R-24", "IBX-064", "IBX-065");
  put_every_situation();
  const MessageRecord done = record("done");
  for (const Situation situation : kEverySituation) {
    const std::string id = to_string(situation);
    if (situation == Situation::done) continue;
    const bool already = situation == Situation::dead;
    EXPECT_EQ(mark(id, MarkAs::dead, "given up"),
              already ? MarkOutcome::already : MarkOutcome::marked)
        << id;
    const MessageRecord marked = record(id);
    EXPECT_EQ(marked.status, Status::dead) << id;
    EXPECT_EQ(marked.lease, std::nullopt) << id;
    EXPECT_EQ(at(marked.eligible_at), kNever) << id;
    if (situation == Situation::dead) continue;
    EXPECT_EQ(at(marked.finished_at), at(now())) << id;
    EXPECT_EQ(marked.history.last_error, "given up") << id;
  }
  EXPECT_EQ(mark("done", MarkAs::dead, "given up"), MarkOutcome::refused);
  EXPECT_EQ(record("done"), done);
  advance(2h);
  EXPECT_TRUE(claim_ids().empty());
}

TEST_P(MarkConformance, DoneAgainChangesNothing) {
  proves("R-03", "R-06", "R-22");
  put(Situation::done, "a");
  const MessageRecord done = record("a");
  advance(1h);
  EXPECT_EQ(mark("a", MarkAs::processed), MarkOutcome::already);
  EXPECT_EQ(record("a"), done);
}

TEST_P(MarkConformance, DeadAgainKeepsTheTimeOfDeathAndTheError) {
  proves("R-03", "R-30", "R-33");
  put(Situation::dead, "a");
  const TimePoint died_at = now();
  advance(1h);
  EXPECT_EQ(mark("a", MarkAs::dead), MarkOutcome::already);
  EXPECT_EQ(at(record("a").finished_at), at(died_at));
  EXPECT_EQ(record("a").history.last_error, "broken");
}

TEST_P(MarkConformance, DeadThatIsMarkedProcessedIsDoneSinceThen) {
  proves("R-03", "R-22");
  put(Situation::dead, "a");
  advance(1h);
  EXPECT_EQ(mark("a", MarkAs::processed), MarkOutcome::marked);
  EXPECT_EQ(at(record("a").finished_at), at(now())) << "retention counts from when it became done";
}

TEST_P(MarkConformance, EmptyErrorKeepsTheLastOne) {
  proves("R-27", "IBX-061");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.error = "no route", .delay = 1s});
  EXPECT_EQ(mark("a", MarkAs::dead), MarkOutcome::marked);
  EXPECT_EQ(record("a").history.last_error, "no route");
}

TEST_P(MarkConformance, ErrorIsCutAtACharacter) {
  proves("R-27");
  put(Situation::seen, "a");
  const std::string euros = [] {
    std::string text;
    for (int i = 0; i < 700; ++i) text += "€";  // three bytes each
    return text;
  }();
  EXPECT_EQ(mark("a", MarkAs::dead, euros), MarkOutcome::marked);
  EXPECT_EQ(record("a").history.last_error, euros.substr(0, 682 * 3));
}

TEST_P(MarkConformance, EveryMarkEndsTheLease) {
  proves("R-03", "R-14", "R-15");
  for (const MarkAs as : {MarkAs::processing, MarkAs::processed, MarkAs::dead}) {
    const std::string id = "a" + std::to_string(static_cast<int>(as));
    SCOPED_TRACE(id);
    enqueue(message(id));
    const ClaimedMessage claimed = claim_one();
    EXPECT_EQ(mark(id, as), MarkOutcome::marked);
    const MessageRecord marked = record(id);
    EXPECT_EQ(marked.lease, std::nullopt);
    EXPECT_EQ(settle(claimed), SettleStatus::lease_lost);
    EXPECT_EQ(queue().extend({.delivery = delivery_of(claimed)}), ExtendOutcome{});
    EXPECT_EQ(record(id), marked);
    mark(id, MarkAs::processed);  // out of the next one's way
  }
}

TEST_P(MarkConformance, LeasedMessageMarkedProcessingIsEligibleAtItsOldTime) {
  proves("R-03", "R-17");
  enqueue(message("a"));
  const TimePoint enqueued_at = now();
  advance(1s);
  enqueue(message("b"));
  advance(1s);
  ASSERT_EQ(claim_ids(1), std::vector<std::string>{"a"});
  EXPECT_EQ(mark("a", MarkAs::processing), MarkOutcome::marked);
  EXPECT_EQ(at(record("a").eligible_at), at(enqueued_at));
  EXPECT_EQ(record("a").history.attempt, 0);
  EXPECT_EQ(claim_ids(), (std::vector<std::string>{"a", "b"}));
}

TEST_P(MarkConformance, BatchAnswersInOrderAsIfOneByOne) {
  proves("R-03", "IBX-102");
  put(Situation::seen, "a");
  const std::vector<Mark> batch{{.key = key("a"), .as = MarkAs::processing},
                                {.key = key("nobody"), .as = MarkAs::processed},
                                {.key = key("a"), .as = MarkAs::processed},
                                {.key = key("a"), .as = MarkAs::dead}};
  EXPECT_EQ(queue().mark(batch),
            (std::vector<MarkOutcome>{MarkOutcome::marked, MarkOutcome::unknown,
                                      MarkOutcome::marked, MarkOutcome::refused}));
  EXPECT_EQ(record("a").status, Status::done);
  EXPECT_FALSE(is_stored("nobody"));
  EXPECT_TRUE(queue().mark(std::vector<Mark>{}).empty());
}

}  // namespace oncebox::conformance
