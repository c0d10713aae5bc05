// What a store does when its connection fails: at a known place, for ever, or not at all but too
// late.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cutting_proxy.hpp"
#include "error_of.hpp"
#include "messages.hpp"
#include "oncebox/driver/claim_offer.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/postgresql/transaction.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class PostgresqlFaultsTest : public ::testing::Test {
 protected:
  [[nodiscard]] Options options() const {
    Options options = space_.options();
    options.connection = proxy_.connection() + "application_name=" + space_.schema();
    return options;
  }

  std::vector<ClaimedMessage> claim(PostgresqlStore& store, std::size_t limit) {
    return store.inbox().claim({.owner = owner_, .limit = limit});
  }

  /// Makes a call until it gets through: on a busy machine it may take longer than it may.
  template <class Call>
  static auto repeat_until_in_time(Call call) {
    const auto give_up = steady_clock::now() + 60s;
    for (;;) {
      try {
        return call();
      } catch (const Error& error) {
        if (!error.retryable() || steady_clock::now() > give_up) throw;
      }
    }
  }

  /// A store whose calls give up soon, and that has a connection.
  std::unique_ptr<PostgresqlStore> impatient_store(const Options& options) {
    Options impatient = options;
    migrate(impatient);  // which takes longer than a call may
    impatient.call_timeout = 300ms;
    impatient.max_connections = 1;
    auto store =
        repeat_until_in_time([&] { return std::make_unique<PostgresqlStore>(impatient, clock_); });
    repeat_until_in_time([&] { return store->inbox().enqueue(message("a")); });
    return store;
  }

  /// Makes a call whose commit takes effect and whose answer is lost.
  template <class Call>
  void expect_outcome_unknown(Call call) {
    proxy_.cut_answer();
    const Error error = error_of(call);
    EXPECT_TRUE(proxy_.disarm());
    EXPECT_EQ(error.code(), ErrorCode::outcome_unknown) << error.what();
  }

  TestSpace space_;
  CuttingProxy proxy_{testing::shared_postgresql_url()};
  testing::FakeClock clock_;
  const OwnerToken owner_ = OwnerToken::generate();
};

TEST_F(PostgresqlFaultsTest, EnqueueWhoseCommitWasNotAnsweredIsADuplicateWhenRepeated) {
  RecordProperty("requirement", "IBX-102");
  PostgresqlStore store(options(), clock_);
  const std::vector<Message> batch{message("b"), message("c")};
  expect_outcome_unknown([&] { store.inbox().enqueue(message("a")); });
  expect_outcome_unknown([&] { store.inbox().enqueue(batch); });
  EXPECT_EQ(store.inbox().enqueue(message("a")).status, EnqueueStatus::duplicate);
  for (const EnqueueOutcome& outcome : store.inbox().enqueue(batch)) {
    EXPECT_EQ(outcome.status, EnqueueStatus::duplicate);
  }
  EXPECT_EQ(claim(store, 10).size(), 3U);
}

TEST_F(PostgresqlFaultsTest, SettlementWhoseCommitWasNotAnsweredHasHappenedOnce) {
  RecordProperty("requirement", "IBX-102,R-14");
  PostgresqlStore store(options(), clock_);
  store.inbox().enqueue(std::vector{message("a"), message("b"), message("c")});
  const auto claimed = claim(store, 3);
  ASSERT_EQ(claimed.size(), 3U);
  const Settlement alone{.delivery = delivery_of(claimed[0])};
  const std::vector<Settlement> batch{
      {.delivery = delivery_of(claimed[1])},
      {.delivery = delivery_of(claimed[2]), .verdict = Abandon{"later", 1s}}};
  expect_outcome_unknown([&] { store.inbox().settle(alone); });
  expect_outcome_unknown([&] { store.inbox().settle(batch); });
  EXPECT_EQ(store.inbox().settle(alone), SettleStatus::lease_lost);
  for (const SettleOutcome& outcome : store.inbox().settle(batch)) {
    EXPECT_EQ(outcome, SettleStatus::lease_lost);
  }
  EXPECT_EQ(store.inbox().find(key("a"))->status, Status::done);
  EXPECT_EQ(store.inbox().find(key("b"))->status, Status::done);
  EXPECT_EQ(store.inbox().find(key("c"))->history.attempt, 1);
}

