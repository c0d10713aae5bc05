// Handlers inside transactions of a PostgreSQL store, and callers with connections of their own.

#include "oncebox/postgresql/transaction.hpp"

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "oncebox/conformance/transactional_harness.hpp"
#include "oncebox/error.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
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

class OwnConnection final : public conformance::Caller {
 public:
  OwnConnection(const TestSpace& space, const Clock& clock)
      : connection_(PQconnectdb(space.options().connection.c_str()), &PQfinish),
        joined_(connection_.get(), {.schema = space.schema(), .clock = &clock}) {
    run("SET search_path = " + space.schema());
  }
  void run(const std::string& sql) override { run_with_libpq(connection_.get(), sql); }
  PublicTransaction& joined() override { return joined_; }

 private:
  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
  JoinedTransaction joined_;
};

class PostgresqlTransactionalHarness final : public conformance::TransactionalHarness {
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
            SettleOutcome::settled);
  EXPECT_EQ(status(), Status::done);
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
  EXPECT_EQ(handle(order, [](PublicTransaction&) {}), SettleOutcome::settled)
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
  EXPECT_EQ(handle(order, [](PublicTransaction&) {}), SettleOutcome::settled);
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
            SettleOutcome::settled);
  EXPECT_EQ(store_.inbox().claim({.owner = OwnerToken::generate()}).size(), 1U);
}

}  // namespace
}  // namespace oncebox::postgresql

std::vector<oncebox::conformance::TransactionalStoreUnderTest>
oncebox::conformance::transactional_stores_under_test() {
  return {{.name = "postgresql", .make_harness = [] {
             return std::make_unique<postgresql::PostgresqlTransactionalHarness>();
           }}};
}
