// What the table of keys looks like from outside, and what happens when others use it too. What the
// calls mean is shown by the conformance suite.

#include "postgresql_keys.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cutting_proxy.hpp"
#include "error_of.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;

class PostgresqlKeysTest : public ::testing::Test {
 protected:
  [[nodiscard]] IdempotencyStore& keys() { return store_.keys(); }
  [[nodiscard]] std::int64_t rows() {
    return space_.number("SELECT count(*) FROM {schema}.oncebox_key");
  }
  void advance(Duration by) { clock_.advance(by); }
  void change(const std::string& assignment) {
    space_.run("UPDATE {schema}.oncebox_key SET " + assignment);
  }

  LeaseId acquire(const char* key) { return keys().begin({.key = key}).lease_id.value(); }

  void expect_corrupt(std::string_view what, const std::function<void()>& call) {
    const Error error = error_of(call);
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << what << ": " << error.what();
  }

  /// Every call that looks at the key "a".
  void expect_every_call_corrupt() {
    const LeaseId lease_id = LeaseId::generate();
    expect_corrupt("begin", [&] { keys().begin({.key = "a"}); });
    expect_corrupt("complete", [&] { keys().complete({.key = "a"}); });
    expect_corrupt("fail", [&] { keys().fail({.key = "a", .lease_id = lease_id, .error = "x"}); });
    expect_corrupt("release", [&] { keys().release({.key = "a", .lease_id = lease_id}); });
    expect_corrupt("extend", [&] { keys().extend({.key = "a", .lease_id = lease_id}); });
    expect_corrupt("find", [&] { (void)keys().find("a"); });
  }

  TestSpace space_;
  testing::FakeClock clock_;
  PostgresqlStore store_{space_.options(), clock_};
};

TEST_F(PostgresqlKeysTest, KeyIsNeverTakenForAnotherOneWithTheSameHash) {
  acquire("a");
  change("key = 'another'");
  expect_every_call_corrupt();
  EXPECT_EQ(space_.text("SELECT key FROM {schema}.oncebox_key"), "another");
  EXPECT_EQ(space_.number("SELECT attempts FROM {schema}.oncebox_key"), 1);
}

TEST_F(PostgresqlKeysTest, BatchThatMeetsAnotherKeyChangesNothing) {
  acquire("a");
  change("key = 'another'");
  const std::vector<BeginRequest> batch{{.key = "before"}, {.key = "a"}, {.key = "after"}};
  expect_corrupt("begin", [&] { keys().begin(batch); });
  EXPECT_EQ(rows(), 1);
  EXPECT_EQ(keys().begin({.key = "before"}).status, BeginStatus::acquired) << "the store goes on";
}

TEST_F(PostgresqlKeysTest, RowThatContradictsItselfIsReported) {
  const std::string nil = "'00000000-0000-0000-0000-000000000000'";
  const LeaseId lease_id = acquire("a");
  for (const std::string& damage :
       {std::string("status = 4"), std::string("status = -1"), "status = 1, lease_id = " + nil}) {
    SCOPED_TRACE(damage);
    change(damage);
    expect_corrupt("begin", [&] { keys().begin({.key = "a"}); });
    expect_corrupt("release", [&] { keys().release({.key = "a", .lease_id = lease_id}); });
    expect_corrupt("find", [&] { (void)keys().find("a"); });
  }
}

TEST_F(PostgresqlKeysTest, NumbersOfTheStatusesAreTheSameInEveryVersion) {
  acquire("0");
  keys().release({.key = "1", .lease_id = acquire("1")});
  keys().fail({.key = "2", .lease_id = acquire("2"), .error = "no route"});
  keys().complete({.key = "3", .lease_id = acquire("3")});
  EXPECT_EQ(space_.number("SELECT count(*) FROM {schema}.oncebox_key WHERE key = status::text"), 4);
}

TEST_F(PostgresqlKeysTest, ResultIsStoredByteForByte) {
  const std::string result("\0a\0\xFF\0", 5);
  keys().complete({.key = "a", .result = result});
  EXPECT_EQ(space_.text("SELECT encode(result, 'hex') FROM {schema}.oncebox_key"), "006100ff00");
  EXPECT_EQ(keys().find("a").value().result, result);
  EXPECT_EQ(keys().begin({.key = "a"}).result, result);
}