TEST_F(PostgresqlFaultsTest, ClaimWhoseCommitWasNotAnsweredLapses) {
  RecordProperty("requirement", "IBX-102,R-23");
  PostgresqlStore store(options(), clock_);
  ASSERT_TRUE(claim(store, 1).empty());  // which reads the rules for topics, once
  store.inbox().enqueue(message("a"));
  expect_outcome_unknown([&] { claim(store, 1); });
  EXPECT_TRUE(claim(store, 1).empty());
  clock_.advance(30s);
  EXPECT_EQ(claim(store, 1).size(), 1U);
}

/// A handler in the store's transaction, which counts what it did to a message in a table, and
/// sends another message.
class PostgresqlHandlerFaultsTest : public PostgresqlFaultsTest {
 protected:
  PostgresqlHandlerFaultsTest() {
    space_.run("CREATE TABLE {schema}.effect (id text)");
    store_.inbox().enqueue(message("a"));
    claimed_ = claim(store_, 1);
  }

  SettleOutcome handle() {
    const auto work = [&](oncebox::Transaction& transaction) {
      const std::string insert = "INSERT INTO " + space_.schema() + ".effect VALUES ('a')";
      PQclear(PQexec(connection_of(transaction), insert.c_str()));
      transaction.enqueue(QueueKind::outbox, message("sent"));
    };
    return store_.inbox().transactional()->acknowledge_with(delivery_of(claimed_.at(0)), work);
  }
  void expect_effects(std::int64_t count) {
    EXPECT_EQ(space_.number("SELECT count(*) FROM {schema}.effect"), count);
    EXPECT_EQ(store_.outbox().find(key("sent")).has_value(), count > 0);
    EXPECT_EQ(store_.inbox().find(key("a"))->status, count > 0 ? Status::done : Status::processing);
  }

  PostgresqlStore store_{options(), clock_};
  std::vector<ClaimedMessage> claimed_;
};

TEST_F(PostgresqlHandlerFaultsTest, CommitThatWasNotAnsweredHasHappenedAndAReleaseChangesNothing) {
  RecordProperty("requirement", "PKT-09");
  expect_outcome_unknown([&] { (void)handle(); });
  expect_effects(1);
  const Settlement release{.delivery = delivery_of(claimed_[0]), .verdict = Release{}};
  EXPECT_EQ(store_.inbox().settle(release), SettleStatus::lease_lost);
  EXPECT_EQ(handle(), SettleStatus::lease_lost);
  expect_effects(1);
  clock_.advance(1h);
  EXPECT_TRUE(claim(store_, 1).empty());
}

TEST_F(PostgresqlHandlerFaultsTest, ConnectionThatIsCutAtAnyStepLeavesNothingAndTheNextOneAllOfIt) {
  RecordProperty("requirement", "PKT-09");
  int step = 0;
  for (;; ++step) {
    proxy_.cut_before(step);
    std::optional<ErrorCode> code;
    try {
      EXPECT_EQ(handle(), SettleStatus::settled);
    } catch (const Error& error) {
      code = error.code();
    }
    if (!proxy_.disarm()) break;
    EXPECT_TRUE(code == ErrorCode::unavailable || code == ErrorCode::outcome_unknown)
        << "at step " << step;
    expect_effects(0);
  }
  EXPECT_GE(step, 5) << "begin, enqueue, write, acknowledge, commit";
  expect_effects(1);
}

class UnansweredOffer final : public ClaimOffer {
 public:
  using ClaimOffer::ClaimOffer;

