// Limits of topics hold for all workers of a store together: R-31.

#include <atomic>
#include <barrier>
#include <thread>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class TopicLimitsConformance : public StoreConformance {
 protected:
  void enqueue_of(const std::string& topic, const Ids& ids) {
    for (const std::string& id : ids) enqueue(message(id, {.topic = topic}));
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, TopicLimitsConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(TopicLimitsConformance, NoMoreThanTheConcurrencyIsLeasedThroughAllHandles) {
  proves("R-31");
  set_policy("mail", {.limits = {.max_concurrency = 2}});
  enqueue_of("mail", {"a", "b", "c"});
  const std::shared_ptr<Store> another = open();
  const auto first = queue_of(*another).claim({.owner = bob, .limit = 1}).messages;
  ASSERT_EQ(ids_of(first), Ids{"a"});
  EXPECT_EQ(claim_ids(), Ids{"b"});
  EXPECT_TRUE(claim_ids().empty());
  EXPECT_TRUE(queue_of(*another).claim({.owner = bob}).empty());
  settle(first.front());
  EXPECT_EQ(ids_of(queue_of(*another).claim({.owner = bob}).messages), Ids{"c"});
}

TEST_P(TopicLimitsConformance, WhatIsOverALimitDoesNotStandInTheWayOfOthers) {
  proves("R-31", "R-17");
  set_policy("mail", {.limits = {.max_concurrency = 1}});
  enqueue_of("mail", {"a", "b", "c"});
  enqueue_of("order", {"d", "e"});
  enqueue(message("urgent", {.topic = "order", .priority = 9}));
  EXPECT_EQ(claim_ids(3), (Ids{"urgent", "a", "d"})) << "in the order of the queue";
  EXPECT_EQ(claim_ids(), Ids{"e"});
}

TEST_P(TopicLimitsConformance, ATopicIsBoundByEveryRuleThatMatchesIt) {
  proves("R-31");
  set_policy("mail.*", {.limits = {.max_concurrency = 2}});
  set_policy("mail.slow", {.limits = {.max_concurrency = 1}});
  enqueue_of("mail.slow", {"a", "b"});
  enqueue_of("mail.fast", {"c", "d"});
  EXPECT_EQ(claim_ids(), (Ids{"a", "c"}));
}

TEST_P(TopicLimitsConformance, ALapsedLeaseMakesRoom) {
  proves("R-31", "R-23");
  set_policy("mail", {.limits = {.max_concurrency = 1}});
  enqueue_of("mail", {"a", "b"});
  ASSERT_EQ(claim_ids(), Ids{"a"});
  advance(defaults::kLease);
  EXPECT_EQ(claim({.owner = bob, .topics = {.only = {"mail"}}}).size(), 1U);
  EXPECT_TRUE(claim_ids().empty());
}

TEST_P(TopicLimitsConformance, ARateHoldsForAllHandlesAndNextDueTellsWhenItAllowsMore) {
  proves("R-31");
  set_policy("mail", {.limits = {.rate = RateLimit{.count = 2, .per = 10s}}});
  enqueue_of("mail", {"a", "b", "c", "d", "e"});
  const std::shared_ptr<Store> another = open();
  EXPECT_EQ(ids_of(queue_of(*another).claim({.owner = bob, .limit = 1}).messages), Ids{"a"});
  EXPECT_EQ(claim_ids(), Ids{"b"});
  EXPECT_TRUE(claim_ids().empty());
  EXPECT_EQ(queue().next_due({.only = {"mail"}}), now() + 5s);
  advance(5s);
  EXPECT_EQ(claim_ids(), Ids{"c"});
  EXPECT_TRUE(claim_ids().empty());
  set_policy("mail", {.paused = true});
  set_policy("mail", {.paused = false});
  EXPECT_TRUE(claim_ids().empty()) << "a change of the rule does not forget what was used";
  advance(10s);
  EXPECT_EQ(claim_ids(), (Ids{"d", "e"}));
}

TEST_P(TopicLimitsConformance, BytesOfABatchAreBoundedAlsoWhenALimitIsMet) {
  proves("R-31");
  set_policy("mail", {.limits = {.max_concurrency = 1, .rate = RateLimit{.count = 3, .per = 1h}}});
  Message large = message("a", {.topic = "mail"});
  large.payload = std::string(600, 'x');
  enqueue(large);
  enqueue_of("mail", {"b"});
  Message other = message("c", {.topic = "order"});
  other.payload = std::string(600, 'x');
  enqueue(other);
  EXPECT_EQ(ids_of(claim({.owner = alice, .max_bytes = 1'000})), Ids{"a"});
  EXPECT_EQ(ids_of(claim({.owner = alice, .max_bytes = 1'000})), Ids{"c"});
}

TEST_P(TopicLimitsConformance, ClaimsAtTheSameTimeDoNotExceedALimit) {
  proves("R-31");
  set_policy("mail", {.limits = {.max_concurrency = 5}});
  Ids ids;
  for (int i = 0; i < 40; ++i) ids.push_back("m" + std::to_string(i));
  enqueue_of("mail", ids);
  constexpr int kClaimers = 4;
  std::atomic<std::size_t> claimed = 0;
  std::barrier begin(kClaimers);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kClaimers; ++i) {
      threads.emplace_back([&] {
        const std::shared_ptr<Store> own = open();
        begin.arrive_and_wait();
        for (int round = 0; round < 3; ++round) {
          claimed += queue_of(*own).claim({.owner = OwnerToken::generate(), .limit = 2}).size();
        }
      });
    }
  }
  EXPECT_EQ(claimed, 5U);
}

}  // namespace oncebox::conformance
