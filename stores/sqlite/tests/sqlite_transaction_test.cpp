// Handlers inside transactions of a SQLite store, and callers with connections of their own.

#include "oncebox/sqlite/transaction.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <memory>
#include <string>

#include "connection.hpp"
#include "faulty_disk.hpp"
#include "oncebox/conformance/transactional_harness.hpp"
#include "oncebox/dispatcher.hpp"
#include "oncebox/error.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox::sqlite {
namespace {

using namespace std::chrono_literals;

class OwnConnection final : public conformance::Caller {
 public:
  OwnConnection(const std::string& path, const Clock& clock)
      : connection_({.path = path}), joined_(connection_.handle(), clock) {}
  void run(const std::string& sql) override {
    connection_.execute(sql == "BEGIN" ? "BEGIN IMMEDIATE" : sql);
  }
  Transaction& joined() override { return joined_; }

 private:
  Connection connection_;
  JoinedTransaction joined_;
};

class SqliteTransactionalHarness final : public conformance::TransactionalHarness {
 public:
  SqliteTransactionalHarness() {
    Connection({.path = path_})
        .execute("CREATE TABLE effect (name TEXT PRIMARY KEY, times INTEGER)");
  }
  Store& store() override { return store_; }
  void advance(Duration by) override { clock_.advance(by); }
  void run(Transaction& transaction, const std::string& sql) override {
    Connection(database_of(transaction)).execute(sql);
  }
  std::int64_t number(const std::string& sql) override {
    return Connection({.path = path_, .access = Access::read_only}).query_integer(sql.c_str());
  }
  std::unique_ptr<conformance::Caller> caller() override {
    return std::make_unique<OwnConnection>(path_, clock_);
  }

 private:
  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_.file("oncebox.db");
  testing::FakeClock clock_;
  // Several segments of keys, also when there are few.
  SqliteStore store_{{.path = path_, .keys_per_segment = 4}, clock_};
};

class SqliteTransactionTest : public ::testing::Test {
 protected:
  SettleOutcome handle(const TransactionalQueue::Work& work) {
    store_.inbox().enqueue(Message{.key = {"shop", "order"}, .topic = "order.paid"});
    const auto claimed = store_.inbox().claim({.owner = OwnerToken::generate()});
    return store_.inbox().transactional()->acknowledge_with(delivery_of(claimed.at(0)), work);
  }
  [[nodiscard]] bool is_done() {
    return store_.inbox().find(MessageKey{"shop", "order"}).value().status == Status::done;
  }

  const testing::TemporaryFolder folder_;
  SqliteStore store_{Options{.path = folder_.file("oncebox.db")}};
};

TEST_F(SqliteTransactionTest, AHandlerCannotEndTheTransactionNorUnmakeItsGuarantees) {
  const SettleOutcome outcome = handle([&](Transaction& transaction) {
    Connection database(database_of(transaction));
    for (const char* const refused :
         {"COMMIT", "ROLLBACK", "END", "BEGIN", "RELEASE one_call", "ROLLBACK TO one_call",
          "PRAGMA synchronous = OFF", "PRAGMA journal_mode = DELETE",
          "ATTACH ':memory:' AS other"}) {
      EXPECT_THROW(database.execute(refused), Error) << refused;
    }
    database.execute("SAVEPOINT mine; CREATE TABLE a (x); ROLLBACK TO mine; RELEASE mine");
    database.execute("CREATE TABLE b (x)");
    transaction.enqueue(QueueKind::outbox, Message{.key = {"shop", "1"}, .topic = "t"});
  });
  EXPECT_EQ(outcome, SettleOutcome::settled);
  Connection reader({.path = folder_.file("oncebox.db")});
  EXPECT_EQ(reader.query_integer("SELECT count(*) FROM sqlite_schema WHERE name IN ('a', 'b')"), 1);
  EXPECT_TRUE(is_done());
}

TEST_F(SqliteTransactionTest, AHandlerThatCallsItsStoreIsToldInsteadOfWaitingForItself) {
  const SettleOutcome outcome = handle([&](Transaction&) {
    try {
      store_.outbox().enqueue(Message{.key = {"shop", "1"}, .topic = "t"});
      ADD_FAILURE() << "it got through";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::conflict);
    }
    EXPECT_TRUE(store_.inbox().find(MessageKey{"shop", "order"})) << "reading waits for nobody";
  });
  EXPECT_EQ(outcome, SettleOutcome::settled);
}

