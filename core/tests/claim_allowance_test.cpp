#include "oncebox/driver/claim_allowance.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace oncebox {

namespace {

using namespace std::chrono_literals;

constexpr TimePoint kNow{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

std::size_t take_up_to(ClaimAllowance& allowance, std::string_view topic, int wanted) {
  const std::vector<std::string_view> topics(static_cast<std::size_t>(wanted), topic);
  return allowance.take_first(topics);
}

TEST(ClaimAllowanceTest, AConcurrencyIsSharedByAllTopicsOfItsRule) {
  const TopicPolicies policies(QueueKind::inbox,
                               {{"mail.*", {.limits = {.max_concurrency = 3}}},
                                {"mail.slow", {.limits = {.max_concurrency = 1}}}});
  std::vector<LimitUse> uses(2);
  count_leased(uses, policies, "mail.fast", 1);
  count_leased(uses, policies, "order", 50);
  ClaimAllowance allowance(policies, uses, kNow);
  EXPECT_EQ(take_up_to(allowance, "mail.slow", 5), 1U);
  EXPECT_TRUE(allowance.among({})->matches("mail.fast"));
  EXPECT_FALSE(allowance.among({})->matches("mail.slow"));
  EXPECT_EQ(take_up_to(allowance, "mail.fast", 5), 1U) << "one is leased, one was taken";
  EXPECT_FALSE(allowance.among({})->matches("mail.fast"));
  EXPECT_EQ(allowance.among({.only = {"mail.*"}}), std::nullopt);
  EXPECT_EQ(take_up_to(allowance, "order", 5), 5U) << "nothing limits it";
}

TEST(ClaimAllowanceTest, ARateAllowsABurstAndThenItsShareOfTime) {
  const TopicPolicies policies(
      QueueKind::inbox,
      {{"mail", {.limits = {.rate = RateLimit{.count = 10, .per = 1s, .burst = 4}}}}});
  ClaimAllowance first(policies, {}, kNow);
  EXPECT_EQ(take_up_to(first, "mail", 9), 4U);
  EXPECT_EQ(first.next_due({}, std::nullopt), kNow + 100ms);
  EXPECT_EQ(first.next_due({}, kNow + 50ms), kNow + 50ms) << "something else is due before";
  EXPECT_EQ(first.next_due({.only = {"order"}}, std::nullopt), std::nullopt);

  ClaimAllowance before(policies, first.uses(), kNow + 99ms);
  EXPECT_EQ(take_up_to(before, "mail", 9), 0U);
  ClaimAllowance later(policies, first.uses(), kNow + 250ms);
  EXPECT_EQ(take_up_to(later, "mail", 9), 2U);
  ClaimAllowance much_later(policies, later.uses(), kNow + 24h);
  EXPECT_EQ(take_up_to(much_later, "mail", 9), 4U) << "never more than the burst";
}

TEST(ClaimAllowanceTest, AClockThatWasSetBackIsNotWaitedFor) {
  const TopicPolicies policies(QueueKind::inbox,
                               {{"mail", {.limits = {.rate = RateLimit{.count = 1, .per = 1s}}}}});
  ClaimAllowance before(policies, {}, kNow + 24h);
  EXPECT_EQ(take_up_to(before, "mail", 9), 1U);
  const ClaimAllowance set_back(policies, before.uses(), kNow);
  EXPECT_EQ(set_back.next_due({}, std::nullopt), kNow + 1s);
}

TEST(ClaimAllowanceTest, RatesAtTheEdgesOfTheirLimitsDoNotOverflow) {
  const RateLimit fastest{.count = 100'000'000, .per = 1ms, .burst = 100'000'000};
  const RateLimit slowest{.count = 1, .per = std::chrono::hours{24 * 365}, .burst = 100'000'000};
  for (const RateLimit& rate : {fastest, slowest}) {
    const TopicPolicies policies(QueueKind::inbox, {{"t", {.limits = {.rate = rate}}}});
    policies.rules().front().policy.validate();
    ClaimAllowance allowance(policies, {}, kNow);
    EXPECT_GE(take_up_to(allowance, "t", 10), 10U);
  }
}

TEST(ClaimAllowanceTest, WithoutLimitsOnlyPausesCount) {
  const TopicPolicies policies(QueueKind::inbox, {{"mail", {.paused = true}}});
  ClaimAllowance allowance(policies, {}, kNow);
  EXPECT_FALSE(allowance.has_limits());
  EXPECT_FALSE(allowance.among({})->matches("mail"));
  EXPECT_EQ(take_up_to(allowance, "order", 7), 7U);
  EXPECT_EQ(allowance.next_due({}, std::nullopt), std::nullopt);
}

}  // namespace

}  // namespace oncebox
