// What a caller sees when the disk or a neighbour fails, and that work goes on afterwards.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "connection.hpp"
#include "faulty_disk.hpp"
#include "messages.hpp"
#include "oncebox/error.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox::sqlite {
namespace {

using namespace std::chrono_literals;

std::optional<Error> error_of(const std::function<void()>& call) {
  try {
    call();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

class SqliteFaults : public ::testing::Test {
 protected:
  [[nodiscard]] Options options() const {
    return {.path = folder_.file("oncebox.db"), .busy_timeout = 50ms, .vfs = FaultyDisk::vfs()};
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(SqliteFaults, LockHeldTooLongIsUnavailableAndRetryable) {
  RecordProperty("requirement", "IBX-104");
  SqliteStore store(options());
  store.inbox().enqueue(message("before"));
  Connection neighbour({.path = options().path});
  neighbour.execute("BEGIN IMMEDIATE");
  const auto started = std::chrono::steady_clock::now();
  const auto error = error_of([&] { store.inbox().enqueue(message("a")); });
  ASSERT_TRUE(error);
  EXPECT_GE(std::chrono::steady_clock::now() - started, 50ms) << "it waited for the deadline";
  EXPECT_EQ(error->code(), ErrorCode::unavailable) << error->what();
  EXPECT_TRUE(error->retryable());
  EXPECT_TRUE(store.inbox().find({"shop", "before"})) << "readers do not wait for the lock";
  EXPECT_EQ(store.health().status, HealthStatus::degraded);
  neighbour.execute("COMMIT");
  EXPECT_EQ(store.inbox().enqueue(message("a")).status, EnqueueStatus::accepted);
  EXPECT_EQ(store.health().status, HealthStatus::healthy);
}

TEST_F(SqliteFaults, DiskErrorWhileWritingIsUnavailableAndNothingChanged) {
  RecordProperty("requirement", "IBX-102");
  SqliteStore store(options());
  store.inbox().enqueue(message("before"));
  {
    const FaultyDisk disk(0, FaultyDisk::Fault::io_error);
    const auto error = error_of([&] { store.inbox().enqueue(message("a")); });
    ASSERT_TRUE(error);
    EXPECT_TRUE(error->retryable()) << error->what();
  }
  EXPECT_FALSE(store.inbox().find({"shop", "a"}));
  EXPECT_EQ(store.inbox().enqueue(message("a")).status, EnqueueStatus::accepted);
}

TEST_F(SqliteFaults, DiskErrorWhileFlushingLeavesTheOutcomeOpenAndRepeatingIsSafe) {
  RecordProperty("requirement", "IBX-013,IBX-102");
  SqliteStore store(options());
  store.inbox().enqueue(message("before"));
  {
    const FaultyDisk disk(0, FaultyDisk::Fault::flush_error);
    const auto error = error_of([&] { store.inbox().enqueue(message("a")); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::outcome_unknown) << error->what();
  }
  store.inbox().enqueue(message("a"));
  EXPECT_EQ(store.inbox_operator().count({.message_id = "a"}), 1U);
}

TEST_F(SqliteFaults, LogIsBegunAnewAfterAFailedFlush) {
  RecordProperty("requirement", "IBX-013");
  SqliteStore store(options());
  store.inbox().enqueue(message("before"));
  for (int i = 0; i < 10; ++i) store.inbox().enqueue(message("filler " + std::to_string(i)));
  const auto log_bytes = [&] { return std::filesystem::file_size(options().path + "-wal"); };
  const auto before = log_bytes();
  {
    const FaultyDisk disk(0, FaultyDisk::Fault::flush_error);
    ASSERT_TRUE(error_of([&] { store.inbox().enqueue(message("a")); }));
  }
  store.inbox().enqueue(message("a"));
  EXPECT_LT(log_bytes(), before) << "what may have a gap is not written to any further";
}

TEST_F(SqliteFaults, FullDiskIsOverloadedAndWorkGoesOnWhenThereIsSpace) {
  RecordProperty("requirement", "IBX-102");
  SqliteStore store(options());
  {
    const FaultyDisk disk(0, FaultyDisk::Fault::disk_full);
    const auto error = error_of([&] { store.inbox().enqueue(message("a")); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::overloaded) << error->what();
  }
  EXPECT_FALSE(store.inbox().find({"shop", "a"}));
  EXPECT_TRUE(store.inbox().claim({.owner = OwnerToken::generate()}).empty());
  for (int asked = 0; asked < 2; ++asked) {
    const FaultyDisk still_full(0, FaultyDisk::Fault::disk_full);
    EXPECT_EQ(store.health().status, HealthStatus::unavailable) << "a smaller write has succeeded";
  }
  EXPECT_EQ(store.health().status, HealthStatus::healthy) << "though nobody has written since";
  EXPECT_EQ(store.inbox().enqueue(message("a")).status, EnqueueStatus::accepted);
}

TEST_F(SqliteFaults, CallThatFailsTakesNothingFromThoseThatShareItsTransaction) {
  RecordProperty("requirement", "IBX-102");
  SqliteStore store(options());
  store.inbox().enqueue(message("collides"));
  Connection vandal({.path = options().path});
  vandal.execute("UPDATE oncebox_inbox_message SET source = 'somebody else'");
  constexpr int kCallers = 16;
  std::atomic<int> accepted = 0;
  std::atomic<int> refused = 0;
  {
    std::vector<std::jthread> callers;
    callers.reserve(kCallers);
    for (int i = 0; i < kCallers; ++i) {
      callers.emplace_back([&, i] {
        const bool bad = i % 4 == 0;
        const auto error = error_of([&] {
          store.inbox().enqueue(message(bad ? "collides" : std::to_string(i)));
          ++accepted;
        });
        if (bad && error && error->code() == ErrorCode::corrupt) ++refused;
      });
    }
  }
  EXPECT_EQ(refused, kCallers / 4);
  EXPECT_EQ(accepted, kCallers - kCallers / 4);
}

}  // namespace
}  // namespace oncebox::sqlite
