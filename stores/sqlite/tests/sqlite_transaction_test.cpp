// Handlers inside transactions of a SQLite store, and callers with connections of their own.

#include "oncebox/sqlite/transaction.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "connection.hpp"
#include "faulty_disk.hpp"
#include "oncebox/conformance/transactional_harness.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/error.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox::sqlite {
namespace {

using namespace std::chrono_literals;

class OwnConnection final : public conformance::SqlCaller {
 public:
  OwnConnection(const std::string& path, const Clock& clock)
      : connection_({.path = path}), joined_(connection_.handle(), {.clock = &clock}) {}
  void run(const std::string& sql) override {
    connection_.execute(sql == "BEGIN" ? "BEGIN IMMEDIATE" : sql);
  }
  Transaction& joined() override { return joined_; }

 private:
  Connection connection_;
  JoinedTransaction joined_;
};

class SqliteTransactionalHarness final : public conformance::SqlTransactionalHarness {
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

std::optional<ErrorCode> code_of(const std::function<void()>& call) {
  try {
    call();
    return std::nullopt;
  } catch (const Error& error) {
    return error.code();
  }
}

Message message_to(const std::string& topic, const std::string& id) {
  return {.key = {"shop", id}, .topic = Topic(topic)};
}

class SqliteTransactionTest : public ::testing::Test {
 protected:
  SettleOutcome handle(const TransactionalQueue::Work& work) {
    store_.inbox().enqueue(Message{.key = {"shop", "order"}, .topic = "order.paid"});
    const auto claimed = store_.inbox().claim({.owner = OwnerToken::generate()});
    const Delivery delivery = delivery_of(claimed.at(0));
    try {
      return store_.inbox().transactional()->acknowledge_with(delivery, work);
    } catch (...) {
      EXPECT_EQ(store_.inbox().settle({delivery, Release{}}), SettleStatus::settled);
      throw;
    }
  }
  [[nodiscard]] bool is_done() {
    return store_.inbox().find(MessageKey{"shop", "order"}).value().status == Status::done;
  }

  /// What somebody sees who reads the file on a connection of his own.
  [[nodiscard]] std::int64_t number(const char* sql) const {
    return Connection({.path = options_.path}).query_integer(sql);
  }
  void run(const char* sql) const { Connection({.path = options_.path}).execute(sql); }

