// Handlers inside transactions of a PostgreSQL store, and callers with connections of their own.

#include "oncebox/postgresql/transaction.hpp"

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "connection_pool.hpp"
#include "cutting_proxy.hpp"
#include "error_of.hpp"
#include "handler_transaction.hpp"
#include "oncebox/conformance/transactional_harness.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/error.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;
using PublicTransaction = oncebox::Transaction;

/// What a handler does who uses libpq directly.
std::string run_with_libpq(PGconn* connection, const std::string& sql) {
  const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(connection, sql.c_str()),
                                                             &PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  if (status == PGRES_TUPLES_OK && PQntuples(result.get()) > 0) {
    return PQgetvalue(result.get(), 0, 0);
  }
  if (status != PGRES_COMMAND_OK) throw std::runtime_error(PQerrorMessage(connection));
  return {};
}

class OwnConnection final : public conformance::SqlCaller {
 public:
  OwnConnection(const TestSpace& space, const Clock& clock)
      : OwnConnection(space, JoinOptions{.clock = &clock}) {}
  OwnConnection(const TestSpace& space, JoinOptions options)
      : OwnConnection(space, space.options().connection, std::move(options)) {}
  OwnConnection(const TestSpace& space, const std::string& server, JoinOptions options)
      : connection_(PQconnectdb(server.c_str()), &PQfinish),
        joined_(connection_.get(), in_schema(space, std::move(options))) {
    run("SET search_path = " + space.schema());
  }
  void run(const std::string& sql) override { run_with_libpq(connection_.get(), sql); }
  std::string text(const std::string& sql) { return run_with_libpq(connection_.get(), sql); }
  PublicTransaction& joined() override { return joined_; }
  [[nodiscard]] PGconn* handle() const { return connection_.get(); }

 private:
  static JoinOptions in_schema(const TestSpace& space, JoinOptions options) {
    options.schema = space.schema();
    return options;
  }

  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
  JoinedTransaction joined_;
};

class PostgresqlTransactionalHarness final : public conformance::SqlTransactionalHarness {
 public:
  PostgresqlTransactionalHarness() {
    space_.run("CREATE TABLE {schema}.effect (name text PRIMARY KEY, times integer)");
  }
  Store& store() override { return store_; }
  void advance(Duration by) override { clock_.advance(by); }
  void run(PublicTransaction& transaction, const std::string& sql) override {
    PGconn* const connection = connection_of(transaction);
    run_with_libpq(connection, "SET LOCAL search_path = " + space_.schema());
    run_with_libpq(connection, sql);
  }
  std::int64_t number(const std::string& sql) override {
    space_.run("SET search_path = {schema}");
    return space_.number(sql);
  }
  std::unique_ptr<conformance::Caller> caller() override {
    return std::make_unique<OwnConnection>(space_, clock_);
  }

 private:
  TestSpace space_;
  testing::FakeClock clock_;
  PostgresqlStore store_{space_.options(), clock_};
};

