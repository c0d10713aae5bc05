#include "child_process.hpp"

#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <system_error>

namespace oncebox::crash {

ChildProcess::ChildProcess(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error = posix_spawnp(&pid_, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (error != 0) {
    throw std::runtime_error("cannot start " + command.front() + ": " +
                             std::generic_category().message(error));
  }
  pid_file_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (pid_file_ < 0) {
    const int reason = errno;
    kill();
    throw std::runtime_error("pidfd_open: " + std::generic_category().message(reason));
  }
}

ChildProcess::~ChildProcess() {
  kill();
  if (pid_file_ >= 0) close(pid_file_);
}

std::optional<int> ChildProcess::wait_for(std::chrono::milliseconds time) {
  if (status_) return status_;
  pollfd end{pid_file_, POLLIN, 0};
  const auto deadline = std::chrono::steady_clock::now() + time;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const int ready = poll(&end, 1, static_cast<int>(std::max(left.count(), 0L)));
    if (ready == 0) return std::nullopt;
    if (ready > 0) return kill();  // It has ended: this only fetches how.
    if (errno != EINTR) throw std::runtime_error("poll failed");
  }
}

int ChildProcess::kill() {
  if (status_) return *status_;
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  status_ = status;
  return status;
}

bool exited_well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

}  // namespace oncebox::crash
