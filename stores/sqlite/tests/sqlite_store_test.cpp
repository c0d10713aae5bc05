#include "oncebox/sqlite/sqlite_store.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "connection.hpp"
#include "filter_sql.hpp"
#include "library.hpp"
#include "messages.hpp"
#include "oncebox/error.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "schema.hpp"

namespace oncebox::sqlite {
namespace {

using namespace std::chrono_literals;

class SqliteStoreTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.file("oncebox.db"); }
  [[nodiscard]] Options options(SchemaDeployment deployment = SchemaDeployment::on) const {
    return {.path = path(), .schema_deployment = deployment, .busy_timeout = 60s};
  }

  /// The error with which a store cannot be opened.
  [[nodiscard]] Error opening_error(const Options& options) const {
    try {
      const SqliteStore store(options);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "the store was opened";
    return {ErrorCode::internal, "none"};
  }

  void set_version(int version) {
    Connection connection({.path = path()});
    connection.execute("UPDATE oncebox_schema SET version = " + std::to_string(version));
  }

  /// Takes back what came after an older version of the schema.
  void go_back_to(int version) {
    Connection connection({.path = path()});
    if (version < 7) {
      for (const char* const table :
           {"deliveries_message", "deliveries_state", "deliveries_past_content",
            "deliveries_worker", "deliveries_attempt", "endpoint", "endpoint_version"}) {
        connection.execute(std::string("DROP TABLE oncebox_") + table);
      }
    }
    for (const std::string queue : {"inbox", "outbox"}) {
      if (version < 6) forget_workers(connection, "oncebox_" + queue);
    }
    if (version < 5) {
      connection.execute("DROP TABLE oncebox_topic_policy");
      connection.execute("DROP TABLE oncebox_policy_version");
    }
    if (version < 4) connection.execute("DROP TABLE oncebox_audit");
    for (const std::string queue : {"inbox", "outbox"}) {
      if (version < 3) connection.execute("DROP TABLE oncebox_" + queue + "_past_content");
    }
    connection.execute("UPDATE oncebox_schema SET version = " + std::to_string(version));
  }

  static void forget_workers(Connection& connection, const std::string& queue) {
    connection.execute("DROP TABLE " + queue + "_worker");
    connection.execute("DROP TABLE " + queue + "_attempt");
    for (const char* const column : {"leased_at", "worker"}) {
      connection.execute("ALTER TABLE " + queue + "_state DROP COLUMN " + column);
    }
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(SqliteStoreTest, MoreStoresThanTheKernelGrantsWatchersAreToldOfWorkOfOthers) {
  class Told final : public WorkListener {
   public:
    void on_work() noexcept override {
      told.test_and_set();
      told.notify_all();
    }
    std::atomic_flag told;
  };
  constexpr int kStores = 160;  // inotify instances of a user: 128 as a rule
  std::vector<std::unique_ptr<SqliteStore>> stores;
  std::vector<std::shared_ptr<Told>> listeners;
  for (int i = 0; i < kStores; ++i) {
    const Options file{.path = folder_.file(std::to_string(i))};
    stores.push_back(std::make_unique<SqliteStore>(file));
    listeners.push_back(std::make_shared<Told>());
    stores.back()->inbox().listen(listeners.back());
  }
  for (const int i : {0, kStores / 2, kStores - 1}) {
    const auto at = static_cast<std::size_t>(i);
    SqliteStore other({.path = folder_.file(std::to_string(i))});
    other.inbox().enqueue(message("a"));
    listeners[at]->told.wait(false);
  }
  EXPECT_FALSE(listeners[1]->told.test());
}

TEST_F(SqliteStoreTest, OpeningCreatesTheSchemaAndMigratingAgainChangesNothing) {
  RecordProperty("requirement", "IBX-114,IBX-116,IBX-117");
  SqliteStore store(options());
  store.inbox().enqueue(message("a"));
  const MigrationResult again = store.migrate();
  EXPECT_EQ(again.from_version, kSchemaVersion);
  EXPECT_EQ(again.to_version, kSchemaVersion);
  EXPECT_TRUE(store.inbox().find({"shop", "a"}));
  EXPECT_EQ(store.health().status, HealthStatus::healthy);
}

TEST_F(SqliteStoreTest, ClaimsGoByAnIndex) {
  RecordProperty("requirement", "IBX-122,IBX-125");
  const SqliteStore store(options());
  Connection connection({.path = path()});
  const auto plan = [&](const std::string& sql) {
    std::string text;
    Statement statement = connection.prepare("EXPLAIN QUERY PLAN " + sql);
    while (statement.step()) text += std::string(statement.text(3)) + "\n";
    return text;
  };
  EXPECT_NE(plan("SELECT id FROM oncebox_inbox_state WHERE stage = 1 AND topic = 1 AND rank = 0 "
                 "AND eligible_at <= 5 ORDER BY eligible_at, enqueue_order")
                .find("COVERING INDEX oncebox_inbox_exposed"),
            std::string::npos);
  EXPECT_NE(plan("SELECT id FROM oncebox_inbox_state WHERE stage = 3 AND locked_until <= 5")
                .find("INDEX oncebox_inbox_leased"),
            std::string::npos);
  EXPECT_NE(plan("SELECT id FROM oncebox_inbox_message WHERE segment = 1 AND key = x'00'")
                .find("INDEX oncebox_inbox_message_key"),
            std::string::npos);
  EXPECT_NE(plan("SELECT id FROM oncebox_inbox_state WHERE partition_key = 'p' AND stage = 1 "
                 "AND partition_key IS NOT NULL AND stage BETWEEN 1 AND 3")
                .find("INDEX oncebox_inbox_partition"),
            std::string::npos);
  for (const Status status : {Status::seen, Status::processing, Status::done, Status::dead}) {
    const FilterSql filter({.statuses = {status}}, "inbox", {});
    const std::string text = plan("SELECT s.id FROM oncebox_inbox_state s " + filter.where());
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const bool scans_table = line.starts_with("SCAN") && line.find("INDEX") == std::string::npos;
      EXPECT_FALSE(scans_table) << text;
    }
  }
}

TEST_F(SqliteStoreTest, NoIndexMakesATableForEveryRow) {
  const SqliteStore store(options());
  Connection connection({.path = path()});
  Statement program = connection.prepare(
      "EXPLAIN INSERT INTO oncebox_inbox_state (id, stage, topic, rank, eligible_at, "
      "enqueue_order, attempt, deliveries, lapses, content_version, claimed_version, duplicates, "
      "last_seen_at, backoff_until, revivals) VALUES (1, 1, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, "
      "0)");
  while (program.step()) EXPECT_NE(program.text(1), "OpenEphemeral");
}

TEST_F(SqliteStoreTest, FileOfVersion1IsBroughtUpToDateWithWhatIsInIt) {
  RecordProperty("requirement", "IBX-116,IBX-117");
  const auto indexes = [&] {
    std::string text;
    Connection connection({.path = path()});
    Statement statement = connection.prepare(
        "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name");
    while (statement.step()) text += std::string(statement.text(0)) + "\n";
    return text;
  };
  Message first = message("first");
  first.partition_key = "p";
  Message second = message("second");
  second.partition_key = "p";
  {
    SqliteStore store(options());
    store.inbox().enqueue(std::vector{first, second});
  }
  const std::string current = indexes();
  {
    Connection connection({.path = path()});
    for (const std::string queue : {"inbox", "outbox"}) {
      const std::string state = "oncebox_" + queue + "_state";
      connection.execute("DROP INDEX oncebox_" + queue + "_other");
      connection.execute("CREATE INDEX oncebox_" + queue + "_other ON " + state +
                         " (stage, topic) WHERE stage IN (0, 2, 6)");
      connection.execute("DROP INDEX oncebox_" + queue + "_partition");
      connection.execute("CREATE INDEX oncebox_" + queue + "_partition ON " + state +
                         " (partition_key, stage, enqueue_order)"
                         " WHERE partition_key IS NOT NULL AND stage IN (1, 2, 3)");
    }
  }
  go_back_to(1);
  SqliteStore store(options());
  EXPECT_EQ(indexes(), current);
  const OwnerToken owner = OwnerToken::generate();
  for (const Message& expected : {first, second}) {
    const auto claimed = store.inbox().claim({.owner = owner, .limit = 10});
    ASSERT_EQ(claimed.size(), 1U) << "one of a partition at a time";
    EXPECT_EQ(claimed.front().message.key, expected.key);
    EXPECT_EQ(store.inbox().settle({.delivery = delivery_of(claimed.front())}),
              SettleStatus::settled);
  }
}

TEST_F(SqliteStoreTest, DeadMessageOfAVersion2FileCanBeEditedAfterTheMigration) {
  RecordProperty("requirement", "IBX-116,IBX-117");
  {
    SqliteStore store(options());
    store.inbox().enqueue(message("a", "old"));
    store.inbox().mark({.key = {"shop", "a"}, .as = MarkAs::dead, .error = "no"});
  }
  go_back_to(2);
  SqliteStore store(options());
  EXPECT_EQ(store.migrate().from_version, kSchemaVersion);
  const std::vector<EditedMessage> edits{{.key = {"shop", "a"}, .payload = "new"}};
  EXPECT_EQ(store.inbox_operator().revive_edited(edits), std::vector{ReviveOutcome::revived});
  const std::vector<PastContent> past = store.inbox_operator().past_contents({"shop", "a"});
  ASSERT_EQ(past.size(), 1U);
  EXPECT_EQ(past.front().payload, Payload("old"));
  EXPECT_TRUE(store.outbox_operator().past_contents({"shop", "a"}).empty());
}

TEST_F(SqliteStoreTest, FileOfVersion3HasATrailAfterTheMigration) {
  RecordProperty("requirement", "IBX-116,IBX-117");
  {
    SqliteStore store(options());
    store.inbox().enqueue(message("a"));
  }
  go_back_to(3);
  SqliteStore store(options());
  store.audit().begin({.actor = "alice"});
  EXPECT_EQ(store.audit().list().records.size(), 1U);
  EXPECT_TRUE(store.inbox().find({"shop", "a"}));
}

TEST_F(SqliteStoreTest, NothingIsLeftOfTheContentsOfMessagesThatAreGone) {
  RecordProperty("requirement", "IBX-098");
  SqliteStore store(options());
  QueueOperator& dead = store.inbox_operator();
  std::vector<EditedMessage> edits;
  for (const char* id : {"purged", "dead", "done"}) {
    store.inbox().enqueue(message(id));
    store.inbox().mark({.key = {"shop", id}, .as = MarkAs::dead});
    edits.push_back({.key = {"shop", id}, .payload = "new"});
  }
  dead.revive_edited(edits);
  for (const char* id : {"purged", "dead"}) {
    store.inbox().mark({.key = {"shop", id}, .as = MarkAs::dead});
  }
  store.inbox().mark({.key = {"shop", "done"}, .as = MarkAs::processed});
  Connection connection({.path = path()});
  const char* const kept = "SELECT count(*) FROM oncebox_inbox_past_content";
  EXPECT_EQ(connection.query_integer(kept), 3);
  dead.purge(std::vector<MessageKey>{{"shop", "purged"}});
  EXPECT_EQ(connection.query_integer(kept), 2);
  dead.cleanup({.done_retention = 0s, .dead_retention = 0s});
  EXPECT_EQ(connection.query_integer(kept), 0);
}

TEST_F(SqliteStoreTest, WithDeploymentOffAMissingSchemaIsAClearErrorAndNothingIsCreated) {
  RecordProperty("requirement", "IBX-115");
  const Error error = opening_error(options(SchemaDeployment::off));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_NE(std::string(error.what()).find("migrate"), std::string::npos) << error.what();
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(SqliteStoreTest, WithDeploymentOffAFileOfOthersIsLeftAsItIs) {
  RecordProperty("requirement", "IBX-115");
  {
    Connection connection({.path = path()});
    connection.execute("CREATE TABLE orders (id INTEGER)");
  }
  EXPECT_EQ(opening_error(options(SchemaDeployment::off)).code(), ErrorCode::conflict);
  Connection connection({.path = path()});
  EXPECT_EQ(connection.query_text("PRAGMA journal_mode"), "delete");
}

TEST_F(SqliteStoreTest, WithDeploymentOffACurrentSchemaIsUsedAndAnOlderOneRefused) {
  RecordProperty("requirement", "IBX-115");
  {
    const SqliteStore store(options());
  }
  {
    const SqliteStore store(options(SchemaDeployment::off));
  }
  set_version(kSchemaVersion - 1);
  EXPECT_EQ(opening_error(options(SchemaDeployment::off)).code(), ErrorCode::conflict);
}

TEST_F(SqliteStoreTest, NewerSchemaIsRefused) {
  RecordProperty("requirement", "IBX-116");
  {
    const SqliteStore store(options());
  }
  set_version(kSchemaVersion + 1);
  for (const auto deployment : {SchemaDeployment::on, SchemaDeployment::off}) {
    const Error error = opening_error(options(deployment));
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_NE(std::string(error.what()).find("newer"), std::string::npos) << error.what();
  }
}

TEST_F(SqliteStoreTest, ManyCanCreateTheSchemaAtOnce) {
  RecordProperty("requirement", "IBX-116");
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] {
      SqliteStore store(options());
      store.inbox().enqueue(message(std::to_string(i)));
    });
  }
  threads.clear();
  SqliteStore store(options());
  EXPECT_EQ(store.inbox_operator().count({}), 8U);
}

