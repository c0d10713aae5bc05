// Removing dead messages by hand, and what is finished after its retention: section 6.12, R-22.

#include "oncebox/conformance/fixture.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class OperatorRemovalConformance : public StoreConformance {
 protected:
  CleanupResult cleanup(const CleanupRequest& request = {}) {
    return queue_operator().cleanup(request);
  }

  Ids stored() { return ids_of(queue_operator().list({}).records); }
};

INSTANTIATE_TEST_SUITE_P(Stores, OperatorRemovalConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(OperatorRemovalConformance, PurgeRemovesTheDeadAndTheirMemory) {
  proves("R-30");
  put(Situation::dead, message("a", {.hash = hash_of("one"), .partition = "p"}));
  const std::vector<MessageKey> keys{key("a")};
  EXPECT_EQ(queue_operator().purge(keys), std::vector{PurgeOutcome::purged});
  EXPECT_FALSE(is_stored("a"));
  EXPECT_EQ(enqueue(message("a", {.hash = hash_of("two")})), EnqueueStatus::accepted);
  const MessageRecord anew = record("a");
  EXPECT_EQ(anew.history.content_version, 1);
  EXPECT_EQ(anew.history.last_error, std::nullopt);
  EXPECT_EQ(anew.message->partition_key, std::nullopt);
}

TEST_P(OperatorRemovalConformance, PurgeTouchesNothingButTheDead) {
  proves("R-30", "IBX-099");
  put_every_situation();
  const QueueDump before = dump();
  for (const Situation situation : kEverySituation) {
    if (situation == Situation::dead) continue;
    const std::vector<MessageKey> keys{key(to_string(situation))};
    EXPECT_EQ(queue_operator().purge(keys), std::vector{PurgeOutcome::not_dead});
  }
  const std::vector<MessageKey> nobody{key("nobody")};
  EXPECT_EQ(queue_operator().purge(nobody), std::vector{PurgeOutcome::unknown});
  EXPECT_TRUE(unchanged(before, dump()));
}

TEST_P(OperatorRemovalConformance, PurgeAnswersInOrderAndADuplicateIsUnknownByThen) {
  proves("R-30", "IBX-102");
  for (const char* id : {"a", "b"}) put(Situation::dead, id);
  put(Situation::done, "c");
  const std::vector<MessageKey> keys{key("b"), key("c"), key("b"), key("a")};
  EXPECT_EQ(queue_operator().purge(keys),
            (std::vector{PurgeOutcome::purged, PurgeOutcome::not_dead, PurgeOutcome::unknown,
                         PurgeOutcome::purged}));
  EXPECT_EQ(stored(), Ids{"c"});
  EXPECT_TRUE(queue_operator().purge(std::vector<MessageKey>{}).empty());
}

TEST_P(OperatorRemovalConformance, AllMatchingArePurgedOldestFirstUpToTheLimit) {
  proves("R-30");
  for (const char* id : {"c", "a", "d", "b"}) put(Situation::dead, message(id, {.topic = "t"}));
  put(Situation::dead, message("other", {.topic = "u"}));
  put(Situation::done, message("done", {.topic = "t"}));
  EXPECT_EQ(queue_operator().purge_matching({.topic = "t"}, 3), 3U);
  EXPECT_EQ(stored(), (Ids{"b", "other", "done"}));
  EXPECT_EQ(queue_operator().purge_matching({.error_contains = "no such error"}, 3), 0U);
  EXPECT_EQ(queue_operator().purge_matching({}, 3), 2U);
  EXPECT_EQ(stored(), Ids{"done"});
}

TEST_P(OperatorRemovalConformance, DoneIsKeptForThirtyDaysUnlessToldOtherwise) {
  proves("IBX-098", "IBX-100", "R-22", "R-26");
  put(Situation::done, "a");
  advance(std::chrono::days{30} - 1ms);
  EXPECT_EQ(cleanup(), CleanupResult{});
  EXPECT_TRUE(is_stored("a"));
  advance(1ms);
  EXPECT_EQ(cleanup(), (CleanupResult{.done_removed = 1}));
  EXPECT_FALSE(is_stored("a"));
}

TEST_P(OperatorRemovalConformance, RetentionCountsFromWhenItBecameDone) {
  proves("R-22", "IBX-100");
  enqueue(message("a"));
  advance(10h);
  settle(claim_one());
  advance(50min);
  enqueue(message("a"));  // a late duplicate prolongs nothing
  queue().observe({.key = key("a")});
  advance(10min - 1ms);
  EXPECT_EQ(cleanup({.done_retention = 1h}), CleanupResult{});
  advance(1ms);
  EXPECT_EQ(cleanup({.done_retention = 1h}).done_removed, 1U);
  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::accepted) << "the key is forgotten";
}

