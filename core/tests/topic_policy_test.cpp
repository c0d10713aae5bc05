#include "oncebox/topic_policy.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

using namespace std::chrono_literals;
using Patterns = std::vector<TopicPattern>;

TEST(TopicPolicyTest, AnAbsentFieldIsInheritedFromTheNextWiderRule) {
  const TopicPolicies policies(
      QueueKind::inbox, {{"order.paid", {.max_attempts = 3}},
                         {"*", {.max_attempts = 7, .max_delay = 90s, .jitter = Jitter::full}},
                         {"order.*", {.max_attempts = 5, .max_delay = 30s}}});
  const ResolvedPolicy& paid = policies.for_topic("order.paid");
  EXPECT_EQ(paid.retry.max_attempts, 3);
  EXPECT_EQ(paid.retry.max_delay, 30s);
  EXPECT_EQ(paid.retry.jitter, Jitter::full);
  EXPECT_EQ(paid.max_deliveries, 6);
  EXPECT_EQ(policies.for_topic("order.sent").retry.max_attempts, 5);
  EXPECT_EQ(policies.for_topic("other").retry.max_attempts, 7);
  EXPECT_TRUE(paid.limit_is_of_topic);
}

TEST(TopicPolicyTest, TheLimitIsTheTopicsWhenARuleSaysWhenAttemptsEnd) {
  const TopicPolicies policies(QueueKind::inbox, {{"*", {.delays = {1s}, .jitter = Jitter::full}},
                                                  {"counted.*", {.max_attempts = 3}},
                                                  {"counted.late", {.max_delay = 1min}},
                                                  {"aged", {.give_up_after = 1h}},
                                                  {"ageless", {.give_up_after = 0s}}});
  EXPECT_FALSE(policies.for_topic("other").limit_is_of_topic);
  EXPECT_TRUE(policies.for_topic("counted.late").limit_is_of_topic) << "it inherits its attempts";
  EXPECT_TRUE(policies.for_topic("aged").limit_is_of_topic);
  EXPECT_TRUE(policies.for_topic("ageless").limit_is_of_topic);
}

TEST(TopicPolicyTest, WithoutRulesAQueueDoesWhatItDoesByItself) {
  const TopicPolicies inbox(QueueKind::inbox);
  EXPECT_EQ(inbox.for_topic("t").retry.max_attempts, 10);
  EXPECT_EQ(inbox.for_topic("t").max_deliveries, 20);
  EXPECT_FALSE(inbox.for_topic("t").limit_is_of_topic);
  EXPECT_EQ(TopicPolicies(QueueKind::outbox).for_topic("t").retry.give_up_after, 72h);
}

TEST(TopicPolicyTest, ListedDelaysAreNotCutByTheQueuesOwnMaximum) {
  const TopicPolicies policies(QueueKind::inbox, {{"t", {.delays = {1s, 5min}}}});
  EXPECT_EQ(policies.for_topic("t").retry.delay_after(1, 0), 1s);
  EXPECT_EQ(policies.for_topic("t").retry.delay_after(9, 0), 5min);
}

TEST(TopicPolicyTest, FailuresBeyondThePolicysAttemptsAreNoReasonToBury) {
  // A worker with a larger limit, or one that gives up by age, has failed hundreds of times.
  const ResolvedPolicy policy{.retry = {.max_attempts = 10}, .max_deliveries = 20};
  EXPECT_FALSE(policy.is_delivered_too_often(300, 9));
  EXPECT_TRUE(policy.is_delivered_too_often(300, 10));
  EXPECT_TRUE(policy.is_delivered_too_often(5, 15));
  EXPECT_FALSE(policy.is_delivered_too_often(5, 14));
}

TEST(TopicPolicyTest, AChangeSetsWhatItSaysAndLeavesTheRest) {
  TopicPolicy policy{.max_attempts = 3, .backoff = 2s, .paused = true};
  policy.apply({.delays = {1s, 1min}, .paused = false});
  EXPECT_EQ(policy, (TopicPolicy{.max_attempts = 3, .delays = {1s, 1min}}));
  policy.apply({.backoff = 4s});
  EXPECT_EQ(policy, (TopicPolicy{.max_attempts = 3, .backoff = 4s}));
  policy.apply({});
  EXPECT_EQ(policy, (TopicPolicy{.max_attempts = 3, .backoff = 4s}));
}

TEST(TopicPolicyTest, AChangeClearsSingleFields) {
  const TopicPolicy whole{.max_attempts = 3,
                          .delays = {1s},
                          .max_delay = 1min,
                          .jitter = Jitter::full,
                          .give_up_after = 1h,
                          .max_deliveries = 7,
                          .limits = {.max_concurrency = 2, .rate = RateLimit{.count = 5}},
                          .paused = true};
  TopicPolicy policy = whole;
  policy.apply({.max_attempts = std::nullopt, .limits = {.rate = std::nullopt}});
  EXPECT_EQ(policy.max_attempts, std::nullopt);
  EXPECT_EQ(policy.limits, TopicLimits{.max_concurrency = 2});
  EXPECT_EQ(policy.delays, whole.delays);
  policy.apply({.delays = std::nullopt,
                .max_delay = std::nullopt,
                .jitter = std::nullopt,
                .give_up_after = std::nullopt,
                .max_deliveries = std::nullopt,
                .limits = {.max_concurrency = std::nullopt},
                .paused = std::nullopt});
  EXPECT_TRUE(policy.empty());
  policy = {.backoff = 1s};
  policy.apply({.backoff = std::nullopt, .delays = {2s}});
  EXPECT_EQ(policy, TopicPolicy{.delays = {2s}});
}

