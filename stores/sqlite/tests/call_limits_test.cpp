// What ends a call on a SQLite file at its limit: waits for the writer, for the lock of somebody
// else and for a connection, and statements that take long.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <latch>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "connection.hpp"
#include "expect_error.hpp"
#include "messages.hpp"
#include "oncebox/driver/call_scope.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "reader_pool.hpp"
#include "writer.hpp"

namespace oncebox::sqlite {
namespace {

using namespace std::chrono_literals;

/// Reads for ever.
constexpr const char* kEndless =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
/// Writes for ever.
constexpr const char* kEndlessInsert =
    "INSERT INTO numbers WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n) "
    "SELECT i FROM n";

/// A file whose write lock a neighbour may hold.
class SqliteLimits : public ::testing::Test {
 protected:
  [[nodiscard]] Options options() const {
    return {.path = folder_.file("oncebox.db"), .busy_timeout = 60s};
  }
  void lock() {
    neighbour_.emplace(ConnectionOptions{.path = options().path});
    neighbour_->execute("BEGIN IMMEDIATE");
  }
  void unlock() { neighbour_.reset(); }

  const testing::TemporaryFolder folder_;
  std::optional<Connection> neighbour_;
};

TEST_F(SqliteLimits, AWaitForTheLockOfSomebodyElseEndsAtTheDeadline) {
  RecordProperty("requirement", "R-36");
  SqliteStore store(options());
  lock();
  expect_error(ErrorCode::timeout,
               [&] { store.inbox().enqueue(message("a"), {}, CallOptions::within(20ms)); });
  expect_error(ErrorCode::timeout,
               [&] { store.keys().begin({.key = "a"}, CallOptions::within(1ms)); });
  EXPECT_EQ(store.health().status, HealthStatus::healthy) << "the caller was in a hurry";
  unlock();
  EXPECT_FALSE(store.inbox().find({"shop", "a"}));
  EXPECT_EQ(store.inbox().enqueue(message("a")).status, EnqueueStatus::accepted);
}

TEST_F(SqliteLimits, AWaitForTheLockOfSomebodyElseEndsAtAStop) {
  RecordProperty("requirement", "R-36");
  SqliteStore store(options());
  Inbox inbox(store);
  lock();
  std::stop_source stop;
  std::jthread caller([&] {
    expect_error(ErrorCode::cancelled,
                 [&] { inbox.enqueue(message("a"), {.stop = stop.get_token()}); });
  });
  stop.request_stop();
  caller.join();
  unlock();
  EXPECT_FALSE(store.inbox().find({"shop", "a"}));
}

TEST_F(SqliteLimits, ACallBehindOneThatWaitsForTheLockIsWithdrawn) {
  RecordProperty("requirement", "R-36");
  SqliteStore store(options());
  lock();
  std::jthread first(
      [&] { EXPECT_EQ(store.inbox().enqueue(message("first")).status, EnqueueStatus::accepted); });
  // Whether it leads or waits behind the other one, it ends.
  expect_error(ErrorCode::timeout,
               [&] { store.inbox().enqueue(message("second"), {}, CallOptions::within(30ms)); });
  unlock();
  first.join();
  EXPECT_FALSE(store.inbox().find({"shop", "second"}));
}

/// The writer by itself, on a table of its own.
class WriterLimits : public SqliteLimits {
 protected:
  WriterLimits() {
    connection_.execute("PRAGMA journal_mode = WAL; CREATE TABLE numbers (n INTEGER)");
  }

  /// The next transaction is that of several calls: of `first` and then of `second`, each made on a
  /// thread of its own. `before` runs when they wait and before it begins.
  void run_together(
      const std::function<void()>& first, const std::function<void()>& second,
      const std::function<void()>& before = [] {}) {
    std::latch is_held(1);
    std::latch may_end(1);
    std::jthread leader([&] {
      writer_.run(Flush::may_wait, [&] {
        is_held.count_down();
        may_end.wait();
        return true;
      });
    });
    is_held.wait();
    std::jthread one(first);
    while (writer_.waiting() < 1) std::this_thread::yield();
    std::jthread two(second);
    while (writer_.waiting() < 2) std::this_thread::yield();
    before_next_ = before;
    may_end.count_down();
  }