// Also when the flush of a commit fails, after which nobody knows whether it happened.
TEST_F(SqliteTransactionTest, ADiskErrorAtAnyMomentLeavesEachEffectOnce) {
  RecordProperty("requirement", "PKT-09, R-25");
  constexpr int kMessages = 6;
  constexpr int kMoments = 24;
  for (int moment = 0; moment < kMoments; ++moment) {
    const std::string path = folder_.file(std::to_string(moment) + ".db");
    Connection(ConnectionOptions{.path = path})
        .execute("CREATE TABLE effect (name TEXT PRIMARY KEY, times INTEGER)");
    SqliteStore store(Options{.path = path, .vfs = FaultyDisk::vfs()});
    for (int n = 0; n < kMessages; ++n) {
      store.inbox().enqueue(Message{.key = {"shop", std::to_string(n)}, .topic = "order.paid"});
    }
    Handlers handlers;
    handlers.on(
        "order.paid", [](const ClaimedMessage& order, Transaction& transaction, HandlerContext&) {
          const std::string id = order.message.key.message_id.str();
          Connection(database_of(transaction))
              .execute("INSERT INTO effect VALUES ('" + id +
                       "', 1) ON CONFLICT (name) DO UPDATE SET times = times + 1");
          transaction.enqueue(QueueKind::outbox, Message{.key = {"shop", id}, .topic = "receipt"});
        });
    Dispatcher dispatcher(store.inbox(), handlers, {.workers = 2, .poll_interval = 1ms});
    {
      const auto fault =
          moment % 2 == 0 ? FaultyDisk::Fault::io_error : FaultyDisk::Fault::flush_error;
      const FaultyDisk disk(moment % 2 == 0 ? moment / 2 : moment / 6, fault);
      dispatcher.start();
      const auto done = [&] { return store.inbox_operator().count({.statuses = {Status::done}}); };
      while (done() < kMessages) dispatcher.wake();
      EXPECT_TRUE(dispatcher.stop().complete());
    }
    Connection reader({.path = path, .access = Access::read_only});
    EXPECT_EQ(reader.query_integer("SELECT count(*) FROM effect WHERE times = 1"), kMessages)
        << "disk error " << moment;
    EXPECT_EQ(store.outbox_operator().count({}), static_cast<std::size_t>(kMessages));
  }
}

TEST_F(SqliteTransactionTest, AnotherKindOfTransactionIsRefused) {
  class Other final : public Transaction {
    std::vector<EnqueueOutcome> do_enqueue(QueueKind, std::span<const Message>,
                                           const EnqueueOptions&) override {
      return {};
    }
  };
  Other other;
  EXPECT_THROW((void)database_of(other), Error);
}

TEST_F(SqliteTransactionTest, AFileWithoutTheSchemaCannotBeJoined) {
  Connection elsewhere({.path = folder_.file("other.db")});
  EXPECT_THROW(JoinedTransaction(elsewhere.handle()), Error);
  EXPECT_THROW(JoinedTransaction(nullptr), Error);
}

}  // namespace
}  // namespace oncebox::sqlite

std::vector<oncebox::conformance::TransactionalStoreUnderTest>
oncebox::conformance::transactional_stores_under_test() {
  return {{.name = "sqlite",
           .make_harness = [] { return std::make_unique<sqlite::SqliteTransactionalHarness>(); }}};
}
