// Crashes and disk errors at exact system calls, injected by strace. It counts the calls of each
// thread by itself: opening a store is the main thread's work, commits are the writer's.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "crash_fixture.hpp"
#include "sqlite_soundness.hpp"

namespace oncebox::crash {
namespace {

class SystemCall : public CrashFixture {
 protected:
  [[nodiscard]] std::string trace() const { return folder() + "trace"; }

  [[nodiscard]] std::vector<std::string> traced(const std::vector<std::string>& options,
                                                const std::vector<std::string>& command) const {
    std::vector<std::string> words{"strace", "--follow-forks", "--quiet=all",
                                   "--output=" + trace()};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  // Runs a worker with a fault such as "fdatasync:error=EIO:when=3".
  int run_with_fault(const std::string& fault, const std::string& mode, int count = 0) {
    const std::size_t run = new_run();
    const std::string call = fault.substr(0, fault.find(':'));
    return run_to_the_end(traced({"--trace=" + call, "--inject=" + fault},
                                 worker({mode, database(), ledger(run), std::to_string(count)})),
                          run);
  }

  void feed(int count) {
    const std::size_t run = new_run();
    const auto command = worker({"feed", database(), ledger(run), std::to_string(count)});
    EXPECT_TRUE(exited_well(run_to_the_end(command, run)));
  }

  // The codes of all errors that the last worker was given.
  [[nodiscard]] std::multiset<std::string> refusals() const {
    std::multiset<std::string> codes;
    for (const Event& event : runs().back().events) {
      if (event.kind == EventKind::refused) codes.insert(event.word);
    }
    return codes;
  }

  void expect_nothing_lost() { expect_all_well(Expect::unfinished_work); }
};

TEST_F(SystemCall, AnswerComesOnlyAfterItsMessageWasFlushed) {
  RecordProperty("requirement", "IBX-013");
  constexpr int kMessages = 10;
  const std::size_t run = new_run();
  const int status =
      run_to_the_end(traced({"--trace=pwrite64,fdatasync,write", "--decode-fds", "-s", "100"},
                            worker({"feed", database(), ledger(run), std::to_string(kMessages)})),
                     run);
  ASSERT_TRUE(exited_well(status));

  std::ifstream calls(trace());
  std::string line;
  bool dirty = false;
  int flushes = 0;
  int answers = 0;
  while (std::getline(calls, line)) {
    const auto has = [&](std::string_view text) { return line.find(text) != std::string::npos; };
    if (has("pwrite64(") && has("oncebox.db-wal>")) dirty = true;
    // Its result stands in a line of its own when another thread had a call in between.
    if (has("fdatasync") && line.ends_with(" = 0")) {
      dirty = false;
      ++flushes;
    }
    if (!has(" answered ")) continue;
    EXPECT_FALSE(dirty) << line;
    EXPECT_GT(flushes, 0) << "no flush since the answer before: " << line;
    flushes = 0;
    ++answers;
  }
  EXPECT_EQ(answers, kMessages);
}

TEST_F(SystemCall, OpeningAnExistingStoreWritesNothing) {
  // Else a process could not start, not even to read, while the disk is full or another one writes.
  feed(3);
  const std::size_t run = new_run();
  const int status = run_to_the_end(traced({"--trace=pwrite64,fdatasync", "--decode-fds"},
                                           worker({"feed", database(), ledger(run), "0"})),
                                    run);
  ASSERT_TRUE(exited_well(status));
  std::ifstream calls(trace());
  std::string line;
  while (std::getline(calls, line)) {
    // The index of the log is shared memory, and not kept.
    EXPECT_NE(line.find("oncebox.db-shm>"), std::string::npos) << line;
  }
}

TEST_F(SystemCall, FailedFlushIsAnErrorAndWorkGoesOn) {
  RecordProperty("requirement", "IBX-013");
  feed(0);  // makes the tables, so that the faults strike messages
  EXPECT_TRUE(exited_well(run_with_fault("fdatasync:error=EIO:when=3+4", "feed", 20)));
  EXPECT_GT(refusals().count("outcome_unknown"), 0U);
  EXPECT_EQ(refusals().count("outcome_unknown") + refusals().count("unavailable"),
            refusals().size());
  expect_nothing_lost();
}

TEST_F(SystemCall, AfterAFailedFlushAndACrashTheCallCanBeRepeated) {
  RecordProperty("requirement", "IBX-013");
  feed(0);
  // The second flush is that of the folder, on which SQLite does not insist.
  for (const int n : {1, 3, 4, 5, 6, 7}) {
    SCOPED_TRACE(n);
    const std::string fault = fmt::format("fdatasync:error=EIO:when={}", n);
    EXPECT_TRUE(was_killed(run_with_fault(fault, "feed-once", 10 * n)));
    EXPECT_EQ(refusals(), std::multiset<std::string>{"outcome_unknown"});
    feed(10 * n);
    expect_nothing_lost();
  }
}

TEST_F(SystemCall, FullDiskIsOverloadAndWorkGoesOn) {
  RecordProperty("requirement", "IBX-013");
  feed(0);
  EXPECT_TRUE(exited_well(run_with_fault("pwrite64:error=ENOSPC:when=15..45", "feed", 20)));
  EXPECT_GT(refusals().count("overloaded"), 0U);
  EXPECT_EQ(refusals().count("overloaded"), refusals().size());
  expect_nothing_lost();
}

TEST_F(SystemCall, FailedWriteIsAnErrorAndWorkGoesOn) {
  RecordProperty("requirement", "IBX-013");
  feed(0);
  // Seldom enough for the log to be mended in between, which takes some writes itself.
  EXPECT_TRUE(exited_well(run_with_fault("pwrite64:error=EIO:when=10+150", "feed", 60)));
  EXPECT_GT(refusals().count("outcome_unknown") + refusals().count("unavailable"), 0U);
  EXPECT_EQ(refusals().count("outcome_unknown") + refusals().count("unavailable"),
            refusals().size());
  expect_nothing_lost();
}

TEST_F(SystemCall, TablesThatCouldNotBeMadeAreMadeTheNextTime) {
  int failures = 0;
  for (int n = 1; n <= 12; ++n) {
    SCOPED_TRACE(n);
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
      std::filesystem::remove(database() + suffix);
    }
    const std::string fault = fmt::format("fdatasync:error=EIO:when={}", n);
    if (!exited_well(run_with_fault(fault, "feed", 0))) ++failures;
    feed(3);
    expect_sound(database());
  }
  EXPECT_GE(failures, 5);
}

TEST_F(SystemCall, KillAtAnyFlushLosesNothing) {
  RecordProperty("requirement", "IBX-013, R-25");
  // In the first rounds it strikes while the tables are made, later while messages are stored.
  int kills = 0;
  for (int n = 1; n <= 16; ++n) {
    SCOPED_TRACE(n);
    if (was_killed(
            run_with_fault(fmt::format("fdatasync:signal=KILL:when={}", n), "feed", 5 * n))) {
      ++kills;
    }
  }
  EXPECT_GE(kills, 12);
  feed(90);
  expect_nothing_lost();
}

TEST_F(SystemCall, KillAtAnyWriteLosesNothing) {
  RecordProperty("requirement", "IBX-013, R-25");
  const auto expect_kill = [&](int n, int count) {
    SCOPED_TRACE(n);
    const std::string fault = fmt::format("pwrite64:signal=KILL:when={}", n);
    EXPECT_TRUE(was_killed(run_with_fault(fault, "feed", count)));
  };
  for (int n = 1; n <= 73; n += 8) expect_kill(n, 0);  // while the tables are made
  feed(0);
  for (int n = 1; n <= 45; n += 4) expect_kill(n, 5 * n);  // while messages are stored
  feed(230);
  expect_nothing_lost();
}

TEST_F(SystemCall, KillWhileVerdictsAreRecordedLosesNone) {
  RecordProperty("requirement", "IBX-106, R-14, R-25");
  feed(100);
  int kills = 0;
  for (int n = 1; n <= 4; ++n) {
    for (const std::string& fault : {fmt::format("fdatasync:signal=KILL:when={}", n),
                                     fmt::format("pwrite64:signal=KILL:when={}", 10 * n)}) {
      if (was_killed(run_with_fault(fault, "drain"))) ++kills;
    }
  }
  EXPECT_GE(kills, 4);
  expect_nothing_lost();
  drain();
  expect_all_well(Expect::everything_ended);
}

TEST_F(SystemCall, DispatcherGoesOnWhileFlushesFail) {
  RecordProperty("requirement", "IBX-106, R-14");
  feed(100);
  EXPECT_TRUE(exited_well(run_with_fault("fdatasync:error=EIO:when=2+3", "drain")));
  expect_all_well(Expect::everything_ended);
}

}  // namespace
}  // namespace oncebox::crash