TEST_F(SqliteStoreTest, TablesOfOthersInTheSameFileAreLeftAlone) {
  {
    Connection connection({.path = path()});
    connection.execute("CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (7)");
  }
  {
    SqliteStore store(options());
    store.inbox().enqueue(message("a"));
  }
  Connection connection({.path = path()});
  EXPECT_EQ(connection.query_integer("SELECT id FROM orders"), 7);
}

TEST_F(SqliteStoreTest, FileThatIsNoDatabaseIsCorrupt) {
  std::ofstream(path()) << std::string(10'000, 'x');
  EXPECT_EQ(opening_error(options()).code(), ErrorCode::corrupt);
}

TEST_F(SqliteStoreTest, PathThatCannotBeOpenedIsNotFound) {
  EXPECT_EQ(opening_error({.path = folder_.file("no/such/folder/x.db")}).code(),
            ErrorCode::not_found);
}

TEST_F(SqliteStoreTest, KeyWhoseStorageKeyBelongsToAnotherIsRefused) {
  RecordProperty("requirement", "IBX-001");
  SqliteStore store(options());
  store.inbox().enqueue(message("a"));
  {
    // Nobody can make two keys collide; a stored key that changed has the same effect.
    Connection connection({.path = path()});
    connection.execute("UPDATE oncebox_inbox_message SET message_id = 'b'");
  }
  try {
    store.inbox().enqueue(message("a"));
    ADD_FAILURE() << "taken for another message";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
  }
  EXPECT_FALSE(store.inbox().find({"shop", "a"}));
}

TEST(SqliteLibrary, TooOldOrWithoutThreadsIsUnsupported) {
  EXPECT_NO_THROW(require_usable(running_library()));
  EXPECT_NO_THROW(require_usable({.version = 3'037'000, .has_threads = true}));
  for (const Library& library : {Library{.version = 3'036'001, .has_threads = true},
                                 Library{.version = 3'045'000, .has_threads = false}}) {
    try {
      require_usable(library);
      ADD_FAILURE() << "taken for usable: " << library.version;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
    }
  }
}

TEST_F(SqliteStoreTest, PayloadAboveTheLimitIsInvalid) {
  SqliteStore store({.path = path(), .max_payload_bytes = 10});
  EXPECT_THROW(store.inbox().enqueue(message("a", std::string(11, 'x'))), Error);
  EXPECT_EQ(store.inbox().enqueue(message("a", std::string(10, 'x'))).status,
            EnqueueStatus::accepted);
}

TEST_F(SqliteStoreTest, FileStopsGrowingUnderASteadyLoadWithRetention) {
  RecordProperty("requirement", "IBX-098,IBX-101");
  const testing::FakeClock clock;
  SqliteStore store(options(), clock);
  const OwnerToken owner = OwnerToken::generate();
  const auto run_period = [&](int period) {
    std::vector<Message> messages;
    for (int i = 0; i < 500; ++i) {
      messages.push_back(
          message(std::to_string(period) + "-" + std::to_string(i), std::string(500, 'x')));
    }
    store.inbox().enqueue(messages);
    std::vector<Settlement> settlements;
    for (const ClaimedMessage& claimed : store.inbox().claim({.owner = owner, .limit = 500})) {
      settlements.push_back({.delivery = delivery_of(claimed)});
    }
    store.inbox().settle(settlements);
    while (store.inbox_operator().cleanup({.done_retention = 0s}).total() > 0) {
    }
  };
  const auto pages = [&] {
    Connection connection({.path = path()});
    return connection.query_integer("PRAGMA page_count");
  };
  for (int period = 0; period < 3; ++period) run_period(period);
  const auto after_three = pages();
  for (int period = 3; period < 30; ++period) run_period(period);
  EXPECT_LE(pages(), after_three + after_three / 10);
  EXPECT_EQ(store.inbox_operator().stats().total().done, 0U);
}

TEST_F(SqliteStoreTest, FileShrinksAfterALargeBacklogIsGone) {
  RecordProperty("requirement", "IBX-098,IBX-101");
  SqliteStore store(options());
  for (int batch = 0; batch < 30; ++batch) {
    std::vector<Message> messages;
    for (int i = 0; i < 100; ++i) {
      messages.push_back(message(std::to_string(batch * 100 + i), std::string(10'000, 'x')));
    }
    store.inbox().enqueue(messages);
  }
  for (int i = 0; i < 3'000; ++i) {
    store.inbox().mark({.key = {"shop", std::to_string(i)}, .as = MarkAs::processed});
  }
  Connection connection({.path = path()});
  const auto before = connection.query_integer("PRAGMA page_count");
  while (store.inbox_operator().cleanup({.done_retention = 0s, .limit = 100}).total() > 0) {
  }
  EXPECT_LT(connection.query_integer("PRAGMA page_count"), before / 2);
}

TEST_F(SqliteStoreTest, CountOfDoneMessagesStaysTrueThroughEveryChange) {
  SqliteStore store(options());
  const OwnerToken owner = OwnerToken::generate();
  const auto done = [&] { return store.inbox_operator().stats().total().done; };
  store.inbox().enqueue(std::vector{message("a"), message("b"), message("c")});
  std::vector<Settlement> settlements;
  for (const ClaimedMessage& claimed : store.inbox().claim({.owner = owner, .limit = 2})) {
    settlements.push_back({.delivery = delivery_of(claimed)});
  }
  store.inbox().settle(settlements);
  EXPECT_EQ(done(), 2U);
  store.inbox().mark({.key = {"shop", "c"}, .as = MarkAs::processed});
  store.inbox().mark({.key = {"shop", "c"}, .as = MarkAs::processed});
  EXPECT_EQ(done(), 3U);
  store.inbox_operator().cleanup({.done_retention = 0s, .limit = 2});
  EXPECT_EQ(done(), 1U);
}

unsigned mode_of(const std::string& path) {
  return static_cast<unsigned>(std::filesystem::status(path).permissions());
}

/// The umask of the process, for as long as this lives.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(umask(mask)) {}
  ~Umask() { umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  const mode_t before_;
};

TEST_F(SqliteStoreTest, NobodyButTheOwnerHasAccessToTheFilesUnlessTheModeSaysSo) {
  const Umask open_to_all(0);
  for (const auto& [mode, wanted] :
       {std::pair<std::optional<unsigned>, unsigned>{std::nullopt, 0600}, {0660, 0660}}) {
    Options made = options();
    made.path = folder_.file(std::to_string(wanted));
    if (mode) made.mode = *mode;
    SqliteStore store(made);
    store.inbox().enqueue(message("1"));
    for (const std::string& file : {made.path, made.path + "-wal", made.path + "-shm"}) {
      EXPECT_EQ(mode_of(file), wanted) << file;
    }
  }
}

TEST_F(SqliteStoreTest, TheModeIsGivenWhateverTheUmask) {
  const Umask narrow(077);
  Options made = options();
  made.mode = 0664;
  const SqliteStore store(made);
  EXPECT_EQ(mode_of(path()), 0664U);
}

TEST_F(SqliteStoreTest, AFileThatIsThereKeepsItsMode) {
  using std::filesystem::perms;
  {
    const SqliteStore store(options());
  }
  std::filesystem::permissions(path(), perms{0644});
  SqliteStore store(options());
  store.inbox().enqueue(message("1"));
  EXPECT_EQ(mode_of(path()), 0644U);
  EXPECT_EQ(mode_of(path() + "-wal"), 0644U);
}

TEST_F(SqliteStoreTest, AModeThatMakesNoSenseIsRefused) {
  for (const unsigned mode : {0U, 0400U, 0066U, 0700U, 04600U}) {
    Options made = options();
    made.mode = mode;
    EXPECT_EQ(opening_error(made).code(), ErrorCode::out_of_range) << mode;
  }
}

/// A store whose clock is set back by an hour, while it is open or while it is closed.
class SqliteClockSetBack : public SqliteStoreTest, public ::testing::WithParamInterface<bool> {
 protected:
  void set_back() {
    clock_.advance(-1h);
    if (GetParam()) store_.emplace(options(), clock_);
  }
  [[nodiscard]] std::vector<std::string> claimed() {
    std::vector<std::string> ids;
    for (const ClaimedMessage& one : queue().claim({.owner = owner_, .lease = 30s})) {
      ids.push_back(one.message.key.message_id.str());
    }
    return ids;
  }
  QueueStore& queue() { return store_->inbox(); }

  const OwnerToken owner_ = OwnerToken::generate();
  testing::FakeClock clock_;
  std::optional<SqliteStore> store_{std::in_place, options(), clock_};
};
INSTANTIATE_TEST_SUITE_P(Reopened, SqliteClockSetBack, ::testing::Bool());

using Ids = std::vector<std::string>;

TEST_P(SqliteClockSetBack, MessagesThatWereReadyCanStillBeClaimed) {
  queue().enqueue(message("1"));
  clock_.advance(1min);
  queue().enqueue(message("2"));
  set_back();
  EXPECT_EQ(claimed(), (Ids{"1", "2"}));
}

TEST_P(SqliteClockSetBack, MessagesThatWaitForADueTimeStillWaitForIt) {
  Message later = message("later");
  later.due_at = clock_.now() + 1min;
  queue().enqueue(later);
  queue().enqueue(message("now"));
  set_back();
  EXPECT_EQ(claimed(), Ids{"now"});
  clock_.advance(1h + 1min);
  EXPECT_EQ(claimed(), (Ids{"now", "later"})) << "the lease has lapsed, and the other is due";
}

TEST_P(SqliteClockSetBack, ALeaseLastsNoLongerThanItWouldHave) {
  queue().enqueue(message("1"));
  EXPECT_EQ(claimed(), Ids{"1"});
  set_back();
  EXPECT_EQ(claimed(), Ids{}) << "it is still held";
  clock_.advance(30s);
  EXPECT_EQ(claimed(), Ids{"1"});
}

TEST_P(SqliteClockSetBack, TheNextOfAPartitionAndWhatIsReleasedCanBeClaimed) {
  Message first = message("first");
  first.partition_key = "p";
  Message second = message("second");
  second.partition_key = "p";
  queue().enqueue(first);
  queue().enqueue(second);
  const std::vector<ClaimedMessage> held = queue().claim({.owner = owner_});
  ASSERT_EQ(held.size(), 1U);
  set_back();
  queue().settle({.delivery = delivery_of(held[0]), .verdict = Release{}});
  EXPECT_EQ(claimed(), Ids{"first"});
  queue().mark(Mark{.key = first.key});
  EXPECT_EQ(claimed(), Ids{"second"});
}

TEST_P(SqliteClockSetBack, HealthSaysSoUntilTheClockHasCaughtUp) {
  queue().enqueue(message("1"));
  EXPECT_EQ(store_->health().status, HealthStatus::healthy);
  set_back();
  (void)claimed();
  EXPECT_EQ(store_->health().status, HealthStatus::degraded);
  EXPECT_NE(store_->health().detail.find("clock went back"), std::string::npos);
  clock_.advance(1h);
  EXPECT_EQ(store_->health().status, HealthStatus::healthy);
}

}  // namespace
}  // namespace oncebox::sqlite