  const testing::TemporaryFolder folder_;
  // Segments of keys that are soon full, and pages that soon leave the memory.
  const Options options_{.path = folder_.file("oncebox.db"),
                         .cache_bytes = 1'024,
                         .keys_per_segment = 3,
                         .vfs = FaultyDisk::vfs()};
  SqliteStore store_{options_};
};

TEST_F(SqliteTransactionTest, AHandlerCannotEndTheTransactionNorUnmakeItsGuarantees) {
  const SettleOutcome outcome = handle([&](Transaction& transaction) {
    Connection database(database_of(transaction));
    for (const char* const refused :
         {"COMMIT", "ROLLBACK", "END", "BEGIN", "RELEASE one_call", "ROLLBACK TO one_call",
          "SAVEPOINT One_Call", "SAVEPOINT ONE_PART", "PRAGMA synchronous = OFF",
          "PRAGMA journal_mode = DELETE", "ATTACH ':memory:' AS other"}) {
      EXPECT_THROW(database.execute(refused), Error) << refused;
    }
    database.execute("SAVEPOINT mine; CREATE TABLE a (x); ROLLBACK TO mine; RELEASE mine");
    database.execute("CREATE TABLE b (x)");
    transaction.enqueue(QueueKind::outbox, Message{.key = {"shop", "1"}, .topic = "t"});
  });
  EXPECT_EQ(outcome, SettleStatus::settled);
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
  EXPECT_EQ(outcome, SettleStatus::settled);
}

// What a savepoint of the handler takes back, the store must not remember.
TEST_F(SqliteTransactionTest, ATopicThatAHandlerTookBackGetsANumberOfItsOwnLater) {
  RecordProperty("requirement", "PKT-09");
  EXPECT_EQ(handle([&](Transaction& transaction) {
              Connection database(database_of(transaction));
              Statement back = database.prepare("ROLLBACK TO mine");
              database.execute("SAVEPOINT mine");
              for (const char* const topic : {"first", "second"}) {
                transaction.enqueue(QueueKind::outbox, message_to(topic, "taken back"));
                back.run();
                transaction.enqueue(QueueKind::outbox, message_to("third", "taken back too"));
                back.run();
              }
              transaction.enqueue(QueueKind::outbox, message_to("fourth", "in the handler"));
            }),
            SettleStatus::settled);
  store_.outbox().enqueue(message_to("second", "1"));
  store_.outbox().enqueue(message_to("fifth", "2"));
  store_.outbox().enqueue(message_to("first", "3"));
  SqliteStore reopened(options_);
  std::string seen;
  for (const ClaimedMessage& claimed : reopened.outbox().claim({.owner = OwnerToken::generate()})) {
    seen += claimed.message.key.message_id.str() + ": " + claimed.message.topic.str() + "; ";
  }
  EXPECT_EQ(seen, "in the handler: fourth; 1: second; 2: fifth; 3: first; ");
}

TEST_F(SqliteTransactionTest, KeysAreKnownAlsoWhereAHandlerTookOthersBack) {
  RecordProperty("requirement", "PKT-09");
  handle([&](Transaction& transaction) {
    Connection database(database_of(transaction));
    database.execute("SAVEPOINT mine");
    for (const char* const id : {"a", "b", "c", "d"}) {  // more than a segment has
      transaction.enqueue(QueueKind::outbox, message_to("receipt", id));
    }
    database.execute("ROLLBACK TO mine");
  });
  for (const EnqueueStatus expected : {EnqueueStatus::accepted, EnqueueStatus::duplicate}) {
    for (const char* const id : {"e", "f", "g", "h"}) {
      EXPECT_EQ(store_.outbox().enqueue(message_to("receipt", id)).status, expected) << id;
    }
  }
}

TEST_F(SqliteTransactionTest, WhatFollowsAStatementThatEndedTheTransactionHasNoEffect) {
  RecordProperty("requirement", "PKT-09, R-25");
  run("CREATE TABLE effect (name TEXT PRIMARY KEY);"
      "CREATE TABLE strict_effect (name TEXT UNIQUE ON CONFLICT ROLLBACK);"
      "CREATE TABLE guarded (name TEXT);"
      "CREATE TRIGGER guard BEFORE INSERT ON guarded BEGIN SELECT RAISE(ROLLBACK, 'no'); END");
  for (const char* const ending :
       {"INSERT OR ROLLBACK INTO effect VALUES ('a'), ('a')",
        "INSERT INTO strict_effect VALUES ('a'), ('a')", "INSERT INTO guarded VALUES ('a')"}) {
    const auto work = [&](Transaction& transaction) {
      Connection database(database_of(transaction));
      Statement insert = database.prepare("INSERT INTO effect VALUES ('late')");
      Statement savepoint = database.prepare("SAVEPOINT mine");
      Statement release = database.prepare("RELEASE mine");
      for (Statement* statement : {&savepoint, &release}) statement->run();  // prepared by now
      database.execute("INSERT INTO effect VALUES ('early')");
      insert.run();
      EXPECT_THROW(database.execute(ending), Error);
      EXPECT_THROW(database.execute("INSERT INTO effect VALUES ('later')"), Error);
      EXPECT_THROW(insert.run(), Error) << "was prepared before";
      EXPECT_EQ(
          code_of([&] { transaction.enqueue(QueueKind::outbox, message_to("receipt", "1")); }),
          ErrorCode::conflict);
      savepoint.run();
      insert.run();
      EXPECT_THROW(release.run(), Error);
      savepoint.run();
    };
    EXPECT_EQ(code_of([&] { (void)handle(work); }), ErrorCode::conflict) << ending;
    EXPECT_EQ(number("SELECT count(*) FROM effect"), 0) << ending;
    EXPECT_EQ(store_.outbox_operator().count({}), 0U) << ending;
    EXPECT_FALSE(is_done()) << ending;
    EXPECT_EQ(store_.health().status, HealthStatus::healthy) << "the disk is well";
  }
  EXPECT_EQ(handle([](Transaction& transaction) {
              transaction.enqueue(QueueKind::outbox, message_to("receipt", "1"));
            }),
            SettleStatus::settled);
  EXPECT_TRUE(is_done());
}

TEST_F(SqliteTransactionTest, WhatFollowsADiskErrorInAHandlerHasNoEffect) {
  RecordProperty("requirement", "PKT-09, R-25");
  run("CREATE TABLE effect (name TEXT)");
  const auto work = [&](Transaction& transaction) {
    Connection database(database_of(transaction));
    Statement insert = database.prepare("INSERT INTO effect VALUES ('late')");
    insert.run();
    {
      const FaultyDisk disk(0, FaultyDisk::Fault::io_error);
      EXPECT_THROW(database.execute("WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL "
                                    "SELECT i + 1 FROM n WHERE i < 1000) "
                                    "INSERT INTO effect SELECT hex(randomblob(1000)) FROM n"),
                   Error);
      ASSERT_TRUE(disk.struck());
    }
    EXPECT_THROW(insert.run(), Error);
    EXPECT_THROW(transaction.enqueue(QueueKind::outbox, message_to("receipt", "1")), Error);
  };
  EXPECT_EQ(code_of([&] { (void)handle(work); }), ErrorCode::conflict);
  EXPECT_EQ(number("SELECT count(*) FROM effect"), 0);
  EXPECT_EQ(store_.outbox_operator().count({}), 0U);
  EXPECT_FALSE(is_done());
}

// Handlers that share a transaction, of which some end it.
TEST_F(SqliteTransactionTest, AHandlerThatEndsTheTransactionTakesNothingFromOthers) {
  RecordProperty("requirement", "PKT-09, R-25");
  run("CREATE TABLE effect (name TEXT PRIMARY KEY, times INTEGER)");
  constexpr int kMessages = 100;
  for (int n = 0; n < kMessages; ++n) {
    store_.inbox().enqueue(message_to("order.paid", std::to_string(n)));
  }
  Handlers handlers;
  handlers.on("order.*", [&](const ClaimedMessage& order, Transaction& transaction,
                             HandlerContext&) {
    const std::string id = order.message.key.message_id.str();
    Connection database(database_of(transaction));
    Statement count = database.prepare("INSERT INTO effect VALUES ('" + id +
                                       "', 1) ON CONFLICT (name) DO UPDATE SET times = times + 1");
    count.run();
    transaction.enqueue(QueueKind::outbox, message_to("receipt", id));
    if (order.history.attempt > 0 || std::stoi(id) % 3 != 0) return;
    EXPECT_THROW(database.execute("INSERT OR ROLLBACK INTO effect VALUES ('" + id + "', 1)"),
                 Error);
    EXPECT_THROW(count.run(), Error);
    // Others of the batch are not to hear of it.
    if (std::stoi(id) % 2 != 0) throw Error(ErrorCode::unavailable, "the bank is closed");
  });
  Dispatcher dispatcher(
      store_.inbox(), handlers,
      {.workers = 4, .poll_interval = 1ms, .retries = RetryPolicies({.backoff = FixedDelay{1ms}})});
  dispatcher.start();
  const auto unfinished = [&] {
    return store_.inbox_operator().count({.statuses = {Status::processing}});
  };
  while (unfinished() > 0) dispatcher.wake();
  EXPECT_TRUE(dispatcher.stop().complete());
  EXPECT_EQ(number("SELECT count(*) FROM effect WHERE times = 1"), kMessages);
  EXPECT_EQ(number("SELECT sum(attempt) FROM oncebox_inbox_state"), (kMessages + 2) / 3);
  EXPECT_EQ(store_.outbox_operator().count({}), static_cast<std::size_t>(kMessages));
}

TEST_F(SqliteTransactionTest, AMessageWithoutTheTransactionIsRefusedEvenWhileOthersWaitForTheirs) {
  RecordProperty("requirement", "PKT-09");
  Outbox outbox(store_);
  Inbox inbox(store_);
  EXPECT_EQ(handle([&](Transaction& transaction) {
              // From now on the intake is busy until this handler has returned.
              std::jthread([&] {
                (void)outbox.enqueue_future({.topic = "other", .id = "other"});
                (void)inbox.enqueue_future(message_to("other", "other"));
              }).join();
              const auto is_refused = [](const std::function<void()>& call) {
                EXPECT_EQ(code_of(call), ErrorCode::conflict);
                return code_of(call) == ErrorCode::conflict;
              };
              const Message message = message_to("receipt", "2");
              // Those that do not wait come first: the others would wait for ever.
              ASSERT_TRUE(is_refused([&] { (void)outbox.enqueue_future({.topic = "receipt"}); }));
              ASSERT_TRUE(is_refused([&] { (void)inbox.enqueue_future(message); }));
              ASSERT_TRUE(is_refused([&] { inbox.enqueue_then(message, [](const auto&) {}); }));
              EXPECT_TRUE(is_refused([&] { outbox.enqueue({.topic = "receipt"}); }));
              EXPECT_TRUE(is_refused([&] { outbox.enqueue_all({{.topic = "receipt"}}); }));
              EXPECT_TRUE(is_refused([&] { inbox.enqueue(message); }));
              EXPECT_TRUE(is_refused([&] { inbox.enqueue(std::vector{message}); }));
              EXPECT_TRUE(is_refused([&] { inbox.enqueue_each({message}); }));
              outbox.enqueue({.topic = "receipt", .id = "1"}, transaction);
              inbox.enqueue(message, transaction);
            }),
            SettleStatus::settled);
  outbox.stop();
  inbox.stop();
  EXPECT_TRUE(outbox.find(MessageId("1")));
  EXPECT_TRUE(outbox.find(MessageId("other")));
  EXPECT_EQ(store_.outbox_operator().count({}), 2U);
  EXPECT_EQ(store_.inbox_operator().count({}), 3U);
}

TEST_F(SqliteTransactionTest, AHandlerThatFailsSaysNothingAboutTheStore) {
  store_.inbox().enqueue(message_to("order.paid", "order"));
  const auto claimed = store_.inbox().claim({.owner = OwnerToken::generate()});
  const auto fail = [](Transaction&) { throw Error(ErrorCode::unavailable, "the bank is closed"); };
  EXPECT_EQ(code_of([&] {
              store_.inbox().transactional()->acknowledge_with(delivery_of(claimed.at(0)), fail);
            }),
            ErrorCode::unavailable);
  EXPECT_EQ(store_.health().status, HealthStatus::healthy) << store_.health().detail;
}

class SqliteForeignKeysTest : public SqliteTransactionTest {
 protected:
  /// What comes of a handler that leaves a reference without its row.
  std::optional<ErrorCode> refer_to_nothing(Options options, const std::string& table) {
    run("CREATE TABLE account (name TEXT PRIMARY KEY);"
        "CREATE TABLE booking (account TEXT REFERENCES account (name));"
        "CREATE TABLE late_booking (account TEXT REFERENCES account (name)"
        "  DEFERRABLE INITIALLY DEFERRED)");
    SqliteStore store(options);
    store.inbox().enqueue(message_to("order.paid", "order"));
    const auto claimed = store.inbox().claim({.owner = OwnerToken::generate()});
    return code_of([&] {
      store.inbox().transactional()->acknowledge_with(
          delivery_of(claimed.at(0)), [&](Transaction& transaction) {
            Connection(database_of(transaction)).execute("INSERT INTO " + table + " VALUES ('x')");
          });
    });
  }
  [[nodiscard]] Options with_foreign_keys() const {
    Options options = options_;
    options.foreign_keys = true;
    return options;
  }
};

TEST_F(SqliteForeignKeysTest, AreNotEnforcedUnlessTheyAreAskedFor) {
  EXPECT_EQ(refer_to_nothing(options_, "booking"), std::nullopt);
  EXPECT_TRUE(is_done());
}

TEST_F(SqliteForeignKeysTest, AreEnforcedInHandlers) {
  EXPECT_TRUE(refer_to_nothing(with_foreign_keys(), "booking"));
  EXPECT_EQ(number("SELECT count(*) FROM booking"), 0);
  EXPECT_FALSE(is_done());
}

TEST_F(SqliteForeignKeysTest, DeferredOnesAreEnforcedWithTheCommit) {
  EXPECT_EQ(refer_to_nothing(with_foreign_keys(), "late_booking"), ErrorCode::conflict);
  EXPECT_EQ(number("SELECT count(*) FROM late_booking"), 0);
  EXPECT_FALSE(is_done());
}

TEST_F(SqliteTransactionTest, AJoinedTransactionTakesWhatItsStoreTakes) {
  const std::size_t more = Options{}.max_payload_bytes + 1;
  const Message large{.key = {"shop", "1"}, .topic = "t", .payload = std::string(more, 'x')};
  Connection connection({.path = options_.path});
  connection.execute("BEGIN IMMEDIATE");
  JoinedTransaction usual(connection.handle());
  EXPECT_EQ(code_of([&] { usual.enqueue(QueueKind::outbox, large); }), ErrorCode::invalid_argument);
  JoinedTransaction generous(connection.handle(), {.max_payload_bytes = more});
  EXPECT_EQ(generous.enqueue(QueueKind::outbox, large).status, EnqueueStatus::accepted);
  connection.execute("COMMIT");
  EXPECT_TRUE(store_.outbox().find(MessageKey{"shop", "1"}));
  EXPECT_EQ(code_of([&] { JoinedTransaction(connection.handle(), {.max_payload_bytes = 0}); }),
            ErrorCode::out_of_range);
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