TEST(TopicPolicyTest, AsAChangeAPolicySetsWhatItSaysAndNothingElse) {
  const TopicPolicy said{.max_attempts = 3, .delays = {1s}, .limits = {.max_concurrency = 2}};
  EXPECT_EQ(
      said.as_change(),
      (TopicPolicyChange{.max_attempts = 3, .delays = {1s}, .limits = {.max_concurrency = 2}}));
  EXPECT_TRUE(TopicPolicy{}.as_change().empty());
  EXPECT_FALSE(TopicPolicyChange{.jitter = std::nullopt}.empty());
}

TEST(TopicPolicyTest, AnAgeOfZeroCountsAttemptsAloneWhateverIsWider) {
  const TopicPolicies policies(QueueKind::outbox,
                               {{"*", {.give_up_after = 1h}}, {"mail", {.give_up_after = 0s}}});
  EXPECT_EQ(policies.for_topic("mail").retry.give_up_after, std::nullopt);
  EXPECT_EQ(policies.for_topic("other").retry.give_up_after, 1h);
}

TEST(TopicPolicyTest, ImpossibleNumbersAreRefused) {
  for (const TopicPolicy& policy :
       {TopicPolicy{.max_attempts = 0}, TopicPolicy{.max_attempts = -1},
        TopicPolicy{.max_deliveries = 0}, TopicPolicy{.backoff = 0s}, TopicPolicy{.delays = {0s}},
        TopicPolicy{.max_delay = -1s}, TopicPolicy{.give_up_after = std::chrono::days{366}},
        TopicPolicy{.backoff = 1s, .delays = {1s}},
        TopicPolicy{.delays = std::vector<Duration>(TopicPolicy::kMaxDelays + 1, 1s)}}) {
    EXPECT_THROW(policy.validate(), Error);
  }
  EXPECT_THROW(TopicPolicyChange{.max_attempts = 0}.validate(), Error);
  EXPECT_THROW((TopicPolicyChange{.backoff = 1s, .delays = {1s}}.validate()), Error);
  EXPECT_NO_THROW((TopicPolicyChange{.backoff = 1s, .delays = std::nullopt}.validate()));
}

TEST(TopicPolicyTest, TheNumberOfRulesIsBounded) {
  std::vector<TopicRule> rules;
  for (std::size_t i = 0; i < PolicyStore::kMaxRules; ++i) {
    rules.push_back({"t" + std::to_string(i), {.max_attempts = 1}});
  }
  EXPECT_THROW((void)policy_after(rules, "one.more", {.max_attempts = 1}), Error);
  EXPECT_EQ(policy_after(rules, "t0", {.max_attempts = 2}).max_attempts, 2);
  EXPECT_TRUE(policy_after(rules, "one.more", {.paused = false}).empty());
  EXPECT_TRUE(policy_after(rules, "one.more", {.max_attempts = std::nullopt}).empty());
}

TEST(PausedTopicsTest, WhatIsPausedWholeLeavesNothing) {
  EXPECT_FALSE(without_paused({}, Patterns{"*"}));
  EXPECT_FALSE(without_paused({.only = {"order.paid"}}, Patterns{"order.*"}));
  EXPECT_FALSE(without_paused({.only = {"order.*"}}, Patterns{"order.*"}));
  EXPECT_TRUE(without_paused({.only = {"order.*"}}, Patterns{"order.paid"}));
  EXPECT_TRUE(without_paused({}, Patterns{"order.*"}));
}

TEST(PausedTopicsTest, ATopicIsLeftExactlyWhenItIsWantedAndNotPaused) {
  // Over all small selections of nested patterns.
  const std::vector<std::string> patterns{"*", "a*", "ab*", "ab", "abc", "b*"};
  const std::vector<std::string> topics{"a", "ab", "abc", "abd", "b", "bc", "c"};
  std::mt19937 random(1);
  const auto some = [&] {
    Patterns chosen;
    for (const std::string& pattern : patterns) {
      if (random() % 4 == 0) chosen.emplace_back(pattern);
    }
    return chosen;
  };
  for (int round = 0; round < 5'000; ++round) {
    const TopicSelection wanted{.only = some(), .except = some()};
    const Patterns paused = some();
    const auto left = without_paused(wanted, paused);
    for (const std::string& topic : topics) {
      const bool expected = wanted.matches(topic) && !is_paused(paused, topic);
      EXPECT_EQ(left && left->matches(topic), expected) << topic << " in round " << round;
    }
  }
}

}  // namespace

}  // namespace oncebox