TEST_F(PostgresqlKeysTest, ResultsThatAreTooMuchForOneStatementAreStoredTogether) {
  constexpr std::size_t kMany = 40;
  const std::string result(limits::kMaxResultBytes, 'x');
  std::vector<CompleteRequest> requests;
  for (std::size_t i = 0; i < kMany; ++i) {
    requests.push_back({.key = IdempotencyKey(std::to_string(i)), .result = result});
  }
  EXPECT_EQ(keys().complete(requests).size(), kMany);
  EXPECT_EQ(space_.number("SELECT sum(length(result)) FROM {schema}.oncebox_key"),
            static_cast<std::int64_t>(kMany * result.size()));
}

TEST_F(PostgresqlKeysTest, ServerSendsNoMoreResultsThanABeginAnswers) {
  RecordProperty("requirement", "R-38");
  constexpr std::size_t kMany = 40;
  const std::string result(limits::kMaxResultBytes, 'x');
  std::vector<BeginRequest> requests;
  for (std::size_t i = 0; i < kMany; ++i) {
    requests.push_back({.key = IdempotencyKey(std::to_string(i))});
    keys().complete({.key = requests.back().key, .result = result});
  }
  CuttingProxy proxy(testing::shared_postgresql_url());
  Options options = space_.options();
  options.connection = proxy.connection();
  PostgresqlStore store(options, clock_);
  const std::size_t before = proxy.answered_bytes();
  const std::vector<BeginOutcome> outcomes = store.keys().begin(requests);
  EXPECT_LT(proxy.answered_bytes() - before, limits::kMaxBegunResultBytes + result.size());
  EXPECT_EQ(outcomes.front().result, result);
  EXPECT_TRUE(outcomes.back().result_left_out);
}

TEST_F(PostgresqlKeysTest, ForgottenKeyIsBegunAnewInItsOldRow) {
  keys().complete({.key = "a", .result = "old", .retention = 1h});
  advance(1h);
  acquire("a");
  EXPECT_EQ(rows(), 1);
  EXPECT_EQ(space_.number("SELECT count(*) FROM {schema}.oncebox_key WHERE result IS NULL"), 1);
}

TEST_F(PostgresqlKeysTest, CleanupTakesWhatWasForgottenFirstAndWaitsForNobody) {
  keys().complete({.key = "later", .retention = 2h});
  keys().complete({.key = "first", .retention = 1h});
  keys().complete({.key = "kept", .retention = 3h});
  advance(2h);
  space_.run("BEGIN");
  space_.run("SELECT FROM {schema}.oncebox_key WHERE key = 'first' FOR UPDATE");
  EXPECT_EQ(keys().cleanup(10), 1U) << "somebody is at work on the other";
  space_.run("ROLLBACK");
  EXPECT_EQ(keys().cleanup(10), 1U);
  EXPECT_EQ(space_.text("SELECT string_agg(key, ',') FROM {schema}.oncebox_key"), "kept");
}

TEST_F(PostgresqlKeysTest, DatabasesClockDecidesWithoutAnother) {
  PostgresqlStore store(space_.options());
  const auto clock = [this] {
    return space_.run("SELECT date_trunc('milliseconds', clock_timestamp())").time(0, 0);
  };
  const TimePoint before = clock();
  store.keys().begin({.key = "single"});
  store.keys().begin(std::vector<BeginRequest>{{.key = "a"}, {.key = "b"}});
  store.keys().complete({.key = "done"});
  const TimePoint after = clock();
  for (const char* key : {"single", "a", "b", "done"}) {
    const KeyRecord record = store.keys().find(key).value();
    EXPECT_GE(record.first_seen_at, before) << key;
    EXPECT_LE(record.first_seen_at, after) << key;
    EXPECT_GT(record.keep_until, after) << key;
  }
}

TEST_F(PostgresqlKeysTest, OfManyWhoBeginTheSameKeysInOppositeOrderOneAcquiresEach) {
  RecordProperty("requirement", "KIN-03");
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kKeys = 50;
  constexpr int kRounds = 10;
  std::atomic<int> acquired = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int round = 0; round < kRounds; ++round) {
          std::vector<BeginRequest> batch;
          for (std::size_t i = 0; i < kKeys; ++i) {
            const std::size_t number = thread % 2 == 0 ? i : kKeys - 1 - i;
            const std::string key = std::to_string(round) + "/" + std::to_string(number);
            batch.push_back({.key = IdempotencyKey(key)});
          }
          try {
            for (const BeginOutcome& outcome : keys().begin(batch)) {
              if (outcome.status == BeginStatus::acquired) ++acquired;
            }
          } catch (const Error& error) {
            ADD_FAILURE() << error.what();
          }
        }
      });
    }
  }
  EXPECT_EQ(acquired, static_cast<int>(kRounds * kKeys));
}

}  // namespace
}  // namespace oncebox::postgresql
