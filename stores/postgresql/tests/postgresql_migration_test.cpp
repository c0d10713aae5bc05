// Schemas of released versions are brought up to date with messages in every state.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "oncebox/conformance/every_state.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "schema.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using conformance::EveryState;
using conformance::PastAttempts;

struct ReleasedSchema {
  int version;
  PastAttempts attempts;           ///< and workers, and rules for topics
  std::vector<const char*> files;  ///< which make its schema, one after the other
};

class PostgresqlMigrationTest : public ::testing::TestWithParam<ReleasedSchema> {
 protected:
  void create_released_schema() {
    for (const char* const file : GetParam().files) run_file(file);
  }

  void run_file(const char* name) {
    std::ifstream file(std::string(ONCEBOX_POSTGRESQL_RELEASED "/") + name);
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
      std::vector<const char*> parts{"message",  "work",       "done",     "run",
                                     "done_run", "done_count", "priority", "past_content"};
      if (keeps_attempts()) parts.insert(parts.end(), {"worker", "attempt"});
      for (const char* const part : parts) copy_table(fmt::format("oncebox_{}_{}", queue, part));
      for (const char* const part : {"numbers", "deliveries"}) {
        const std::string sequence = fmt::format("oncebox_{}_{}", queue, part);
        released_.run(fmt::format("SELECT setval('{{schema}}.{0}', last_value) FROM {1}.{0}",
                                  sequence, current_.schema()));
      }
      if (keeps_attempts()) continue_identity(fmt::format("oncebox_{}_worker", queue));
    }
    if (!keeps_attempts()) return;
    for (const char* const table : {"topic_policy", "policy_version"}) {
      copy_table(fmt::format("oncebox_{}", table));
    }
  }

  [[nodiscard]] static bool keeps_attempts() { return GetParam().attempts == PastAttempts::kept; }

  /// So that new rows have numbers that those which were copied have not.
  void continue_identity(const std::string& table) {
    released_.run(
        fmt::format("SELECT setval(pg_get_serial_sequence('{{schema}}.{0}', 'id'), "
                    "max(id)) FROM {{schema}}.{0}",
                    table));
  }

  void copy_table(const std::string& table) {
    const std::string columns = released_.text(
        fmt::format("SELECT string_agg(column_name, ', ') FROM information_schema.columns "
                    "WHERE table_schema = '{{schema}}' AND table_name = '{}'",
                    table));
    released_.run(fmt::format("DELETE FROM {{schema}}.{}", table));
    released_.run(fmt::format(
        "INSERT INTO {{schema}}.{0} ({1}) OVERRIDING SYSTEM VALUE SELECT {1} FROM {2}.{0}", table,
        columns, current_.schema()));
  }

  TestSpace current_;
  TestSpace released_{"released"};
  testing::FakeClock clock_;
};

INSTANTIATE_TEST_SUITE_P(
    Releases, PostgresqlMigrationTest,
    ::testing::Values(ReleasedSchema{3, PastAttempts::forgotten, {"schema_3.sql"}},
                      ReleasedSchema{5, PastAttempts::kept, {"schema_3.sql", "schema_5.sql"}}),
    [](const auto& release) { return "version" + std::to_string(release.param.version); });

TEST_P(PostgresqlMigrationTest, MessagesInEveryStateAreKeptAndCanBeWorkedOn) {
  RecordProperty("requirement", "IBX-116,IBX-117,R-32");
  const PastAttempts attempts = GetParam().attempts;
  create_released_schema();
  std::optional<Delivery> in_inbox;
  std::optional<Delivery> in_outbox;
  conformance::QueueDump inbox_before;
  conformance::QueueDump outbox_before;
  std::vector<WorkerRecord> workers_before;
  const TopicPolicy rule{.max_attempts = 7};
  {
    PostgresqlStore store(current_.options(), clock_);
    EveryState inbox(store.inbox(), store.inbox_operator(), clock_);
    EveryState outbox(store.outbox(), store.outbox_operator(), clock_);
    store.policies().update(QueueKind::inbox, "dead", rule.as_change());
    in_inbox = inbox.put();
    in_outbox = outbox.put();
    inbox_before = inbox.dump(attempts);
    outbox_before = outbox.dump(attempts);
    workers_before = store.inbox_operator().workers();
  }
  copy_messages();
  const MigrationResult migrated = migrate(released_.options());
  EXPECT_EQ(migrated.from_version, GetParam().version);
  EXPECT_EQ(migrated.to_version, kSchemaVersion);

  PostgresqlStore store(released_.options(), clock_);
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
}  // namespace oncebox::postgresql
