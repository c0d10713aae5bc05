// What ends a call on PostgreSQL at its limit: the server gives up its statement, or the call
// leaves a server that does not answer.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "connection.hpp"
#include "connection_pool.hpp"
#include "cutting_proxy.hpp"
#include "error_of.hpp"
#include "messages.hpp"
#include "oncebox/driver/call_scope.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;

class PostgresqlLimits : public ::testing::Test {
 protected:
  /// One connection, which pg_stat_activity shows under the name of the space.
  [[nodiscard]] Options options(const std::string& connection) const {
    Options options = space_.options();
    options.connection = connection + "application_name=" + space_.schema();
    options.max_connections = 1;
    options.call_timeout = 60s;
    return options;
  }
  [[nodiscard]] Options direct() const {
    const std::string url = space_.options().connection;
    return options(url + (url.find('?') == std::string::npos ? "?" : "&"));
  }
  [[nodiscard]] Options through_proxy() const { return options(proxy_.connection()); }

  [[nodiscard]] std::int64_t backend() {
    return space_.number(
        "SELECT coalesce(min(pid), 0) FROM pg_stat_activity WHERE application_name = '{schema}'");
  }
  [[nodiscard]] std::int64_t statements_under_way() {
    return space_.number(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE application_name = '{schema}' AND state = 'active'");
  }
  void wait_until_a_statement_waits() {
    while (space_.number("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                         "application_name = '{schema}'") == 0) {
      std::this_thread::yield();
    }
  }

  // On a session of its own: in a transaction pg_stat_activity stands still.
  void lock(const std::string& statement) {
    locker_.emplace(space_.options());
    run_as_locker("BEGIN");
    run_as_locker(fmt::format(fmt::runtime(statement), fmt::arg("schema", space_.schema())));
  }
  void lock_table(const std::string& name) {
    lock("LOCK TABLE {schema}." + name + " IN ACCESS EXCLUSIVE MODE");
  }
  void unlock() { locker_.reset(); }
  void run_as_locker(const std::string& sql) {
    locker_->run_text(sql, Exchange::changes_nothing, deadline_in(60s));
  }

  /// Tries messages "0", "1" … until the server has answered in time, which on a busy machine may
  /// take it longer than it has. Until then the outcome is unknown.
  template <class Try>
  std::pair<std::string, ErrorCode> first_answered(Try try_one) {
    for (int n = 0;; ++n) {
      const std::string id = std::to_string(n);
      const ErrorCode code = error_of([&] { try_one(id); }).code();
      if (code != ErrorCode::outcome_unknown || n == 100) return {id, code};
      space_.run(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
          "WHERE application_name = '{schema}'");
      while (backend() != 0) std::this_thread::yield();
    }
  }

  TestSpace space_{"limits"};
  std::optional<Connection> locker_;
  CuttingProxy proxy_{testing::shared_postgresql_url()};
};

TEST_F(PostgresqlLimits, AtTheDeadlineTheServerGivesUpTheStatement) {
  RecordProperty("requirement", "R-36");
  PostgresqlStore store(direct());
  std::int64_t before = 0;
  lock_table("oncebox_inbox_message");
  const auto [id, code] = first_answered([&](const std::string& message_id) {
    before = backend();
    store.inbox().enqueue(message(message_id), {}, CallOptions::within(50ms));
  });
  EXPECT_EQ(code, ErrorCode::timeout);
  EXPECT_EQ(statements_under_way(), 0) << "although the lock is still held";
  unlock();
  EXPECT_FALSE(store.inbox().find(key(id)));
  EXPECT_EQ(store.inbox().enqueue(message(id)).status, EnqueueStatus::accepted);
  EXPECT_TRUE(before == 0 || backend() == before) << "the connection was used again";
}

TEST_F(PostgresqlLimits, AtAStopTheServerGivesUpTheStatement) {
  RecordProperty("requirement", "R-36");
  PostgresqlStore store(direct());
  Outbox outbox(store);
  lock_table("oncebox_outbox_message");
  const auto [id, code] = first_answered([&](const std::string& message_id) {
    std::stop_source stop;
    const std::jthread stopper([&] {
      wait_until_a_statement_waits();
      stop.request_stop();
    });
    outbox.enqueue({.topic = "t", .id = MessageId(message_id)}, {}, {.stop = stop.get_token()});
  });
  EXPECT_EQ(code, ErrorCode::cancelled);
  EXPECT_EQ(statements_under_way(), 0);
  unlock();
  EXPECT_FALSE(outbox.find(MessageId(id)));
}

TEST_F(PostgresqlLimits, ATransactionOfSeveralStatementsIsRolledBack) {
  RecordProperty("requirement", "R-36");
  PostgresqlStore store(direct());
  const std::vector<BeginRequest> keys{{.key = "a"}, {.key = "b"}};
  store.keys().begin(keys);
  lock("SELECT FROM {schema}.oncebox_key WHERE key = 'b' FOR UPDATE");
  const std::vector<CompleteRequest> completions{{.key = "a"}, {.key = "b"}};
  const ErrorCode code =
      error_of([&] { store.keys().complete(completions, CallOptions::within(50ms)); }).code();
  EXPECT_TRUE(code == ErrorCode::timeout || code == ErrorCode::outcome_unknown) << to_string(code);
  EXPECT_FALSE(store.keys().is_processed("a"));
  unlock();
  EXPECT_EQ(store.keys().complete(completions), std::vector(2, CompleteOutcome::processed));
}

TEST_F(PostgresqlLimits, ACommitThatNobodyAnswersIsUnknown) {
  RecordProperty("requirement", "R-36");
  PostgresqlStore store(through_proxy());
  // On a busy machine the time may be over before it is sent.
  ErrorCode code = ErrorCode::timeout;
  for (int n = 0; code == ErrorCode::timeout && n < 100; ++n) {
    (void)store.inbox().find(key("a"));
    proxy_.freeze();
    code = error_of([&] {
             store.inbox().enqueue(message("a"), {}, CallOptions::within(30ms));
           }).code();
    proxy_.thaw();
  }
  EXPECT_EQ(code, ErrorCode::outcome_unknown);
  (void)store.inbox().enqueue(message("a"));
  EXPECT_TRUE(store.inbox().find(key("a")));
}

TEST_F(PostgresqlLimits, AReadThatNobodyAnswersIsTooLate) {
  RecordProperty("requirement", "R-36");
  PostgresqlStore store(through_proxy());
  (void)store.inbox().find(key("a"));
  proxy_.freeze();
  const ErrorCode code =
      error_of([&] { (void)store.inbox().find(key("a"), CallOptions::within(20ms)); }).code();
  proxy_.thaw();
  EXPECT_EQ(code, ErrorCode::timeout);
  EXPECT_FALSE(store.inbox().find(key("a")));
}

// Whatever comes first, the answer of the server or its limit.
TEST_F(PostgresqlLimits, WhatIsAnsweredIsTrue) {
  RecordProperty("requirement", "R-36");
  PostgresqlStore store(through_proxy());
  proxy_.delay_answers(10ms);
  for (int n = 0; n < 20; ++n) {
    const std::string id = std::to_string(n);
    std::optional<ErrorCode> code;
    try {
      store.inbox().enqueue(message(id), {}, CallOptions::within(Duration(2 + n)));
    } catch (const Error& error) {
      code = error.code();
    }
    if (code == ErrorCode::outcome_unknown) continue;
    EXPECT_TRUE(!code || code == ErrorCode::timeout) << to_string(*code);
    EXPECT_EQ(store.inbox().find(key(id)).has_value(), !code) << id;
  }
}

TEST_F(PostgresqlLimits, AWaitForAConnectionEnds) {
  RecordProperty("requirement", "R-36");
  ConnectionPool pool(direct());
  const auto acquire = [&](const CallOptions& call) {
    const CallScope scope(call);
    return pool.acquire(deadline_in(60s));
  };
  {
    const ConnectionPool::Lease taken = acquire({});
    EXPECT_EQ(error_of([&] { (void)acquire(CallOptions::within(5ms)); }).code(),
              ErrorCode::timeout);
    std::stop_source stop;
    std::jthread stopper([&] { stop.request_stop(); });
    EXPECT_EQ(error_of([&] { (void)acquire({.stop = stop.get_token()}); }).code(),
              ErrorCode::cancelled);
  }
  (void)acquire(CallOptions::within(60s));
}

TEST_F(PostgresqlLimits, AServerThatIsSlowToConnectIsNotWaitedFor) {
  RecordProperty("requirement", "R-36");
  Options options = through_proxy();
  options.connect_timeout = 60s;
  ConnectionPool pool(options);
  proxy_.freeze();
  EXPECT_EQ(error_of([&] {
              const CallOptions call = CallOptions::within(20ms);
              const CallScope scope(call);
              (void)pool.acquire(deadline_in(60s));
            }).code(),
            ErrorCode::timeout);
  proxy_.thaw();
  (void)pool.acquire(deadline_in(60s));
  EXPECT_EQ(proxy_.connections(), 1U) << "the one that was being opened, for the next call";
}

TEST_F(PostgresqlLimits, AConnectionThatIsGivenBackIsForACallThatWaitsForOne) {
  RecordProperty("requirement", "R-36");
  Options options = through_proxy();
  options.max_connections = 2;
  options.connect_timeout = 60s;
  options.budget = std::make_shared<ConnectionBudget>(8);
  ConnectionPool pool(options);
  std::optional<ConnectionPool::Lease> taken(pool.acquire(deadline_in(60s)));
  proxy_.freeze();
  std::stop_source stop;
  std::jthread opener([&] {
    const CallOptions call{.stop = stop.get_token()};
    const CallScope scope(call);
    EXPECT_EQ(error_of([&] { (void)pool.acquire(deadline_in(60s)); }).code(), ErrorCode::cancelled);
  });
  while (options.budget->open() < 2) std::this_thread::yield();
  std::promise<void> begins;
  auto waiter = std::async(std::launch::async, [&] {
    begins.set_value();
    (void)pool.acquire(deadline_in(60s));
  });
  begins.get_future().wait();
  for (int i = 0; i < 1'000; ++i) std::this_thread::yield();  // so that it waits, most likely
  taken.reset();
  EXPECT_EQ(waiter.wait_for(30s), std::future_status::ready)
      << "the one that waits for the server to connect was woken in its place";
  stop.request_stop();
  opener.join();
  proxy_.thaw();
}

TEST_F(PostgresqlLimits, AConnectionThatNobodyUsesIsClosedWithinTheLimitsOfTheCall) {
  RecordProperty("requirement", "R-36");
  Connection one(through_proxy());
  Connection another(through_proxy());
  proxy_.freeze();
  const auto expect_closed_soon = [](Connection& connection) {
    const SteadyTime began = SystemClock::shared().steady();
    connection.close_and_wait(deadline_in(60s));
    EXPECT_LT(SystemClock::shared().steady() - began, 30s);
  };
  {
    const CallOptions call = CallOptions::within(1s);
    const CallScope scope(call);
    expect_closed_soon(one);
  }
  std::stop_source stop;
  {
    const CallOptions call{.stop = stop.get_token()};
    const CallScope scope(call);
    const std::jthread stopper([&] { stop.request_stop(); });
    expect_closed_soon(another);
  }
  proxy_.thaw();
}

}  // namespace
}  // namespace oncebox::postgresql
