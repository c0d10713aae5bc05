// Counts per topic and state, and how long the oldest has been waiting.

#include <algorithm>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class OperatorStatsConformance : public StoreConformance {
 protected:
  std::vector<TopicStats> stats() { return queue_operator().stats().topics; }

  TopicStats stats_of(std::string_view topic) {
    for (const TopicStats& one : stats()) {
      if (one.topic && one.topic->str() == topic) return one;
    }
    ADD_FAILURE() << "no statistics of " << topic;
    return {};
  }

  TopicStats total() { return queue_operator().stats().total(); }
};

INSTANTIATE_TEST_SUITE_P(Stores, OperatorStatsConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(OperatorStatsConformance, EmptyQueueHasNone) {
  proves("R-30");
  EXPECT_TRUE(stats().empty());
  EXPECT_EQ(total(), TopicStats{});
}

TEST_P(OperatorStatsConformance, EveryMessageCountsOnceWhereItStands) {
  proves("R-30", "R-02", "R-16");
  const TimePoint start = now();
  put_every_situation();  // the lapsed lease ended one second after the start, which is now
  const TopicStats without_topic{.topic = std::nullopt, .seen = 1, .waiting = {.content = 1}};
  const TopicStats created{.topic = "order.created",
                           .waiting = {.due = 1},
                           .ready = 1,
                           .leased = 1,
                           .oldest_ready_at = start};
  const TopicStats paid{.topic = "order.paid",
                        .ready = 1,
                        .done = 1,
                        .dead = 1,
                        .oldest_ready_at = now(),
                        .oldest_dead_at = start};
  EXPECT_EQ(stats_of("order.created"), created);
  EXPECT_EQ(stats_of("order.paid"), paid);
  const std::vector<TopicStats> all = stats();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_NE(std::find(all.begin(), all.end(), without_topic), all.end())
      << testing::PrintToString(all);
  const TopicStats sum{.seen = 1,
                       .waiting = {.content = 1, .due = 1},
                       .ready = 2,
                       .leased = 1,
                       .done = 1,
                       .dead = 1,
                       .oldest_ready_at = start,
                       .oldest_dead_at = start};
  EXPECT_EQ(total(), sum);
}

TEST_P(OperatorStatsConformance, TopicsComeInTheOrderOfTheirBytes) {
  proves("R-30", "IBX-021");
  const std::vector<std::string> ordered{"B", "a", "a.", "aa", "b", "é", "漢", "😀"};
  for (auto topic = ordered.rbegin(); topic != ordered.rend(); ++topic) {
    enqueue(message("of " + *topic, {.topic = *topic}));
  }
  std::vector<std::string> found;
  for (const TopicStats& one : stats()) found.push_back(one.topic.value().str());
  EXPECT_EQ(found, ordered);
}

TEST_P(OperatorStatsConformance, OldestReadyIsSinceWhenItCouldBeClaimed) {
  proves("R-30", "R-17");
  const TimePoint start = now();
  enqueue(message("due later", {.due_at = start + 20s}));
  advance(5s);
  enqueue(message("low", {.priority = -100}));
  advance(5s);
  enqueue(message("high", {.priority = 100}));
  EXPECT_EQ(at(stats_of("order.created").oldest_ready_at), at(start + 5s));
  claim();
  EXPECT_EQ(at(stats_of("order.created").oldest_ready_at), kNever);
  EXPECT_EQ(stats_of("order.created").leased, 2U);
  advance(15s);
  EXPECT_EQ(at(stats_of("order.created").oldest_ready_at), at(start + 20s));
}

TEST_P(OperatorStatsConformance, AbandonedMessageWaitsAndIsThenReadySinceItsBackoffEnded) {
  proves("R-30", "IBX-056");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.delay = 10s});
  EXPECT_EQ(stats_of("order.created").waiting, WaitingCounts{.backoff = 1});
  EXPECT_EQ(stats_of("order.created").ready, 0U);
  const TimePoint backoff_end = now() + 10s;
  advance(10s);
  EXPECT_EQ(stats_of("order.created").ready, 1U);
  advance(10s);
  EXPECT_EQ(at(stats_of("order.created").oldest_ready_at), at(backoff_end));
}