class PostgresqlTransactionTest : public ::testing::Test {
 protected:
  ClaimedMessage claimed() {
    store_.inbox().enqueue(Message{.key = {"shop", "order"}, .topic = "order.paid"});
    return store_.inbox().claim({.owner = OwnerToken::generate()}).at(0);
  }
  SettleOutcome handle(const ClaimedMessage& message, const TransactionalQueue::Work& work) {
    return store_.inbox().transactional()->acknowledge_with(delivery_of(message), work);
  }
  [[nodiscard]] Status status() {
    return store_.inbox().find(MessageKey{"shop", "order"}).value().status;
  }
  [[nodiscard]] static Message in_partition(const std::string& id) {
    return {.key = {"shop", id}, .topic = "t", .partition_key = "ann"};
  }
  /// Handles what there is until the order is done or dead.
  void run_until_settled(const Handlers& handlers, const DispatcherOptions& options) {
    Dispatcher dispatcher(store_.inbox(), handlers, options);
    dispatcher.start();
    const Deadline give_up = deadline_in(60s);
    while (status() == Status::processing && time_left(give_up) > 0ms) {
      std::this_thread::yield();
    }
    dispatcher.stop();
  }
  /// A table in which a number stands once, as the server finds out at the commit.
  void make_tickets() {
    space_.run("CREATE TABLE {schema}.ticket (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    space_.run("INSERT INTO {schema}.ticket VALUES (1)");
  }
  [[nodiscard]] std::string take_ticket() const {
    return "INSERT INTO " + space_.schema() + ".ticket VALUES (1)";
  }

  TestSpace space_;
  PostgresqlStore store_{space_.options()};
};

TEST_F(PostgresqlTransactionTest, AHandlerHasThePlannersOwnSettingsAndLeavesOurs) {
  const auto setting = [](PGconn* connection) {
    return run_with_libpq(connection,
                          "SELECT current_setting('enable_seqscan') || "
                          "current_setting('plan_cache_mode')");
  };
  EXPECT_EQ(handle(claimed(),
                   [&](PublicTransaction& transaction) {
                     EXPECT_EQ(setting(connection_of(transaction)), "onauto");
                     transaction.enqueue(QueueKind::outbox,
                                         Message{.key = {"shop", "1"}, .topic = "t"});
                     EXPECT_EQ(setting(connection_of(transaction)), "onauto");
                   }),
            SettleStatus::settled);
  EXPECT_EQ(status(), Status::done);
}

TEST_F(PostgresqlTransactionTest, AFilterIsJudgedWhenTheRowsAreLocked) {
  RecordProperty("requirement", "R-30");
  QueueOperator& queue = store_.inbox_operator();
  const MessageKey key{"shop", "order"};
  /// How many `change` changes while another's enqueue, which it does not see, holds the row.
  const auto changed_during_enqueue = [&](const auto& change) {
    OwnConnection other(space_, JoinOptions{});
    other.run("BEGIN");
    other.joined().enqueue(QueueKind::inbox, Message{.key = key, .topic = "order.moved"});
    std::size_t changed = 0;
    {
      const std::jthread call([&] { changed = change(); });
      space_.wait_until_somebody_waits_for_a_lock();
      other.run("COMMIT");
    }
    return changed;
  };
  store_.inbox().observe(Observation{.key = key});
  EXPECT_EQ(changed_during_enqueue(
                [&] { return queue.act_matching({.states = {State::seen}}, Delete{}, 10); }),
            0U);
  EXPECT_EQ(store_.inbox().find(key).value().state, State::ready) << "it was accepted";

  store_.inbox().enqueue(Message{.key = key, .topic = "order.paid"});
  store_.inbox().mark(Mark{.key = key, .as = MarkAs::dead});
  EXPECT_EQ(changed_during_enqueue(
                [&] { return queue.revive_matching({.topic = "order.paid"}, {}, 10); }),
            0U);
  EXPECT_EQ(status(), Status::dead);
  EXPECT_EQ(queue.revive_matching({.topic = "order.moved"}, {}, 10), 1U);
}

TEST_F(PostgresqlTransactionTest, AHandlerThatEndsTheTransactionIsFoundOut) {
  const ClaimedMessage order = claimed();
  const auto commits = [](PublicTransaction& transaction) {
    run_with_libpq(connection_of(transaction), "COMMIT");
  };
  try {
    (void)handle(order, commits);
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::conflict);
  }
  EXPECT_EQ(status(), Status::processing);
  EXPECT_EQ(handle(order, [](PublicTransaction&) {}), SettleStatus::settled)
      << "the store must go on with another connection";
}

TEST_F(PostgresqlTransactionTest, AStatementThatFailedAndWasPassedOverTakesEverythingBack) {
  const ClaimedMessage order = claimed();
  EXPECT_THROW((void)handle(order,
                            [](PublicTransaction& transaction) {
                              EXPECT_THROW(
                                  run_with_libpq(connection_of(transaction), "SELECT nonsense"),
                                  std::runtime_error);
                            }),
               Error);
  EXPECT_EQ(status(), Status::processing);
}

TEST_F(PostgresqlTransactionTest, AConnectionLostInAHandlerIsNoVerdict) {
  const ClaimedMessage order = claimed();
  EXPECT_THROW((void)handle(order,
                            [&](PublicTransaction& transaction) {
                              PGconn* const connection = connection_of(transaction);
                              const int process = PQbackendPID(connection);
                              space_.run("SELECT pg_terminate_backend(" + std::to_string(process) +
                                         ", 10000)");
                            }),
               Error);
  EXPECT_EQ(status(), Status::processing);
  EXPECT_EQ(handle(order, [](PublicTransaction&) {}), SettleStatus::settled);
}

