#include "oncebox/wire/policy_json.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"

namespace oncebox::wire {
namespace {

using namespace std::chrono_literals;

const TopicPolicy kWhole{
    .max_attempts = 5,
    .delays = {1s, 1min},
    .max_delay = 2min,
    .jitter = Jitter::full,
    .give_up_after = 0s,
    .max_deliveries = 7,
    .limits = {.max_concurrency = 2, .rate = RateLimit{.count = 100, .per = 1s, .burst = 20}},
    .paused = true};
const std::string kWholeJson =
    R"({"topic":"order.*","maxAttempts":5,"delaysSeconds":[1,60],"maxDelaySeconds":120,)"
    R"("jitter":"Full","giveUpAfterSeconds":0,"maxDeliveries":7,"maxConcurrency":2,)"
    R"("rate":{"count":100,"perSeconds":1,"burst":20},"paused":true})";

TEST(PolicyJson, RuleHasOneForm) {
  const TopicRule rule{"order.*", kWhole};
  EXPECT_EQ(write_policy(rule), kWholeJson);
  EXPECT_EQ(read_policy(kWholeJson), rule);
  const std::vector<TopicRule> rules{rule, {TopicPattern(Topic("a*")), {.backoff = 1500ms}}};
  EXPECT_EQ(read_policies(write_policies(rules)), rules);
}

TEST(PolicyJson, CallSetsClearsAndLeaves) {
  const std::string json =
      R"({"topic":"t","maxAttempts":3,"delaysSeconds":null,"jitter":null,"rate":null,)"
      R"("reason":"why"})";
  const PolicyCall call = read_policy_call(json);
  EXPECT_EQ(call.topic, TopicPattern("t"));
  EXPECT_EQ(call.reason, "why");
  EXPECT_EQ(call.change, (TopicPolicyChange{.max_attempts = 3,
                                            .delays = std::nullopt,
                                            .jitter = std::nullopt,
                                            .limits = {.rate = std::nullopt}}));
  EXPECT_EQ(write_policy_call(call), json);
}

TEST(PolicyJson, EveryFieldCanBeCleared) {
  const TopicPolicyChange change{.max_attempts = std::nullopt,
                                 .backoff = std::nullopt,
                                 .delays = std::nullopt,
                                 .max_delay = std::nullopt,
                                 .jitter = std::nullopt,
                                 .give_up_after = std::nullopt,
                                 .max_deliveries = std::nullopt,
                                 .limits = {.max_concurrency = std::nullopt, .rate = std::nullopt},
                                 .paused = std::nullopt};
  EXPECT_EQ(read_policy_call(write_policy_call({"t", change})).change, change);
}

TEST(PolicyJson, AnswerMaySpellOutWhatIsNotThere) {
  EXPECT_EQ(read_policy(R"({"topic":"t","maxAttempts":null,"backoffSeconds":2})"),
            (TopicRule{"t", {.backoff = 2s}}));
}

TEST(PolicyJson, WhatIsNoValueIsRefused) {
  for (const std::string json :
       {R"({"topic":"t","maxAttempts":"default"})", R"({"topic":null})",
        R"({"topic":"t","rate":{"count":null}})", R"({"topic":"t","delaysSeconds":[null]})"}) {
    expect_error(ErrorCode::invalid_argument, [&] { (void)read_policy_call(json); });
  }
}

}  // namespace
}  // namespace oncebox::wire