TEST_P(OperatorStatsConformance, LapsedLeaseIsReadySinceItEndedReapedOrNot) {
  proves("R-30", "R-16", "R-23");
  enqueue(message("a"));
  claim_one(alice, 10s);
  const TimePoint lease_end = now() + 10s;
  advance(10s - 1ms);
  EXPECT_EQ(stats_of("order.created"), (TopicStats{.topic = "order.created", .leased = 1}));
  advance(1ms);
  const TopicStats lapsed{.topic = "order.created", .ready = 1, .oldest_ready_at = lease_end};
  EXPECT_EQ(stats_of("order.created"), lapsed);
  advance(1h);
  EXPECT_EQ(stats_of("order.created"), lapsed);
  queue().reap();
  EXPECT_EQ(stats_of("order.created"), lapsed);
}

TEST_P(OperatorStatsConformance, OldestDeadIsWhenTheFirstOfTheDeadDied) {
  proves("R-30");
  const TimePoint start = now();
  put(Situation::dead, "a");
  advance(10s);
  put(Situation::dead, "b");
  EXPECT_EQ(stats_of("order.created").dead, 2U);
  EXPECT_EQ(at(stats_of("order.created").oldest_dead_at), at(start));
  const std::vector<MessageKey> keys{key("a")};
  queue_operator().purge(keys);
  EXPECT_EQ(at(stats_of("order.created").oldest_dead_at), at(start + 10s));
  queue_operator().purge_matching({}, 10);
  EXPECT_TRUE(stats().empty()) << "a topic without messages is not listed";
}

TEST_P(OperatorStatsConformance, OnlyTheHeadOfAPartitionIsReady) {
  proves("R-30", "R-29");
  for (const char* id : {"a", "b", "c"}) {
    enqueue(message(id, {.partition = "p"}));
    advance(1s);
  }
  const TimePoint start = now() - 3s;
  const TopicStats one_ready{
      .topic = "order.created", .waiting = {.partition = 2}, .ready = 1, .oldest_ready_at = start};
  EXPECT_EQ(stats_of("order.created"), one_ready);

  const ClaimedMessage head = claim_one(alice, 10s);
  const TopicStats one_leased{.topic = "order.created", .waiting = {.partition = 2}, .leased = 1};
  EXPECT_EQ(stats_of("order.created"), one_leased);

  advance(10s);
  const TopicStats head_lapsed{
      .topic = "order.created", .waiting = {.partition = 2}, .ready = 1, .oldest_ready_at = now()};
  EXPECT_EQ(stats_of("order.created"), head_lapsed);

  settle(head);
  const TopicStats next_ready{.topic = "order.created",
                              .waiting = {.partition = 1},
                              .ready = 1,
                              .done = 1,
                              .oldest_ready_at = start + 1s};
  EXPECT_EQ(stats_of("order.created"), next_ready);
}

TEST_P(OperatorStatsConformance, MessageCountsUnderTheTopicItHasNow) {
  proves("R-30", "IBX-029");
  enqueue(message("a", {.topic = "old"}));
  enqueue(message("a", {.topic = "new"}));
  ASSERT_EQ(stats().size(), 1U);
  EXPECT_EQ(stats_of("new").ready, 1U);
}

TEST_P(OperatorStatsConformance, StatesWithoutContentCountWithoutATopic) {
  proves("R-30", "R-03");
  for (const char* id : {"seen", "processing", "done", "dead"}) put(Situation::seen, id);
  queue().mark({.key = key("processing"), .as = MarkAs::processing});
  queue().mark({.key = key("done"), .as = MarkAs::processed});
  queue().mark({.key = key("dead"), .as = MarkAs::dead});
  const std::vector<TopicStats> expected{{.topic = std::nullopt,
                                          .seen = 1,
                                          .waiting = {.content = 1},
                                          .done = 1,
                                          .dead = 1,
                                          .oldest_dead_at = now()}};
  EXPECT_EQ(stats(), expected);
}

}  // namespace oncebox::conformance