 private:
  void on_answer(std::vector<ClaimedMessage> /*claimed*/) noexcept override {
    ADD_FAILURE() << "nobody knows whether it was stored";
  }
};

TEST_F(PostgresqlFaultsTest, HandingOverWhoseCommitWasNotAnsweredAnswersNoOfferAndLapses) {
  RecordProperty("requirement", "IBX-102,R-23");
  PostgresqlStore store(options(), clock_);
  const std::vector<Message> batch{message("b"), message("c")};
  ASSERT_TRUE(claim(store, 10).empty()) << "offers are made after a claim that found nothing";
  const auto offer = std::make_shared<UnansweredOffer>(ClaimRequest{.owner = owner_});
  store.inbox().offer(offer);
  expect_outcome_unknown([&] { store.inbox().enqueue(message("a")); });
  expect_outcome_unknown([&] { store.inbox().enqueue(batch); });
  EXPECT_EQ(store.inbox().enqueue(message("a")).status, EnqueueStatus::duplicate);
  for (const EnqueueOutcome& outcome : store.inbox().enqueue(batch)) {
    EXPECT_EQ(outcome.status, EnqueueStatus::duplicate);
  }
  EXPECT_TRUE(offer->withdraw()) << "it was given back";
  EXPECT_TRUE(claim(store, 10).empty());
  clock_.advance(30s);
  EXPECT_EQ(claim(store, 10).size(), 3U);
}

TEST_F(PostgresqlFaultsTest, KeysWhoseCommitWasNotAnsweredAreAsTheyWereMade) {
  RecordProperty("requirement", "IBX-102,KIN-03,KIN-04");
  PostgresqlStore store(options(), clock_);
  IdempotencyStore& keys = store.keys();
  const std::vector<BeginRequest> batch{{.key = "b"}, {.key = "c"}};
  (void)keys.find("a");  // connects
  expect_outcome_unknown([&] { keys.begin({.key = "a"}); });
  expect_outcome_unknown([&] { keys.begin(batch); });
  EXPECT_EQ(keys.begin({.key = "a"}).status, BeginStatus::busy);
  EXPECT_EQ(keys.begin(batch).at(1).status, BeginStatus::busy);
  clock_.advance(60s);
  const LeaseId a = keys.begin({.key = "a"}).lease_id.value();
  const LeaseId b = keys.begin({.key = "b"}).lease_id.value();
  const std::vector<CompleteRequest> done{{.key = "b", .lease_id = b, .result = "2"}, {.key = "c"}};
  expect_outcome_unknown([&] { keys.complete({.key = "a", .lease_id = a, .result = "1"}); });
  expect_outcome_unknown([&] { keys.complete(done); });
  EXPECT_EQ(keys.complete({.key = "a", .lease_id = a, .result = "1"}), CompleteOutcome::processed);
  for (const CompleteOutcome outcome : keys.complete(done)) {
    EXPECT_EQ(outcome, CompleteOutcome::processed);
  }
  EXPECT_EQ(keys.find("a")->result, "1");
  EXPECT_EQ(keys.find("b")->result, "2");
}

TEST_F(PostgresqlFaultsTest, ReadWhoseAnswerIsLostIsUnavailable) {
  PostgresqlStore store(options(), clock_);
  proxy_.cut_answer();
  EXPECT_EQ(error_of([&] { (void)store.inbox().find(key("a")); }).code(), ErrorCode::unavailable);
  EXPECT_TRUE(proxy_.disarm());
}

TEST_F(PostgresqlFaultsTest, ConnectionsThatWereCutWhileIdleAreReplacedUnnoticed) {
  PostgresqlStore store(options(), clock_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(store.inbox().enqueue(message(std::to_string(i))).status, EnqueueStatus::accepted);
    proxy_.cut_all();
  }
  const Health health = store.health();
  EXPECT_EQ(health.status, HealthStatus::healthy) << health.detail;
}

