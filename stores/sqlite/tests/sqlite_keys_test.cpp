// What the table of keys looks like from outside, and what happens when somebody else wrote to it.
// What the calls mean is shown by the conformance suite.

#include "sqlite_keys.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "oncebox/error.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "schema.hpp"

namespace oncebox::sqlite {
namespace {

using namespace std::chrono_literals;

ConnectionOptions options(const std::string& path, Access access) {
  return {.path = path, .access = access};
}

class SqliteKeysTest : public ::testing::Test {
 protected:
  SqliteKeysTest()
      : path_(folder_.file("keys.db")),
        connection_(options(path_, Access::read_write)),
        raw_(options(path_, Access::read_write)) {
    connection_.execute("PRAGMA journal_mode = WAL");
    migrate(connection_);
    readers_.emplace(options(path_, Access::read_only), 1);
    writer_.emplace(connection_, 100, [](Writer::Ending) {});
    keys_.emplace(connection_, *writer_, *readers_, clock_);
  }

  [[nodiscard]] SqliteKeys& keys() { return *keys_; }
  /// A connection of somebody else.
  [[nodiscard]] Connection& raw() { return raw_; }
  [[nodiscard]] std::int64_t rows() {
    return raw_.query_integer("SELECT count(*) FROM oncebox_key");
  }
  void advance(Duration by) { clock_.advance(by); }

  LeaseId acquire(const char* key) { return keys().begin({.key = key}).lease_id.value(); }

  void expect_corrupt(std::string_view what, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << what << " got through";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << what << ": " << error.what();
    }
  }

  /// Every call that looks at the key "a".
  void expect_every_call_corrupt() {
    const LeaseId lease_id = LeaseId::generate();
    expect_corrupt("begin", [&] { keys().begin({.key = "a"}); });
    expect_corrupt("complete", [&] { keys().complete({.key = "a"}); });
    expect_corrupt("fail", [&] { keys().fail({.key = "a", .lease_id = lease_id, .error = "x"}); });
    expect_corrupt("release", [&] { keys().release({.key = "a", .lease_id = lease_id}); });
    expect_corrupt("extend", [&] { keys().extend({.key = "a", .lease_id = lease_id}); });
    expect_corrupt("find", [&] { (void)keys().find("a"); });
  }

 private:
  const testing::TemporaryFolder folder_;
  const std::string path_;
  testing::FakeClock clock_;
  Connection connection_;
  Connection raw_;
  std::optional<ReaderPool> readers_;
  std::optional<Writer> writer_;
  std::optional<SqliteKeys> keys_;
};

TEST_F(SqliteKeysTest, KeyIsNeverTakenForAnotherOneWithTheSameHash) {
  acquire("a");
  raw().execute("UPDATE oncebox_key SET key = 'another'");
  expect_every_call_corrupt();
  EXPECT_EQ(raw().query_text("SELECT key FROM oncebox_key"), "another");
  EXPECT_EQ(raw().query_integer("SELECT attempts FROM oncebox_key"), 1);
}

TEST_F(SqliteKeysTest, BatchThatMeetsAnotherKeyChangesNothing) {
  acquire("a");
  raw().execute("UPDATE oncebox_key SET key = 'another'");
  const std::vector<BeginRequest> batch{{.key = "before"}, {.key = "a"}, {.key = "after"}};
  expect_corrupt("begin", [&] { keys().begin(batch); });
  EXPECT_EQ(rows(), 1);
  EXPECT_EQ(keys().begin({.key = "before"}).status, BeginStatus::acquired) << "the store goes on";
}

TEST_F(SqliteKeysTest, RowThatContradictsItselfIsReported) {
  for (const char* damage : {"status = 4", "status = -1", "lease_id = x'00'", "lease_id = x''",
                             "lease_id = zeroblob(16)"}) {
    SCOPED_TRACE(damage);
    raw().execute("DELETE FROM oncebox_key");
    acquire("a");
    raw().execute(std::string("UPDATE oncebox_key SET ") + damage);
    expect_every_call_corrupt();
  }
}

TEST_F(SqliteKeysTest, NumbersOfTheStatusesAreTheSameInEveryVersion) {
  acquire("0");
  keys().release({.key = "1", .lease_id = acquire("1")});
  keys().fail({.key = "2", .lease_id = acquire("2"), .error = "no route"});
  keys().complete({.key = "3", .lease_id = acquire("3")});
  EXPECT_EQ(rows(), 4);
  EXPECT_EQ(raw().query_integer("SELECT count(*) FROM oncebox_key WHERE key = status"), 4);
}

TEST_F(SqliteKeysTest, ResultIsStoredByteForByte) {
  const std::string result("\0a\0\xFF\0", 5);
  keys().complete({.key = "a", .result = result});
  EXPECT_EQ(raw().query_text("SELECT hex(result) FROM oncebox_key"), "006100FF00");
  EXPECT_EQ(keys().find("a").value().result, result);
  EXPECT_EQ(keys().begin({.key = "a"}).result, result);
}

TEST_F(SqliteKeysTest, ForgottenKeyIsBegunAnewInItsOldRow) {
  keys().complete({.key = "a", .result = "old", .retention = 1h});
  const std::int64_t id = raw().query_integer("SELECT id FROM oncebox_key");
  advance(1h);
  acquire("a");
  EXPECT_EQ(rows(), 1);
  EXPECT_EQ(raw().query_integer("SELECT id FROM oncebox_key WHERE result IS NULL"), id);
}

TEST_F(SqliteKeysTest, CleanupTakesWhatWasForgottenFirst) {
  keys().complete({.key = "later", .retention = 2h});
  keys().complete({.key = "first", .retention = 1h});
  keys().complete({.key = "kept", .retention = 3h});
  advance(2h);
  EXPECT_EQ(keys().cleanup(1), 1U);
  EXPECT_EQ(raw().query_text("SELECT group_concat(key) FROM oncebox_key"), "later,kept");
  EXPECT_EQ(keys().cleanup(10), 1U);
  EXPECT_EQ(raw().query_text("SELECT key FROM oncebox_key"), "kept");
}

}  // namespace
}  // namespace oncebox::sqlite
