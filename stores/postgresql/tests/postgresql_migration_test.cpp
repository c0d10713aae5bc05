// A schema of the last released version is brought up to date with messages in every state.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>

#include "oncebox/conformance/every_state.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "schema.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using conformance::EveryState;

class PostgresqlMigrationTest : public ::testing::Test {
 protected:
  void create_released_schema() {
    std::ifstream file(ONCEBOX_POSTGRESQL_RELEASED "/schema_3.sql");
    std::string statement;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("--")) continue;
      statement += line + "\n";
      if (!line.ends_with(';')) continue;
      released_.run(statement);
      statement.clear();
    }
  }

  /// Copies what the store of today has, as far as the released schema can keep it.
  void copy_messages() {
    for (const char* const queue : {"inbox", "outbox"}) {
      for (const char* const part : {"message", "work", "done", "run", "done_run", "done_count",
                                     "priority", "past_content"}) {
        copy_table(fmt::format("oncebox_{}_{}", queue, part));
      }
      for (const char* const part : {"numbers", "deliveries"}) {
        const std::string sequence = fmt::format("oncebox_{}_{}", queue, part);
        released_.run(fmt::format("SELECT setval('{{schema}}.{0}', last_value) FROM {1}.{0}",
                                  sequence, current_.schema()));
      }
    }
  }

  void copy_table(const std::string& table) {
    const std::string columns = released_.text(
        fmt::format("SELECT string_agg(column_name, ', ') FROM information_schema.columns "
                    "WHERE table_schema = '{{schema}}' AND table_name = '{}'",
                    table));
    released_.run(fmt::format(
        "INSERT INTO {{schema}}.{0} ({1}) SELECT {1} FROM {2}.{0} ON CONFLICT DO NOTHING", table,
        columns, current_.schema()));
  }

  TestSpace current_;
  TestSpace released_{"released"};
  testing::FakeClock clock_;
};

TEST_F(PostgresqlMigrationTest, MessagesInEveryStateOfTheLastReleaseAreKeptAndCanBeWorkedOn) {
  RecordProperty("requirement", "IBX-116,IBX-117,R-32");
  create_released_schema();
  std::optional<Delivery> in_inbox;
  std::optional<Delivery> in_outbox;
  conformance::QueueDump inbox_before;
  conformance::QueueDump outbox_before;
  {
    PostgresqlStore store(current_.options(), clock_);
    EveryState inbox(store.inbox(), store.inbox_operator(), clock_);
    EveryState outbox(store.outbox(), store.outbox_operator(), clock_);
    in_inbox = inbox.put();
    in_outbox = outbox.put();
    inbox_before = inbox.dump();
    outbox_before = outbox.dump();
  }
  copy_messages();
  const MigrationResult migrated = migrate(released_.options());
  EXPECT_EQ(migrated.from_version, 3);
  EXPECT_EQ(migrated.to_version, kSchemaVersion);

  PostgresqlStore store(released_.options(), clock_);
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
}  // namespace oncebox::postgresql