TEST_F(PostgresqlFaultsTest, BackendsThatAreTerminatedAreReplaced) {
  PostgresqlStore store(options(), clock_);
  store.inbox().enqueue(message("a"));
  const std::string ours = "FROM pg_stat_activity WHERE application_name = '{schema}'";
  EXPECT_GE(space_.number("SELECT count(pg_terminate_backend(pid)) " + ours), 1);
  while (space_.number("SELECT count(*) " + ours) > 0) std::this_thread::yield();
  while (proxy_.connections() > 0) std::this_thread::yield();
  EXPECT_EQ(store.inbox().enqueue(message("a")).status, EnqueueStatus::duplicate);
}

// Nothing in the store counts on its own time: what is measured here is that it gives up at all.
TEST_F(PostgresqlFaultsTest, CallDoesNotWaitLongerThanItMay) {
  const auto store = impatient_store(options());
  proxy_.freeze();
  const auto measure = [&](auto call) {
    const auto began = steady_clock::now();
    const ErrorCode code = error_of(call).code();
    EXPECT_LT(steady_clock::now() - began, 60s);
    return code;
  };
  EXPECT_EQ(measure([&] { (void)store->inbox().find(key("a")); }), ErrorCode::timeout);
  // Now it has to connect anew, for which libpq takes two seconds.
  const ErrorCode code = measure([&] { store->inbox().enqueue(message("b")); });
  EXPECT_TRUE(code == ErrorCode::unavailable || code == ErrorCode::timeout) << to_string(code);
  EXPECT_EQ(store->health().status, HealthStatus::unavailable);
  EXPECT_EQ(space_.number("SELECT count(*) FROM {schema}.oncebox_inbox_message"), 1);
  proxy_.thaw();
  repeat_until_in_time([&] { return store->inbox().enqueue(message("b")); });
  EXPECT_TRUE(repeat_until_in_time([&] { return store->inbox().find(key("b")); }));
}

TEST_F(PostgresqlFaultsTest, CommitThatIsNotAnsweredInTimeIsUnknown) {
  RecordProperty("requirement", "IBX-102");
  const auto store = impatient_store(options());
  // On a busy machine the time may be over before it is sent.
  ErrorCode code = ErrorCode::timeout;
  for (int n = 0; code == ErrorCode::timeout && n < 100; ++n) {
    repeat_until_in_time([&] { return store->inbox().find(key("a")); });
    proxy_.freeze();
    code = error_of([&] { store->inbox().enqueue(message("b")); }).code();
    proxy_.thaw();
  }
  EXPECT_EQ(code, ErrorCode::outcome_unknown);
}

TEST_F(PostgresqlFaultsTest, LateAnswersAreWaitedFor) {
  PostgresqlStore store(options(), clock_);
  proxy_.delay_answers(20ms);
  EXPECT_EQ(store.inbox().enqueue(message("a")).status, EnqueueStatus::accepted);
  EXPECT_EQ(claim(store, 1).size(), 1U);
}

TEST_F(PostgresqlFaultsTest, CallThatWaitsForALockGivesUpInTime) {
  const auto store = impatient_store(space_.options());
  IdempotencyStore& keys = store->keys();
  repeat_until_in_time([&] { return keys.begin({.key = "a"}); });
  space_.run("BEGIN");
  space_.run("SELECT FROM {schema}.oncebox_key FOR UPDATE");
  const ErrorCode code = error_of([&] { keys.complete({.key = "a"}); }).code();
  EXPECT_TRUE(code == ErrorCode::timeout || code == ErrorCode::outcome_unknown) << to_string(code);
  space_.run("ROLLBACK");
  EXPECT_EQ(repeat_until_in_time([&] { return keys.complete({.key = "a"}); }),
            CompleteOutcome::processed);
}

}  // namespace
}  // namespace oncebox::postgresql
