// What a process knows of the rules for topics.

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "cutting_proxy.hpp"
#include "messages.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

class KnownPoliciesTest : public ::testing::Test {
 protected:
  [[nodiscard]] Options through_proxy() const {
    Options options = space_.options();
    options.connection = proxy_.connection();
    return options;
  }

  TestSpace space_;
  CuttingProxy proxy_{testing::shared_postgresql_url()};
  testing::FakeClock clock_;
  PostgresqlStore store_{through_proxy(), clock_};
};

TEST_F(KnownPoliciesTest, RulesThatHaveNotChangedAreNotSentAgain) {
  const Message stored = message("a");
  store_.inbox().enqueue(stored);
  const auto pause = [](Store& store, const TopicPattern& pattern) {
    store.policies().update(QueueKind::inbox, pattern, {.paused = true});
  };
  pause(store_, "other");
  space_.run(
      "INSERT INTO {schema}.oncebox_topic_policy (queue, pattern, is_exact, policy) "
      "SELECT queue, pattern || i, is_exact, policy "
      "FROM {schema}.oncebox_topic_policy, generate_series(2, 500) i");
  space_.run("UPDATE {schema}.oncebox_policy_version SET version = version + 1");
  const auto look = [&] {
    EXPECT_EQ(store_.inbox_operator().list({}).records.size(), 1U);
    EXPECT_EQ(store_.inbox_operator().count({}), 1U);
    EXPECT_EQ(store_.inbox_operator().stats().topics.size(), 1U);
    return store_.inbox().find(stored.key)->state;
  };
  const std::size_t at_first = proxy_.answered_bytes();
  EXPECT_EQ(look(), State::ready);
  const std::size_t with_rules = proxy_.answered_bytes() - at_first;
  EXPECT_GT(with_rules, 20'000U) << "the rules were not many";
  EXPECT_EQ(look(), State::ready);
  EXPECT_LT(proxy_.answered_bytes() - at_first - with_rules, 10'000U);

  PostgresqlStore elsewhere(space_.options(), clock_);
  pause(elsewhere, TopicPattern(stored.topic));
  EXPECT_EQ(look(), State::waiting);
}

TEST_F(KnownPoliciesTest, AFailureGoesByARuleThatAnotherProcessHasJustChanged) {
  RecordProperty("requirement", "R-31");
  store_.inbox().enqueue(message("a"));
  const auto claimed = store_.inbox().claim({.owner = OwnerToken::generate()});
  PostgresqlStore elsewhere(space_.options(), clock_);
  elsewhere.policies().update(QueueKind::inbox, TopicPattern(message("a").topic),
                              {.max_attempts = 1});
  const SettleOutcome outcome =
      store_.inbox().settle({.delivery = delivery_of(claimed.at(0)), .verdict = Abandon{}});
  EXPECT_EQ(outcome.death, SettledDeath::attempts);
}

TEST_F(KnownPoliciesTest, AVerdictFindsThePolicyInAProcessThatHasReadNone) {
  store_.inbox().enqueue(message("a"));
  const auto claimed = store_.inbox().claim({.owner = OwnerToken::generate()});
  PostgresqlStore elsewhere(space_.options(), clock_);
  EXPECT_EQ(
      elsewhere.inbox().settle({.delivery = delivery_of(claimed.at(0)), .verdict = Release{}}),
      SettleStatus::settled);
}

}  // namespace
}  // namespace oncebox::postgresql
