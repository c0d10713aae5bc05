#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace oncebox::crash {

/// A program that runs beside the test, killed with this object.
class ChildProcess {
 public:
  /// The program is looked up in PATH. Throws when it cannot be started.
  explicit ChildProcess(const std::vector<std::string>& command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// How it ended, as `waitpid` tells; nothing when it still runs after this time.
  std::optional<int> wait_for(std::chrono::milliseconds time);

  /// SIGKILL, and waits for its end. Answers as `waitpid` does.
  int kill();

 private:
  pid_t pid_ = -1;
  int pid_file_ = -1;
  std::optional<int> status_;
};

[[nodiscard]] bool exited_well(int status);
[[nodiscard]] bool was_killed(int status);

}  // namespace oncebox::crash