TEST_F(PostgresqlTransactionTest, WhatIsCommittedLateIsClaimedAtOnce) {
  // Claims have come further than to the moment at which it was enqueued.
  const ClaimedMessage order = claimed();
  EXPECT_EQ(handle(order,
                   [&](PublicTransaction& transaction) {
                     transaction.enqueue(QueueKind::inbox,
                                         Message{.key = {"shop", "late"}, .topic = "t"});
                     run_with_libpq(connection_of(transaction), "SELECT pg_sleep(1.2)::text");
                     const OwnerToken owner = OwnerToken::generate();
                     for (const char* id : {"1", "2", "3"}) {
                       store_.inbox().enqueue(Message{.key = {"shop", id}, .topic = "t"});
                       EXPECT_EQ(store_.inbox().claim({.owner = owner}).size(), 1U);
                     }
                   }),
            SettleStatus::settled);
  EXPECT_EQ(store_.inbox().claim({.owner = OwnerToken::generate()}).size(), 1U);
}

TEST_F(PostgresqlTransactionTest, AHandlerThatBeginsAnotherTransactionIsFoundOut) {
  const ClaimedMessage order = claimed();
  for (const char* const change :
       {"COMMIT; BEGIN", "COMMIT AND CHAIN", "ROLLBACK; BEGIN", "ROLLBACK AND CHAIN"}) {
    const Error error = error_of([&] {
      (void)handle(order, [&](PublicTransaction& transaction) {
        run_with_libpq(connection_of(transaction), change);
      });
    });
    EXPECT_EQ(error.code(), ErrorCode::conflict) << change << ": " << error.what();
    EXPECT_EQ(status(), Status::processing) << change;
  }
  const auto uses_a_savepoint = [](PublicTransaction& transaction) {
    PGconn* const connection = connection_of(transaction);
    run_with_libpq(connection, "SAVEPOINT mine; SELECT 1; ROLLBACK TO mine; RELEASE mine");
  };
  EXPECT_EQ(handle(order, uses_a_savepoint), SettleStatus::settled);
}

TEST_F(PostgresqlTransactionTest, WhereAPoolerMayStandBetweenItIsFoundOutAsWell) {
  const ClaimedMessage order = claimed();
  Options pooled = space_.options();
  pooled.pooling = Pooling::transaction;
  PostgresqlStore store(pooled);
  const auto handle_with = [&](const std::string& sql) {
    return store.inbox().transactional()->acknowledge_with(
        delivery_of(order),
        [&](PublicTransaction& transaction) { run_with_libpq(connection_of(transaction), sql); });
  };
  EXPECT_EQ(error_of([&] { (void)handle_with("COMMIT; BEGIN"); }).code(), ErrorCode::conflict);
  EXPECT_EQ(handle_with("SELECT 1"), SettleStatus::settled);
}

TEST_F(PostgresqlTransactionTest, WhatAHandlerIsToldAndPassesOverIsSaidAgain) {
  const ClaimedMessage order = claimed();
  const auto enqueue_anyway = [](PublicTransaction& transaction) {
    EXPECT_THROW(
        transaction.enqueue(QueueKind::outbox, Message{.key = {"shop", "1"}, .topic = "t"}), Error);
  };
  const Error ended = error_of([&] {
    (void)handle(order, [&](PublicTransaction& transaction) {
      run_with_libpq(connection_of(transaction), "COMMIT");
      enqueue_anyway(transaction);
      enqueue_anyway(transaction);
    });
  });
  EXPECT_EQ(ended.code(), ErrorCode::conflict) << ended.what();
  const Error lost = error_of([&] {
    (void)handle(order, [&](PublicTransaction& transaction) {
      const int process = PQbackendPID(connection_of(transaction));
      space_.run("SELECT pg_terminate_backend(" + std::to_string(process) + ", 10000)");
      enqueue_anyway(transaction);
    });
  });
  EXPECT_EQ(lost.code(), ErrorCode::unavailable) << lost.what();
  EXPECT_EQ(status(), Status::processing);
  EXPECT_EQ(handle(order, [](PublicTransaction&) {}), SettleStatus::settled);
}

