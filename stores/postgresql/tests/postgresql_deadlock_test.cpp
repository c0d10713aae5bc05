// Calls that meet others on the same rows in another order.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "error_of.hpp"
#include "libpq_keywords.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "sql_error.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;

Message numbered_message(int number, const std::string& payload) {
  return {.key = {"shop", MessageId(std::to_string(number))},
          .topic = "order.created",
          .payload = payload};
}

class PostgresqlDeadlockTest : public ::testing::Test {
 protected:
  /// Whoever waits for a lock looks for a deadlock after this time, and is then the one to give
  /// way.
  [[nodiscard]] Options options(const std::string& deadlock_timeout) const {
    LibpqKeywords keywords = read_libpq_url(testing::shared_postgresql_url());
    keywords["options"] = "-c deadlock_timeout=" + deadlock_timeout;
    Options options = space_.options();
    options.connection = to_connection_string(keywords);
    return options;
  }

  void run(Connection& connection, const std::string& sql) {
    connection.run_text(sql, Exchange::changes_nothing, deadline_in(1min));
  }

  /// False when this was the one to give way.
  bool gets_through(Connection& connection, const std::string& sql) {
    try {
      run(connection, sql);
      return true;
    } catch (const LostAgainstAnother&) {
      return false;
    }
  }

  [[nodiscard]] std::string lock_sql(const std::string& hash) const {
    return fmt::format("SELECT FROM {}.oncebox_key WHERE hash = '{}' FOR UPDATE", space_.schema(),
                       hash);
  }

  TestSpace space_;
  testing::FakeClock clock_;
};

TEST_F(PostgresqlDeadlockTest, BatchesInOppositeOrderGetThrough) {
  constexpr int kMessages = 40;
  constexpr int kRounds = 15;
  PostgresqlStore store(options("10ms"), clock_);
  const auto batch_of = [](int thread, int round) {
    std::vector<Message> batch;
    for (int i = 0; i < kMessages; ++i) {
      const int number = thread % 2 == 0 ? i : kMessages - 1 - i;
      batch.push_back(numbered_message(number, fmt::format("{} {}", thread, round)));
      if (number % 3 == 0) batch.back().partition_key = PartitionKey(std::to_string(number % 4));
    }
    return batch;
  };
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        try {
          for (int round = 0; round < kRounds; ++round) {
            const std::vector<Message> batch = batch_of(thread, round);
            store.inbox().enqueue(batch);
            std::vector<Mark> marks;
            for (const Message& one : batch) marks.push_back({one.key, MarkAs::processing});
            store.inbox().mark(marks);
          }
        } catch (const Error& error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
  }
  EXPECT_EQ(store.inbox_operator().count({}), static_cast<std::size_t>(kMessages));
}

// The other transaction is not ours: no order that we keep can prevent this. Of two who wait for
// each other the first one to look gives way, which is the call unless the machine is busy; then
// they meet again.
TEST_F(PostgresqlDeadlockTest, CallThatLosesIsRepeatedInside) {
  RecordProperty("requirement", "IBX-104");
  PostgresqlStore store(options("200ms"), clock_);
  const std::vector<BeginRequest> batch{{.key = "a"}, {.key = "b"}};
  store.keys().complete(std::vector<CompleteRequest>{{.key = "a"}, {.key = "b"}});
  const std::string hashes = "SELECT hash FROM {schema}.oncebox_key ORDER BY hash ";
  const std::string first = lock_sql(space_.text(hashes + "LIMIT 1"));
  const std::string second = lock_sql(space_.text(hashes + "OFFSET 1"));
  Connection other(options("2s"));
  bool call_gave_way = false;
  while (!call_gave_way) {
    run(other, "BEGIN");
    run(other, second);
    std::vector<BeginOutcome> outcomes;
    {
      const std::jthread call([&] { outcomes = store.keys().begin(batch); });
      space_.wait_until_somebody_waits_for_a_lock();
      call_gave_way = gets_through(other, first);
      run(other, "ROLLBACK");
    }
    ASSERT_EQ(outcomes.size(), 2U);
    EXPECT_EQ(outcomes[0].status, BeginStatus::processed);
    EXPECT_EQ(outcomes[1].status, BeginStatus::processed);
  }
}

}  // namespace
}  // namespace oncebox::postgresql
