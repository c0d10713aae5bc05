#include "oncebox/retry_policy.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"

namespace oncebox {
namespace {

using std::chrono::days;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kNoEntropy = 0;
constexpr std::uint64_t kAllEntropy = ~std::uint64_t{0};

TEST(RetryPolicy, TheDefaultDoublesUpToAMinute) {
  RecordProperty("requirement", "R-12,IBX-080,IBX-081");
  const RetryPolicy policy;
  const std::vector<int> expected{2, 4, 8, 16, 32, 60, 60, 60};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const int attempt = static_cast<int>(i) + 1;
    EXPECT_EQ(policy.delay_after(attempt, kAllEntropy), seconds{expected[i]}) << attempt;
    EXPECT_EQ(default_backoff(attempt), seconds{expected[i]}) << attempt;
  }
  EXPECT_EQ(policy.delay_after(1'000'000, 0), seconds{60});
}

TEST(RetryPolicy, DeadAfterExactlyMaxAttemptsFailures) {
  RecordProperty("requirement", "R-11,IBX-083,IBX-084");
  const RetryPolicy policy{.max_attempts = 3};
  constexpr Duration kAnyAge = days{1};
  EXPECT_EQ(policy.after_failure(0, kAnyAge, 0), seconds{2});
  EXPECT_EQ(policy.after_failure(1, kAnyAge, 0), seconds{4});
  EXPECT_EQ(policy.after_failure(2, Duration{0}, 0), std::nullopt);
  EXPECT_EQ((RetryPolicy{.max_attempts = 1}.after_failure(0, Duration{0}, 0)), std::nullopt);
  EXPECT_TRUE(RetryPolicy{}.after_failure(8, kAnyAge, 0));
  EXPECT_FALSE(RetryPolicy{}.after_failure(9, Duration{0}, 0));
}

TEST(RetryPolicy, WhatIsGivenUpByAgeIsOldAndHasFailedOftenEnough) {
  const RetryPolicy policy{.max_attempts = 3, .give_up_after = seconds{100}};
  EXPECT_TRUE(policy.after_failure(1'000, seconds{99}, 0)) << "an outage";
  EXPECT_EQ(policy.after_failure(1, days{1}, 0), seconds{4}) << "late to its first attempt";
  EXPECT_FALSE(policy.after_failure(2, seconds{100}, 0));
  EXPECT_TRUE(policy.after_failure(2, seconds{-1}, 0)) << "a clock that was set back";
}

TEST(RetryPolicy, FixedDelaysAndListsAreCapped) {
  RecordProperty("requirement", "IBX-082");
  const RetryPolicy fixed{.backoff = FixedDelay{seconds{5}}};
  EXPECT_EQ(fixed.delay_after(1, 0), seconds{5});
  EXPECT_EQ(fixed.delay_after(9, 0), seconds{5});
  const RetryPolicy list{.backoff = DelayList{{seconds{1}, seconds{30}, seconds{600}}},
                         .max_delay = seconds{120}};
  EXPECT_EQ(list.delay_after(1, 0), seconds{1});
  EXPECT_EQ(list.delay_after(2, 0), seconds{30});
  EXPECT_EQ(list.delay_after(3, 0), seconds{120});
  EXPECT_EQ(list.delay_after(99, 0), seconds{120});
}

TEST(RetryPolicy, JitterStaysWithinItsBounds) {
  RecordProperty("requirement", "R-12");
  RetryPolicy policy{.backoff = FixedDelay{milliseconds{1'000}}};
  policy.jitter = Jitter::equal;
  EXPECT_EQ(policy.delay_after(1, 0), milliseconds{500});
  EXPECT_EQ(policy.delay_after(1, 500), milliseconds{1'000});
  EXPECT_EQ(policy.delay_after(1, 501), milliseconds{500});
  policy.jitter = Jitter::full;
  EXPECT_EQ(policy.delay_after(1, kNoEntropy), milliseconds{1});
  EXPECT_EQ(policy.delay_after(1, 999), milliseconds{1'000});
  policy.backoff = FixedDelay{milliseconds{1}};
  for (const Jitter jitter : {Jitter::none, Jitter::equal, Jitter::full}) {
    policy.jitter = jitter;
    EXPECT_EQ(policy.delay_after(1, kAllEntropy), milliseconds{1});
  }
}

TEST(RetryPolicy, RejectsDelaysThatAreNotPositive) {
  const auto rejects = [](const RetryPolicy& policy) {
    expect_error(ErrorCode::out_of_range, [&] { policy.validate(); });
  };
  rejects({.backoff = FixedDelay{milliseconds{0}}});
  rejects({.backoff = FixedDelay{milliseconds{-1}}});
  rejects({.backoff = FixedDelay{days{366}}});
  rejects({.backoff = ExponentialBackoff{milliseconds{0}}});
  rejects({.backoff = DelayList{}});
  rejects({.backoff = DelayList{{seconds{1}, seconds{0}}}});
  rejects({.max_delay = milliseconds{0}});
  rejects({.max_attempts = 0});
  rejects({.give_up_after = seconds{0}});
  rejects({.give_up_after = days{366}});
  RetryPolicy{}.validate();
}

TEST(RetryPolicy, AnInvalidOneStillAnswersAPositiveDelay) {
  for (const Jitter jitter : {Jitter::none, Jitter::equal, Jitter::full}) {
    const RetryPolicy zero{.backoff = FixedDelay{milliseconds{0}}, .jitter = jitter};
    EXPECT_EQ(zero.delay_after(1, kAllEntropy), milliseconds{1});
    const RetryPolicy empty{.backoff = DelayList{}, .jitter = jitter};
    EXPECT_GE(empty.delay_after(1, kAllEntropy), milliseconds{1});
  }
}

TEST(RetryPolicies, ATopicsOwnPolicyOverridesTheDefault) {
  RecordProperty("requirement", "R-12,IBX-082");
  RetryPolicies policies(RetryPolicy{.max_attempts = 7});
  policies.set("payment.*", {.max_attempts = 20});
  policies.set("payment.refund", {.max_attempts = 1});
  EXPECT_EQ(policies.for_topic("order").max_attempts, 7);
  EXPECT_EQ(policies.for_topic("payment.received").max_attempts, 20);
  EXPECT_EQ(policies.for_topic("payment.refund").max_attempts, 1);
  policies.set("payment.refund", {.max_attempts = 2});
  EXPECT_EQ(policies.for_topic("payment.refund").max_attempts, 2);
  expect_error(ErrorCode::out_of_range, [&] { policies.set("x", {.max_attempts = 0}); });
}

TEST(RetryPolicies, OneThatGivesUpByAgeBoundsNoAttempts) {
  RetryPolicies policies;
  policies.set("payment.*", {.max_attempts = 20});
  EXPECT_EQ(policies.most_attempts(), 20);
  policies.set("mail.*", {.max_attempts = 3, .give_up_after = days{1}});
  EXPECT_EQ(policies.most_attempts(), std::nullopt);
  EXPECT_EQ(RetryPolicies(RetryPolicy{.give_up_after = days{1}}).most_attempts(), std::nullopt);
}

}  // namespace
}  // namespace oncebox