TEST_F(PostgresqlTransactionTest, WhatIsRefusedAtTheCommitIsAFailureOfTheHandler) {
  RecordProperty("requirement", "PKT-09");
  make_tickets();
  const ClaimedMessage order = claimed();
  int runs = 0;
  const Error error = error_of([&] {
    (void)handle(order, [&](PublicTransaction& transaction) {
      ++runs;
      run_with_libpq(connection_of(transaction), take_ticket());
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::conflict) << error.what();
  EXPECT_EQ(runs, 1) << "it would be refused each time";
  EXPECT_EQ(status(), Status::processing);
  EXPECT_EQ(handle(order, [](PublicTransaction&) {}), SettleStatus::settled);
}

TEST_F(PostgresqlTransactionTest, AMessageThatIsRefusedAtEachCommitEndsDead) {
  RecordProperty("requirement", "R-11");
  make_tickets();
  store_.inbox().enqueue(Message{.key = {"shop", "order"}, .topic = "order.paid"});
  std::atomic<int> runs = 0;
  Handlers handlers;
  handlers.on("order.paid",
              [&](const ClaimedMessage&, PublicTransaction& transaction, HandlerContext&) {
                ++runs;
                run_with_libpq(connection_of(transaction), take_ticket());
              });
  const RetryPolicy twice{.backoff = FixedDelay{1ms}, .max_attempts = 2};
  run_until_settled(handlers, {.workers = 1, .retries = RetryPolicies(twice)});
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(status(), Status::dead);
}

TEST_F(PostgresqlTransactionTest, AStoreThatCannotCommitIsNotAskedAgainAtOnce) {
  space_.run("CREATE TABLE {schema}.thing (id integer)");
  space_.run(
      "CREATE FUNCTION {schema}.fail() RETURNS trigger LANGUAGE plpgsql AS "
      "$$BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END$$");
  space_.run(
      "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON {schema}.thing "
      "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.fail()");
  store_.inbox().enqueue(Message{.key = {"shop", "order"}, .topic = "order.paid"});
  std::vector<std::chrono::steady_clock::time_point> runs;
  Handlers handlers;
  handlers.on("order.paid",
              [&](const ClaimedMessage& claimed, PublicTransaction& transaction, HandlerContext&) {
                EXPECT_EQ(claimed.history.attempt, 0);
                runs.push_back(std::chrono::steady_clock::now());
                if (runs.size() == 3) return;
                run_with_libpq(connection_of(transaction),
                               "INSERT INTO " + space_.schema() + ".thing VALUES (1)");
              });
  run_until_settled(handlers, {.workers = 1});
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_GE(runs[1] - runs[0], 100ms);
  EXPECT_GE(runs[2] - runs[1], 100ms);
  EXPECT_EQ(status(), Status::done);
}

TEST_F(PostgresqlTransactionTest, ACommitInDoubtIsNoticedWhoeverListensToNotices) {
  // What the server says when the wait for its standby was cancelled.
  space_.run(
      "CREATE FUNCTION {schema}.warn() RETURNS trigger LANGUAGE plpgsql AS "
      "$$BEGIN RAISE WARNING 'not replicated' USING ERRCODE = '01000'; RETURN NULL; END$$");
  space_.run("CREATE TABLE {schema}.thing (id integer)");
  space_.run(
      "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON {schema}.thing "
      "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.warn()");
  const Error error = error_of([&] {
    (void)handle(claimed(), [&](PublicTransaction& transaction) {
      PGconn* const connection = connection_of(transaction);
      PQsetNoticeReceiver(connection, [](void*, const PGresult*) {}, nullptr);
      run_with_libpq(connection, "INSERT INTO " + space_.schema() + ".thing VALUES (1)");
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::outcome_unknown) << error.what();
}

TEST_F(PostgresqlTransactionTest, AHandlerThatFailsLateIsRolledBackOnItsConnection) {
  CuttingProxy proxy(testing::shared_postgresql_url());
  proxy.delay_answers(20ms);
  Options impatient = space_.options();
  impatient.connection = proxy.connection();
  impatient.call_timeout = 500ms;
  // A server that stands still for so long loses its connection, too. It does not each time.
  bool was_kept = false;
  for (int attempt = 0; attempt < 20 && !was_kept; ++attempt) {
    ConnectionPool pool(impatient);
    const ConnectionPool::Lease lease = pool.acquire(deadline_in(60s));
    try {
      HandlerTransaction transaction(*lease, pool, {});
      transaction.run([&](PublicTransaction&) {
        const auto end = pool.deadline();
        while (time_left(end) > 0ms) std::this_thread::yield();
        throw std::runtime_error("late");
      });
    } catch (const std::exception&) {
      // What counts is what it left.
    }
    was_kept = lease->is_idle() && !lease->is_broken();
  }
  EXPECT_TRUE(was_kept);
}

TEST_F(PostgresqlTransactionTest, AConnectionIsAsItWasAfterARefusal) {
  RecordProperty("requirement", "PKT-09");
  OwnConnection caller(space_, JoinOptions{});
  caller.run("BEGIN READ ONLY");
  EXPECT_EQ(error_of([&] {
              caller.joined().enqueue(QueueKind::outbox,
                                      Message{.key = {"shop", "1"}, .topic = "t"});
            }).code(),
            ErrorCode::unavailable);
  EXPECT_EQ(PQisnonblocking(caller.handle()), 0);
  caller.run("ROLLBACK");
  EXPECT_EQ(caller.text("SELECT 1"), "1");
}

TEST_F(PostgresqlTransactionTest, ACallerWhoWaitsTooLongForAnotherGoesOnWithHisConnection) {
  RecordProperty("requirement", "PKT-09");
  OwnConnection first(space_, JoinOptions{});
  first.run("BEGIN");
  first.joined().enqueue(QueueKind::outbox, in_partition("1"));
  OwnConnection second(space_, JoinOptions{.call_timeout = 300ms});
  second.run("BEGIN");
  const Error error =
      error_of([&] { second.joined().enqueue(QueueKind::outbox, in_partition("2")); });
  EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
  second.run("ROLLBACK");
  first.run("COMMIT");
  OwnConnection patient(space_, JoinOptions{.call_timeout = 60s});
  patient.run("BEGIN");
  patient.joined().enqueue(QueueKind::outbox, in_partition("2"));
  patient.run("COMMIT");
  EXPECT_EQ(second.text("SELECT 1"), "1");
}

TEST_F(PostgresqlTransactionTest, ACallersOwnTimeLimitStaysAndCounts) {
  OwnConnection first(space_, JoinOptions{});
  first.run("BEGIN");
  first.joined().enqueue(QueueKind::outbox, in_partition("1"));
  OwnConnection caller(space_, JoinOptions{});
  for (const char* const limit : {"0", "47s", "2d"}) {
    caller.run("BEGIN");
    caller.run("SET LOCAL statement_timeout = '" + std::string(limit) + "'");
    caller.joined().enqueue(QueueKind::outbox, Message{.key = {"shop", limit}, .topic = "t"});
    EXPECT_EQ(caller.text("SHOW statement_timeout"), limit);
    caller.run("COMMIT");
    EXPECT_EQ(caller.text("SHOW statement_timeout"), "0");
  }
  caller.run("BEGIN");
  caller.run("SET LOCAL statement_timeout = '250ms'");
  EXPECT_EQ(error_of([&] { caller.joined().enqueue(QueueKind::outbox, in_partition("2")); }).code(),
            ErrorCode::timeout);
  caller.run("ROLLBACK");
  first.run("ROLLBACK");
}

TEST_F(PostgresqlTransactionTest, AServerThatIsSilentIsGivenUpAndTheConnectionCanBeReset) {
  CuttingProxy proxy(testing::shared_postgresql_url());
  OwnConnection caller(space_, proxy.connection(), JoinOptions{});
  caller.run("BEGIN");
  {
    Connection joined(caller.handle());
    proxy.freeze();
    const Error error = error_of([&] {
      (void)joined.run({"", "SELECT 1"}, Parameters(), Exchange::changes_nothing, deadline_in(-1h));
    });
    EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
  }
  proxy.thaw();
  PQreset(caller.handle());
  EXPECT_EQ(caller.text("SELECT 1"), "1");
}

TEST_F(PostgresqlTransactionTest, APartitionIsNotJoinedFromAnOlderSnapshot) {
  RecordProperty("requirement", "R-29,PKT-09");
  OwnConnection caller(space_, JoinOptions{});
  for (const std::string level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    caller.run("BEGIN ISOLATION LEVEL " + level);
    caller.run("SELECT 1");  // takes the snapshot
    store_.inbox().enqueue(in_partition("before " + level));
    const Error error = error_of(
        [&] { caller.joined().enqueue(QueueKind::inbox, in_partition("after " + level)); });
    EXPECT_EQ(error.code(), ErrorCode::conflict) << error.what();
    // Nothing was done, and what has no partition is not refused.
    caller.joined().enqueue(QueueKind::inbox, Message{.key = {"shop", level}, .topic = "t"});
    caller.run("COMMIT");
    EXPECT_FALSE(store_.inbox().find(MessageKey{"shop", "after " + level}));
    EXPECT_TRUE(store_.inbox().find(MessageKey{"shop", level}));
  }
  for (const std::string level : {"READ COMMITTED", "READ UNCOMMITTED"}) {
    caller.run("BEGIN ISOLATION LEVEL " + level);
    caller.joined().enqueue(QueueKind::inbox, in_partition("after " + level));
    caller.run("COMMIT");
    EXPECT_TRUE(store_.inbox().find(MessageKey{"shop", "after " + level}));
  }
}

TEST_F(PostgresqlTransactionTest, AKnownMessageOfAPartitionIsNotJoinedFromAnOlderSnapshotEither) {
  RecordProperty("requirement", "R-29");
  store_.inbox().enqueue(in_partition("known"));
  OwnConnection caller(space_, JoinOptions{});
  caller.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
  const std::vector<Message> batch{{.key = {"shop", "new"}, .topic = "t"},
                                   {.key = {"shop", "known"}, .topic = "t", .payload = "other"}};
  const Error error = error_of([&] { caller.joined().enqueue(QueueKind::inbox, batch); });
  EXPECT_EQ(error.code(), ErrorCode::conflict) << error.what();
  caller.run("COMMIT");
  EXPECT_FALSE(store_.inbox().find(MessageKey{"shop", "new"})) << "all of it or nothing";
}

TEST_F(PostgresqlTransactionTest, ACallerMaySendWhatHisStoreMayKeep) {
  OwnConnection usual(space_, JoinOptions{});
  OwnConnection strict(space_, JoinOptions{.max_payload_bytes = 4});
  OwnConnection generous(space_, JoinOptions{.max_payload_bytes = std::size_t{17} << 20});
  const auto send = [](OwnConnection& caller, const std::string& id, std::size_t bytes) {
    caller.run("BEGIN");
    caller.joined().enqueue(
        QueueKind::outbox,
        Message{.key = {"shop", id}, .topic = "t", .payload = std::string(bytes, 'x')});
    caller.run("COMMIT");
  };
  const std::size_t large = (std::size_t{16} << 20) + 1;
  EXPECT_EQ(error_of([&] { send(usual, "1", large); }).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([&] { send(strict, "2", 5); }).code(), ErrorCode::invalid_argument);
  send(generous, "3", large);
  EXPECT_TRUE(store_.outbox().find(MessageKey{"shop", "3"}));
}

TEST_F(PostgresqlTransactionTest, CallersOfOnePartitionAreHandledInTheOrderOfTheirCommits) {
  RecordProperty("requirement", "R-29,PKT-09");
  constexpr int kCallers = 4;
  constexpr int kTransactions = 25;
  space_.run("CREATE TABLE {schema}.ledger (place bigserial, id text)");
  const auto call = [this](int number) {
    OwnConnection caller(space_, JoinOptions{.call_timeout = 300s});
    for (int i = 0; i < kTransactions; ++i) {
      const std::string id = std::to_string(number) + "-" + std::to_string(i);
      caller.run("BEGIN");
      caller.joined().enqueue(QueueKind::inbox, in_partition(id));
      // The others wait until we have ended.
      caller.run("INSERT INTO ledger (id) VALUES ('" + id + "')");
      caller.run(i % 5 == 4 ? "ROLLBACK" : "COMMIT");
    }
  };
  std::vector<std::jthread> callers;
  callers.reserve(kCallers);
  for (int number = 0; number < kCallers; ++number) callers.emplace_back(call, number);

  const OwnerToken owner = OwnerToken::generate();
  std::vector<std::string> handled;
  while (handled.size() < kCallers * kTransactions / 5 * 4) {
    const std::vector<ClaimedMessage> messages = store_.inbox().claim({.owner = owner});
    ASSERT_LE(messages.size(), 1U) << "two of one partition at a time";
    if (messages.empty()) {
      std::this_thread::yield();
      continue;
    }
    handled.push_back(messages.front().message.key.message_id.str());
    EXPECT_EQ(store_.inbox().settle({.delivery = delivery_of(messages.front())}),
              SettleStatus::settled);
  }
  callers.clear();
  EXPECT_TRUE(store_.inbox().claim({.owner = owner}).empty());
  const std::string order =
      space_.text("SELECT string_agg(id, ' ' ORDER BY place) FROM {schema}.ledger");
  std::string handled_order;
  for (const std::string& id : handled) handled_order += (handled_order.empty() ? "" : " ") + id;
  EXPECT_EQ(handled_order, order);
}

}  // namespace
}  // namespace oncebox::postgresql

std::vector<oncebox::conformance::TransactionalStoreUnderTest>
oncebox::conformance::transactional_stores_under_test() {
  return {{.name = "postgresql", .make_harness = [] {
             return std::make_unique<postgresql::PostgresqlTransactionalHarness>();
           }}};
}