  /// Inserts a number, and counts how often that was tried.
  void insert(int number, const CallOptions& call = {}) {
    const CallScope scope(call);
    writer_.run(Flush::may_wait, [&] {
      ++runs_;
      connection_.prepare("INSERT INTO numbers VALUES (?)").bind(1, number).run();
      return true;
    });
  }
  void insert_endlessly(const CallOptions& call, const std::function<void()>& has_begun = [] {}) {
    const CallScope scope(call);
    writer_.run(Flush::may_wait, [&] {
      has_begun();
      connection_.execute(kEndlessInsert);
      return true;
    });
  }

  [[nodiscard]] std::string stored() {
    Connection reader({.path = options().path});
    return reader.query_text("SELECT coalesce(group_concat(n, ' '), '') FROM numbers");
  }

  void on_ending() {
    if (const auto act = std::exchange(before_next_, nullptr)) act();
  }

  Connection connection_{{.path = options().path, .busy_timeout = 60s}};
  std::atomic<int> runs_ = 0;
  std::function<void()> before_next_;
  Writer writer_{connection_, 100, [this](Writer::Ending) { on_ending(); }};
};

TEST_F(WriterLimits, AStatementThatTakesLongIsInterrupted) {
  RecordProperty("requirement", "R-36");
  expect_error(ErrorCode::timeout, [&] { insert_endlessly(CallOptions::within(5ms)); });
  EXPECT_FALSE(writer_.has_failed());
  insert(1);
  EXPECT_EQ(stored(), "1");
}

TEST_F(WriterLimits, WhoSharesATransactionWithAnInterruptedStatementIsStoredAllTheSame) {
  RecordProperty("requirement", "R-36");
  std::stop_source stop;
  run_together([&] { insert(1); },
               [&] {
                 expect_error(ErrorCode::cancelled, [&] {
                   insert_endlessly({.stop = stop.get_token()}, [&] { stop.request_stop(); });
                 });
               });
  EXPECT_EQ(runs_, 2) << "the interruption took back the whole transaction";
  EXPECT_EQ(stored(), "1");
  insert(2);
  EXPECT_EQ(stored(), "1 2");
}

TEST_F(WriterLimits, WhoComesBehindAnInterruptedStatementIsStored) {
  RecordProperty("requirement", "R-36");
  run_together(
      [&] {
        expect_error(ErrorCode::timeout, [&] { insert_endlessly(CallOptions::within(50ms)); });
      },
      [&] { insert(1); });
  EXPECT_EQ(stored(), "1");
}

TEST_F(WriterLimits, OfSeveralThatWaitForTheLockTogetherOnlyTheOneWithALimitLeaves) {
  RecordProperty("requirement", "R-36");
  std::stop_source stop;
  std::latch was_told(1);
  std::jthread unlocker;
  run_together([&] { insert(1); },
               [&] {
                 expect_error(ErrorCode::cancelled, [&] { insert(2, {.stop = stop.get_token()}); });
                 was_told.count_down();
               },
               [&] {
                 lock();
                 unlocker = std::jthread([&] {
                   while (writer_.waiting() > 0) std::this_thread::yield();
                   stop.request_stop();
                   was_told.wait();
                   unlock();
                 });
               });
  EXPECT_EQ(stored(), "1");
}

TEST_F(WriterLimits, WhatWasDoneBeforeTheLimitIsCommitted) {
  RecordProperty("requirement", "R-36");
  std::stop_source stop;
  const CallOptions call{.stop = stop.get_token()};
  const CallScope scope(call);
  const bool answer = writer_.run(Flush::required, [&] {
    connection_.execute("INSERT INTO numbers VALUES (1)");
    stop.request_stop();
    return true;
  });
  EXPECT_TRUE(answer);
  EXPECT_EQ(stored(), "1");
}

TEST_F(WriterLimits, AReadThatTakesLongIsInterrupted) {
  RecordProperty("requirement", "R-36");
  ReaderPool pool({.path = options().path}, 1);
  std::stop_source stop;
  std::latch reads(1);
  std::jthread reader([&] {
    expect_error(ErrorCode::cancelled, [&] {
      const CallOptions call{.stop = stop.get_token()};
      const CallScope scope(call);
      pool.run([&](Connection& connection) {
        reads.count_down();
        return connection.query_integer(kEndless);
      });
    });
  });
  reads.wait();
  expect_error(ErrorCode::timeout, [&] {
    const CallOptions call = CallOptions::within(5ms);
    const CallScope scope(call);
    pool.run([](Connection& connection) { return connection.query_integer("SELECT 1"); });
  });
  stop.request_stop();
  reader.join();
  EXPECT_EQ(pool.run([](Connection& connection) { return connection.query_integer("SELECT 7"); }),
            7);
}

}  // namespace
}  // namespace oncebox::sqlite
