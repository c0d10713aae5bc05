// A file of the last released version is brought up to date with messages in every state.

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

class SqliteMigrationTest : public ::testing::Test {
 protected:
  /// A file with the schema of version 4, and in it what a store of today has, as far as that
  /// schema can keep it.
  [[nodiscard]] std::string released_copy_of(const std::string& path) const {
    const std::string copy = folder_.file("released.db");
    std::ifstream schema(ONCEBOX_SQLITE_RELEASED "/schema_4.sql");
    std::stringstream text;
    text << schema.rdbuf();
    Connection(ConnectionOptions{.path = copy}).execute(text.str());

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

TEST_F(SqliteMigrationTest, MessagesInEveryStateOfTheLastReleaseAreKeptAndCanBeWorkedOn) {
  RecordProperty("requirement", "IBX-116,IBX-117,R-32");
  const std::string path = folder_.file("current.db");
  std::optional<Delivery> in_inbox;
  std::optional<Delivery> in_outbox;
  conformance::QueueDump inbox_before;
  conformance::QueueDump outbox_before;
  {
    SqliteStore store({.path = path}, clock_);
    EveryState inbox(store.inbox(), store.inbox_operator(), clock_);
    EveryState outbox(store.outbox(), store.outbox_operator(), clock_);
    in_inbox = inbox.put();
    in_outbox = outbox.put();
    inbox_before = inbox.dump();
    outbox_before = outbox.dump();
  }
  const std::string released = released_copy_of(path);
  {
    Connection connection({.path = released});
    ASSERT_EQ(schema_version(connection), 4);
    EXPECT_EQ(migrate(connection).to_version, kSchemaVersion);
  }
  SqliteStore store({.path = released}, clock_);
  EveryState inbox(store.inbox(), store.inbox_operator(), clock_);
  EveryState outbox(store.outbox(), store.outbox_operator(), clock_);
  EXPECT_TRUE(unchanged(inbox_before, inbox.dump()));
  EXPECT_TRUE(unchanged(outbox_before, outbox.dump()));
  const TimePoint migrated_at = clock_.now();
  inbox.expect_workable(*in_inbox);
  clock_.set(migrated_at);
  outbox.expect_workable(*in_outbox);
}

}  // namespace
}  // namespace oncebox::sqlite
