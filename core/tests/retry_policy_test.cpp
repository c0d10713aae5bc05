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
  }
  EXPECT_EQ(policy.delay_after(1'000'000, 0), seconds{60});
}

TEST(AttemptLimit, TheLastFailureIsExactlyThatOfTheNumber) {
  RecordProperty("requirement", "R-11,IBX-083,IBX-084");
  constexpr Duration kAnyAge = days{1};
  const AttemptLimit limit{.max_attempts = 3};
  EXPECT_FALSE(limit.is_last(2, kAnyAge));
  EXPECT_TRUE(limit.is_last(3, Duration{0}));
  EXPECT_TRUE(AttemptLimit{1}.is_last(1, Duration{0}));
  EXPECT_FALSE(RetryPolicy{}.limit().is_last(9, kAnyAge));
  EXPECT_TRUE(RetryPolicy{}.limit().is_last(10, Duration{0}));
}

TEST(AttemptLimit, WhatIsGivenUpByAgeIsOldAndHasFailedOftenEnough) {
  const AttemptLimit limit{.max_attempts = 3, .give_up_after = seconds{100}};
  EXPECT_FALSE(limit.is_last(1'001, seconds{99})) << "an outage";
  EXPECT_FALSE(limit.is_last(2, days{1})) << "late to its first attempt";
  EXPECT_TRUE(limit.is_last(3, seconds{100}));
  EXPECT_FALSE(limit.is_last(3, seconds{-1})) << "a clock that was set back";
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
  EXPECT_EQ(policies.limit_of("order"), AttemptLimit{7});
  EXPECT_EQ(policies.limit_of("payment.received"), AttemptLimit{20});
  EXPECT_EQ(policies.limit_of("payment.refund"), AttemptLimit{1});
  policies.set("payment.refund", {.max_attempts = 2});
  EXPECT_EQ(policies.limit_of("payment.refund"), AttemptLimit{2});
  expect_error(ErrorCode::out_of_range, [&] { policies.set("x", {.max_attempts = 0}); });
}

TEST(RetryPolicies, WhatTheyDoNotNameIsLeftOpen) {
  RecordProperty("requirement", "R-31");
  RetryPolicies policies;
  policies.set("payment.*", {.max_attempts = 20});
  EXPECT_EQ(policies.delays_of("order"), nullptr);
  EXPECT_EQ(policies.limit_of("order"), std::nullopt);
  policies.set_delays("order", {.backoff = FixedDelay{seconds{3}}});
  EXPECT_EQ(policies.delays_of("order")->delay_after(1, kNoEntropy), seconds{3});
  EXPECT_EQ(policies.limit_of("order"), std::nullopt);
  policies.set_limit("mail", {.max_attempts = 2});
  EXPECT_EQ(policies.delays_of("mail"), nullptr);
  EXPECT_EQ(policies.limit_of("mail"), AttemptLimit{2});
}

TEST(RetryPolicies, DelaysAndLimitHaveEachTheirBestPattern) {
  RetryPolicies policies(RetryPolicy{.backoff = FixedDelay{seconds{3}}, .max_attempts = 7});
  policies.set_limit("payment.*", {.max_attempts = 2});
  EXPECT_EQ(policies.delays_of("payment.refund")->delay_after(1, kNoEntropy), seconds{3});
  EXPECT_EQ(policies.limit_of("payment.refund"), AttemptLimit{2});
  expect_error(ErrorCode::out_of_range, [&] { policies.set_limit("x", {.max_attempts = 0}); });
  expect_error(ErrorCode::out_of_range,
               [&] { policies.set_delays("x", {.backoff = FixedDelay{seconds{0}}}); });
}

}  // namespace
}  // namespace oncebox
