#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "audit.hpp"
#include "oncebox/testing/child_process.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox::crash {

using testing::ChildProcess;
using testing::exited_well;
using testing::was_killed;
using namespace workers;

/// A database in a folder of its own, and the processes that worked on it.
class CrashFixture : public ::testing::Test {
 protected:
  [[nodiscard]] std::string folder() const { return folder_.file(""); }
  [[nodiscard]] std::string database() const { return folder_.file("oncebox.db"); }
  [[nodiscard]] std::string ledger(std::size_t run) const;

  /// Begins the record of a new process and answers its number.
  std::size_t new_run();

  /// The command that starts a worker.
  [[nodiscard]] static std::vector<std::string> worker(std::vector<std::string> arguments);

  /// Notes the time, and kills it.
  void kill(ChildProcess& process, std::size_t run);

  /// Starts this command, waits for its end, and answers how it ended, as `waitpid` does. One that
  /// was killed was alive at its last line.
  int run_to_the_end(const std::vector<std::string>& command, std::size_t run);

  /// Lets a worker handle everything that is left.
  void drain();

  /// The file is sound, and fits to what the processes wrote down.
  void expect_all_well(Expect expect) const;

  [[nodiscard]] std::vector<WorkerRun> runs() const;
  [[nodiscard]] std::vector<Event> events(std::size_t run) const;

 private:
  testing::TemporaryFolder folder_;
  std::vector<std::optional<Instant>> killed_at_;  // of each run
};

}  // namespace oncebox::crash