TEST_P(OperatorRemovalConformance, RetentionOfZeroRemovesWhatIsDone) {
  proves("R-22", "IBX-100");
  put(Situation::done, "a");
  EXPECT_EQ(cleanup({.done_retention = 0ms}), (CleanupResult{.done_removed = 1}));
}

TEST_P(OperatorRemovalConformance, LongestRetentionKeeps) {
  proves("R-22");
  put(Situation::done, "a");
  advance(std::chrono::days{3'649});
  EXPECT_EQ(cleanup({.done_retention = limits::kMaxRetention}), CleanupResult{});
  advance(std::chrono::days{1});
  EXPECT_EQ(cleanup({.done_retention = limits::kMaxRetention}).done_removed, 1U);
}

TEST_P(OperatorRemovalConformance, CleanupNeverTouchesWhatIsNotDone) {
  proves("IBX-099", "R-22");
  put_every_situation();
  advance(std::chrono::days{3'000});
  EXPECT_EQ(cleanup({.done_retention = 0ms}), (CleanupResult{.done_removed = 1}));
  EXPECT_EQ(stored(),
            (Ids{"lapsed", "dead", "leased", "seen", "waiting", "marked_processing", "ready"}));
}

TEST_P(OperatorRemovalConformance, DeadHaveARetentionOfTheirOwnThatIsOffByDefault) {
  proves("R-22", "IBX-099");
  put(Situation::dead, "a");
  put(Situation::done, "b");
  advance(1h - 1ms);
  const CleanupRequest request{.done_retention = 2h, .dead_retention = 1h};
  EXPECT_EQ(cleanup(request), CleanupResult{});
  advance(1ms);
  EXPECT_EQ(cleanup(request), (CleanupResult{.dead_removed = 1}));
  EXPECT_EQ(stored(), Ids{"b"});
}

TEST_P(OperatorRemovalConformance, RetentionOfTheDeadCountsFromTheLastDeath) {
  proves("R-22", "R-24");
  put(Situation::dead, "a");
  advance(50min);
  const std::vector<MessageKey> keys{key("a")};
  queue_operator().revive(keys);
  settle(claim_one(), Fail{.error = "broken again"});
  advance(50min);
  EXPECT_EQ(cleanup({.dead_retention = 1h}), CleanupResult{});
  advance(10min);
  EXPECT_EQ(cleanup({.dead_retention = 1h}), (CleanupResult{.dead_removed = 1}));
}

TEST_P(OperatorRemovalConformance, CleanupGoesInBatches) {
  proves("IBX-101", "R-22");
  for (int i = 0; i < 5; ++i) put(Situation::done, "done" + std::to_string(i));
  for (int i = 0; i < 4; ++i) put(Situation::dead, "dead" + std::to_string(i));
  enqueue(message("ready"));
  advance(1h);
  CleanupResult sum;
  for (const std::size_t expected : {4U, 4U, 1U, 0U}) {
    const CleanupResult result = cleanup({.done_retention = 1h, .dead_retention = 1h, .limit = 4});
    EXPECT_EQ(result.total(), expected);
    sum.done_removed += result.done_removed;
    sum.dead_removed += result.dead_removed;
  }
  EXPECT_EQ(sum, (CleanupResult{.done_removed = 5, .dead_removed = 4}));
  EXPECT_EQ(stored(), Ids{"ready"});
}

TEST_P(OperatorRemovalConformance, CleanupTakesWhatWasMarkedProcessedWithoutContent) {
  proves("R-22", "R-03");
  put(Situation::seen, "a");
  queue().mark({.key = key("a"), .as = MarkAs::processed});
  advance(1h);
  EXPECT_EQ(cleanup({.done_retention = 1h}).done_removed, 1U);
  EXPECT_TRUE(stored().empty());
}

TEST_P(OperatorRemovalConformance, RemovalInOneQueueLeavesTheOther) {
  proves("R-22", "R-30");
  for (QueueStore* one : {&store().inbox(), &store().outbox()}) {
    one->observe({.key = key("done")});
    one->mark({.key = key("done"), .as = MarkAs::processed});
    one->observe({.key = key("dead")});
    one->mark({.key = key("dead"), .as = MarkAs::dead});
  }
  cleanup({.done_retention = 0ms});
  queue_operator().purge_matching({}, 10);
  EXPECT_TRUE(stored().empty());
  EXPECT_EQ(store().inbox_operator().count({}) + store().outbox_operator().count({}), 2U);
}

}  // namespace oncebox::conformance
