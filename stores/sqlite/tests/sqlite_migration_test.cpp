// Files of released versions are brought up to date with messages in every state.

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "connection.hpp"
#include "oncebox/conformance/every_state.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "schema.hpp"

namespace oncebox::sqlite {
namespace {

using conformance::EveryState;
using conformance::PastAttempts;

struct ReleasedSchema {
  int version;
  PastAttempts attempts;           ///< and workers, and rules for topics
  std::vector<const char*> files;  ///< which make its schema, one after the other
};

class SqliteMigrationTest : public ::testing::TestWithParam<ReleasedSchema> {
 protected:
  /// A file with the schema of the version, and in it what a store of today has, as far as that
  /// schema can keep it.
  [[nodiscard]] std::string released_copy_of(const std::string& path) const {
    const std::string copy = folder_.file("released.db");
    for (const char* const file : GetParam().files) {
      std::ifstream schema(std::string(ONCEBOX_SQLITE_RELEASED "/") + file);
      std::stringstream text;
      text << schema.rdbuf();
      Connection(ConnectionOptions{.path = copy}).execute(text.str());
    }

    Connection current({.path = path});
    current.execute("ATTACH '" + copy + "' AS released");
    std::vector<std::string> tables;
    Statement names = current.prepare(
        "SELECT name FROM released.sqlite_master WHERE type = 'table' AND name LIKE 'oncebox_%' "
        "AND name <> 'oncebox_schema'");
    while (names.step()) tables.emplace_back(names.text(0));
    for (const std::string& table : tables) {
      const std::string columns = current.query_text(
          ("SELECT group_concat(name) FROM pragma_table_info('" + table + "', 'released')")
              .c_str());
      current.execute("DELETE FROM released." + table);
      current.execute("INSERT INTO released." + table + " (" + columns + ") SELECT " + columns +
                      " FROM main." + table);
    }
    return copy;
  }

  const testing::TemporaryFolder folder_;
  testing::FakeClock clock_;
};

INSTANTIATE_TEST_SUITE_P(
    Releases, SqliteMigrationTest,
    ::testing::Values(ReleasedSchema{4, PastAttempts::forgotten, {"schema_4.sql"}},
                      ReleasedSchema{6, PastAttempts::kept, {"schema_4.sql", "schema_6.sql"}}),
    [](const auto& release) { return "version" + std::to_string(release.param.version); });

TEST_P(SqliteMigrationTest, MessagesInEveryStateAreKeptAndCanBeWorkedOn) {
  RecordProperty("requirement", "IBX-116,IBX-117,R-32");
  const PastAttempts attempts = GetParam().attempts;
  const std::string path = folder_.file("current.db");
  std::optional<Delivery> in_inbox;
  std::optional<Delivery> in_outbox;
  conformance::QueueDump inbox_before;
  conformance::QueueDump outbox_before;
  std::vector<WorkerRecord> workers_before;
  const TopicPolicy rule{.max_attempts = 7};
  {
    SqliteStore store({.path = path}, clock_);
    EveryState inbox(store.inbox(), store.inbox_operator(), clock_);
    EveryState outbox(store.outbox(), store.outbox_operator(), clock_);
    store.policies().update(QueueKind::inbox, "dead", rule.as_change());
    in_inbox = inbox.put();
    in_outbox = outbox.put();
    inbox_before = inbox.dump(attempts);
    outbox_before = outbox.dump(attempts);
    workers_before = store.inbox_operator().workers();
  }
  const std::string released = released_copy_of(path);
  {
    Connection connection({.path = released});
    ASSERT_EQ(schema_version(connection), GetParam().version);
    EXPECT_EQ(migrate(connection).to_version, kSchemaVersion);
  }
  SqliteStore store({.path = released}, clock_);
  EveryState inbox(store.inbox(), store.inbox_operator(), clock_);
  EveryState outbox(store.outbox(), store.outbox_operator(), clock_);
  EXPECT_TRUE(unchanged(inbox_before, inbox.dump(attempts)));
  EXPECT_TRUE(unchanged(outbox_before, outbox.dump(attempts)));
  if (attempts == PastAttempts::kept) {
    EXPECT_FALSE(workers_before.empty());
    EXPECT_EQ(store.inbox_operator().workers(), workers_before);
    EXPECT_EQ(store.policies().policies(QueueKind::inbox).rule_of("dead"), rule);
  }
  const TimePoint migrated_at = clock_.now();
  inbox.expect_workable(*in_inbox, attempts);
  clock_.set(migrated_at);
  outbox.expect_workable(*in_outbox, attempts);
}

}  // namespace
}  // namespace oncebox::sqlite
