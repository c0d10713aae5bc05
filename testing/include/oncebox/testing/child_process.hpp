#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace oncebox::testing {

struct ChildProcessOptions {
  /// Where both of its outputs go, from the file's beginning. Empty: where those of this program
  /// go.
  std::string output_file;

  /// What it reads: an open file of this program. Negative: what this program reads.
  int input = -1;

  /// The folder that it runs in. Empty: the one of this program.
  std::string folder;

  /// Variables of this program's environment whose names begin so are left out. Empty: none.
  std::string hidden_variables;
};

/// A program that runs beside the test, killed with this object.
class ChildProcess {
 public:
  /// The program is looked up in PATH. Throws when it cannot be started.
  explicit ChildProcess(const std::vector<std::string>& command,
                        const ChildProcessOptions& options = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// How it ended, as `waitpid` tells; nothing when it still runs after this time.
  std::optional<int> wait_for(std::chrono::milliseconds time);

  [[nodiscard]] int pid() const noexcept { return pid_; }

  /// SIGKILL, and waits for its end. Answers as `waitpid` does.
  int kill();

 private:
  int pid_ = -1;
  int pid_file_ = -1;
  std::optional<int> status_;
};

/// Of a status as `waitpid` tells it.
[[nodiscard]] bool exited_well(int status);
[[nodiscard]] bool was_killed(int status);

}  // namespace oncebox::testing
