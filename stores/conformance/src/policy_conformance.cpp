// The rules for topics are the same for everybody who works on a store: R-31.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class PolicyConformance : public StoreConformance {
 protected:
  [[nodiscard]] std::vector<TopicRule> rules(Store& store) const {
    return store.policies().policies(GetParam().queue).rules();
  }

  /// Claims the only message, lets it fail, and lets its delay pass.
  SettleOutcome fail_once(const Abandon& verdict) {
    const SettleOutcome outcome = settle(claim({.owner = alice}).at(0), verdict);
    if (outcome.again_at) advance(*outcome.again_at - now());
    return outcome;
  }

  using Limits = std::vector<std::optional<AttemptLimit>>;
  /// What a claim of everything says of each message, in order.
  [[nodiscard]] Limits claimed_limits(Store& store) const {
    Limits limits;
    for (const ClaimedMessage& one : queue_of(store).claim({.owner = alice})) {
      limits.push_back(one.attempt_limit);
    }
    return limits;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, PolicyConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(PolicyConformance, RulesAreKeptAndSeenThroughEveryHandle) {
  proves("R-31");
  EXPECT_TRUE(rules(store()).empty());
  const TopicPolicy whole{.max_attempts = 5,
                          .delays = {1500ms, 1min},
                          .max_delay = 2min,
                          .jitter = Jitter::equal,
                          .give_up_after = 24h,
                          .max_deliveries = 7,
                          .paused = true};
  set_policy("order.*", whole.as_change());
  set_policy(TopicPattern(Topic("star*")), {.backoff = 250ms});
  const std::vector<TopicRule> kept{{"order.*", whole},
                                    {TopicPattern(Topic("star*")), {.backoff = 250ms}}};
  EXPECT_EQ(rules(store()), kept);
  EXPECT_EQ(rules(*harness().open()), kept);
  const QueueKind other =
      GetParam().queue == QueueKind::inbox ? QueueKind::outbox : QueueKind::inbox;
  EXPECT_TRUE(store().policies().policies(other).rules().empty()) << "each queue has its own";
}

TEST_P(PolicyConformance, AChangeLeavesTheRestAndARuleThatSaysNothingIsGone) {
  proves("R-31");
  set_policy("t", {.max_attempts = 5, .paused = true});
  set_policy("t", {.backoff = 3s});
  EXPECT_EQ(store().policies().update(GetParam().queue, "t", {.paused = false}),
            (TopicPolicy{.max_attempts = 5, .backoff = 3s}));
  set_policy("u", {.paused = true});
  set_policy("u", {.paused = false});
  EXPECT_EQ(rules(store()).size(), 1U);
  EXPECT_TRUE(store().policies().remove(GetParam().queue, "t"));
  EXPECT_FALSE(store().policies().remove(GetParam().queue, "t"));
  EXPECT_TRUE(rules(store()).empty());
}

TEST_P(PolicyConformance, ASingleFieldIsClearedAndInheritedAgain) {
  proves("R-31");
  set_policy("*", {.max_attempts = 1});
  set_policy("order.*", {.max_attempts = 2,
                         .backoff = 3s,
                         .jitter = Jitter::full,
                         .limits = {.max_concurrency = 1, .rate = RateLimit{.count = 1, .per = 1h}},
                         .paused = true});
  PolicyStore& policies = store().policies();
  EXPECT_EQ(
      policies.update(GetParam().queue, "order.*",
                      {.max_attempts = std::nullopt,
                       .delays = {7s},
                       .limits = {.rate = std::nullopt},
                       .paused = std::nullopt}),
      (TopicPolicy{.delays = {7s}, .jitter = Jitter::full, .limits = {.max_concurrency = 1}}));
  EXPECT_EQ(policies.update(GetParam().queue, "order.*",
                            {.delays = std::nullopt, .limits = {.max_concurrency = std::nullopt}}),
            (TopicPolicy{.jitter = Jitter::full}));
  enqueue(message("a"));
  enqueue(message("b"));
  const std::vector<ClaimedMessage> claimed = claim({.owner = alice});
  ASSERT_EQ(claimed.size(), 2U) << "no limit and no pause holds any more";
  EXPECT_EQ(settle(claimed.at(0), Abandon{}).death, SettledDeath::attempts)
      << "the wider rule has one attempt";
  set_policy("order.*", {.jitter = std::nullopt});
  EXPECT_EQ(rules(*harness().open()).size(), 1U) << "a rule that says nothing is gone";
}

TEST_P(PolicyConformance, ClearingWhatIsNotThereMakesNoRule) {
  proves("R-31");
  set_policy("t", {.max_attempts = std::nullopt, .limits = {.rate = std::nullopt}});
  EXPECT_TRUE(rules(store()).empty());
}

TEST_P(PolicyConformance, AnAgeOfZeroEndsAttemptsByTheirNumber) {
  proves("R-31", "R-11");
  set_policy("*", {.max_attempts = 2, .delays = {1s}, .give_up_after = 24h});
  set_policy("order.*", {.give_up_after = 0s});
  enqueue(message("a"));
  fail_once({});
  EXPECT_EQ(fail_once({}).death, SettledDeath::attempts);
}

TEST_P(PolicyConformance, TheTopicsPolicyEndsAttemptsWhoeverSettles) {
  proves("R-31", "R-11", "R-12");
  set_policy("order.*", {.max_attempts = 3, .delays = {10s, 20s}, .jitter = Jitter::none});
  enqueue(message("a"));
  const TimePoint begun = now();
  EXPECT_EQ(fail_once({.error = "boom"}),
            (SettleOutcome{.again_at = begun + 10s, .policy = PolicyOrigin::topic}));
  EXPECT_EQ(fail_once({.error = "boom"}),
            (SettleOutcome{.again_at = begun + 30s, .policy = PolicyOrigin::topic}));
  EXPECT_EQ(fail_once({.error = "boom"}),
            (SettleOutcome{.death = SettledDeath::attempts, .policy = PolicyOrigin::topic}));
  EXPECT_EQ(record("a").history.attempt, 3);
}

TEST_P(PolicyConformance, AClaimTellsWhereTheAttemptsOfEachTopicEnd) {
  proves("R-31", "R-11");
  set_policy("order.*", {.max_attempts = 4});
  set_policy("order.paid.*", {.delays = {1s}, .give_up_after = 2h});
  const std::vector<std::string> topics{"order.created", "order.created", "order.paid.late", "mail",
                                        "order.created"};
  for (std::size_t i = 0; i < topics.size(); ++i) {
    enqueue(message(std::to_string(i), {.topic = topics[i]}));
  }
  const AttemptLimit of_order{4};
  const AttemptLimit of_paid{4, 2h};
  const AttemptLimit of_queue = TopicPolicies(GetParam().queue).for_topic("mail").retry.limit();
  EXPECT_EQ(claimed_limits(store()), (Limits{of_order, of_order, of_paid, of_queue, of_order}));
}

TEST_P(PolicyConformance, AClaimTellsTheLimitOfNowThroughEveryHandle) {
  proves("R-31", "R-11");
  const std::shared_ptr<Store> another = open();
  const auto expect_told = [&](const AttemptLimit& limit) {
    enqueue_ids({"a", "b"});
    EXPECT_EQ(queue_of(*another).claim({.owner = bob, .limit = 1}).at(0).attempt_limit, limit);
    EXPECT_EQ(claimed_limits(store()), Limits{limit});
    const std::vector<MessageKey> keys{key("a"), key("b")};
    for (const MessageKey& each : keys) queue().mark({.key = each, .as = MarkAs::dead});
    queue_operator().purge(keys);
  };
  expect_told(TopicPolicies(GetParam().queue).for_topic("order.created").retry.limit());
  set_policy("*", {.max_attempts = 2, .give_up_after = 1h});
  expect_told({2, 1h});
  set_policy("order.*", {.give_up_after = 0s});
  expect_told({2});
}

TEST_P(PolicyConformance, AttemptsEndWhereTheClaimSaid) {
  proves("R-31", "R-11");
  set_policy("*",
             {.max_attempts = 2, .delays = {40s}, .jitter = Jitter::none, .give_up_after = 1min});
  enqueue(message("a"));
  for (const bool is_last : {false, false, true}) {
    const ClaimedMessage claimed = claim_one();
    const Duration age = now() - claimed.history.first_seen_at;
    EXPECT_EQ(claimed.attempt_limit.value().is_last(claimed.history.attempt + 1, age), is_last);
    EXPECT_EQ(settle(claimed, Abandon{}).death.has_value(), is_last);
    advance(40s);
  }
}

TEST_P(PolicyConformance, ARuleForDelaysAloneDoesNotSayHowManyAttemptsThereAre) {
  proves("R-31");
  set_policy("*", {.delays = {10s}, .jitter = Jitter::none});
  enqueue(message("a"));
  const TimePoint begun = now();
  EXPECT_EQ(fail_once({}), (SettleOutcome{.again_at = begun + 10s, .policy = PolicyOrigin::queue}));
  set_policy("order.*", {.give_up_after = 1h});
  EXPECT_EQ(fail_once({}).policy, PolicyOrigin::topic);
  set_policy("order.*", {.max_attempts = 9, .give_up_after = std::nullopt});
  EXPECT_EQ(fail_once({}).policy, PolicyOrigin::topic);
}

TEST_P(PolicyConformance, WhatAWorkerSaysOfItsOwnWins) {
  proves("R-31");
  set_policy("*", {.max_attempts = 1});
  enqueue(message("a"));
  const SettleOutcome first = fail_once({.delay = 1s, .limit = AttemptLimit{2}});
  EXPECT_EQ(first.policy, PolicyOrigin::worker);
  EXPECT_EQ(first.death, std::nullopt);
  EXPECT_EQ(fail_once({.limit = AttemptLimit{2}}).death, SettledDeath::attempts);
}

TEST_P(PolicyConformance, ALeastDelayGivesWayToALongerOneOfThePolicy) {
  proves("R-31");
  set_policy("*", {.delays = {10s, 60s}, .jitter = Jitter::none});
  enqueue(message("a"));
  const TimePoint begun = now();
  EXPECT_EQ(fail_once({.delay = 30s, .delay_is_least = true}).again_at, begun + 30s);
  EXPECT_EQ(fail_once({.delay = 30s, .delay_is_least = true}).again_at, begun + 90s);
}

TEST_P(PolicyConformance, NobodyBuriesByAnotherNumberThanTheTopics) {
  proves("R-31", "R-10");
  set_policy("order.created", {.max_deliveries = 3});
  set_policy("*", {.max_deliveries = 1});
  enqueue(message("a"));
  enqueue(message("b", {.topic = "other"}));
  ASSERT_EQ(claim_ids(), (Ids{"a", "b"}));
  advance(defaults::kLease);
  const std::shared_ptr<Store> another = harness().open();
  ReapResult reaped = queue_of(*another).reap();
  EXPECT_EQ(reaped.released, 1U);
  EXPECT_EQ(reaped.buried, 1U);
  EXPECT_EQ(record("a").status, Status::processing);
  EXPECT_EQ(record("b").status, Status::dead);
}

TEST_P(PolicyConformance, FailuresBeyondThePolicysAttemptsDoNotBuryAtTheFirstLapse) {
  proves("R-31", "R-10");
  set_policy("*", {.max_attempts = 2});
  enqueue(message("a"));
  for (int i = 0; i < 6; ++i) fail_once({.delay = 1s, .limit = AttemptLimit{100}});
  ASSERT_EQ(claim_ids(), Ids{"a"});
  advance(defaults::kLease);
  EXPECT_EQ(queue().reap(), ReapResult{.released = 1});
  ASSERT_EQ(claim_ids(), Ids{"a"});
  advance(defaults::kLease);
  EXPECT_EQ(queue().reap(), buried({"a"}, "lease expired 2 times"));
}

TEST_P(PolicyConformance, APauseBindsEveryHandleAndSurvivesIt) {
  proves("R-31", "R-34");
  const std::shared_ptr<Store> another = harness().open();
  enqueue(message("a"));
  enqueue(message("b", {.topic = "other"}));
  (void)queue_of(*another).claim({.owner = bob, .topics = {.only = {"none"}}});
  set_policy("order.*", {.paused = true});
  EXPECT_EQ(ids_of(queue_of(*another).claim({.owner = bob, .limit = 1}).messages), Ids{"b"});
  EXPECT_TRUE(queue_of(*another).claim({.owner = bob}).empty());
  EXPECT_TRUE(claim({.owner = alice, .topics = {.only = {"order.created"}}}).empty());
  EXPECT_TRUE(queue_of(*harness().open()).claim({.owner = bob}).empty());
  set_policy("order.*", {.paused = false});
  EXPECT_EQ(ids_of(queue_of(*another).claim({.owner = bob}).messages), Ids{"a"});
}

TEST_P(PolicyConformance, APausedQueueIsStillReaped) {
  proves("R-31", "R-23");
  enqueue(message("a"));
  ASSERT_EQ(claim_ids(), Ids{"a"});
  set_policy("*", {.max_deliveries = 1, .paused = true});
  advance(defaults::kLease);
  const ClaimResult claimed = queue().claim({.owner = bob});
  EXPECT_TRUE(claimed.empty());
  ReapResult told = claimed.reaped;
  told.add(queue().reap());
  EXPECT_EQ(told, buried({"a"}, "lease expired 1 times"));
}

TEST_P(PolicyConformance, ARevivedMessageGetsTheWholeOfItsPolicyAgain) {
  proves("R-31", "R-24");
  set_policy("*", {.max_attempts = 2, .delays = {1s}, .give_up_after = 1min});
  enqueue(message("a"));
  advance(2min);
  fail_once({});
  ASSERT_EQ(fail_once({}).death, SettledDeath::attempts);
  const std::vector<MessageKey> keys{key("a")};
  queue_operator().revive(keys);
  EXPECT_EQ(fail_once({}).death, std::nullopt);
  EXPECT_EQ(fail_once({}).death, std::nullopt) << "it is not as old as the policy asks";
  advance(2min);
  EXPECT_EQ(fail_once({}).death, SettledDeath::attempts);
}

TEST_P(PolicyConformance, ARevivedMessageGetsTheWholeOfItsPolicyAfterItsDelay) {
  proves("R-31", "R-24");
  set_policy("*",
             {.max_attempts = 1, .delays = {1s}, .jitter = Jitter::none, .give_up_after = 1min});
  enqueue(message("a"));
  queue().mark({.key = key("a"), .as = MarkAs::dead});
  const std::vector<MessageKey> keys{key("a")};
  queue_operator().revive(keys, {.delay = 4 * 24h});
  advance(4 * 24h);
  EXPECT_EQ(fail_once({}).death, std::nullopt) << "its age counts from the end of the delay";
  advance(1min - 2s);
  EXPECT_EQ(fail_once({}).death, std::nullopt);
  EXPECT_EQ(fail_once({}).death, SettledDeath::attempts);
}

TEST_P(PolicyConformance, EachOfThoseRevivedAtARateGetsTheWholeOfItsPolicy) {
  proves("R-31", "R-24");
  set_policy("*", {.max_attempts = 1, .delays = {1s}, .give_up_after = 10s});
  const std::vector<std::string> ids{"a", "b", "c"};
  for (const std::string& id : ids) {
    enqueue(message(id, {.expires_at = now() + 2min}));
    queue().mark({.key = key(id), .as = MarkAs::dead});
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    queue_operator().revive(std::vector{key(ids[i])}, {.delay = static_cast<int>(i) * 1min});
  }
  for (const std::string& id : ids) {
    const TimePoint begun = now();
    const ClaimedMessage claimed = claim_one();
    EXPECT_EQ(claimed.message.key.message_id, id);
    EXPECT_EQ(settle(claimed, Abandon{}).death, std::nullopt) << id;
    advance(1s);
    EXPECT_EQ(settle(claim_one(), Ack{}), SettleStatus::settled) << id;
    advance(begun + 1min - now());
  }
}

}  // namespace oncebox::conformance
