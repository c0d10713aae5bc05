#include "oncebox/testing/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace oncebox::testing {

namespace {

// What posix_spawn does in the child before it becomes the other program.
class FileActions {
 public:
  explicit FileActions(const ChildProcessOptions& options) {
    posix_spawn_file_actions_init(&actions_);
    if (options.input >= 0) {
      posix_spawn_file_actions_adddup2(&actions_, options.input, STDIN_FILENO);
    }
    if (!options.output_file.empty()) {
      posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, options.output_file.c_str(),
                                       O_WRONLY | O_CREAT | O_TRUNC, 0600);
      posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    }
    if (!options.folder.empty()) {
      posix_spawn_file_actions_addchdir_np(&actions_, options.folder.c_str());
    }
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

std::vector<char*> environment_without(const std::string& hidden_variables) {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool hidden =
        !hidden_variables.empty() && std::string_view(*variable).starts_with(hidden_variables);
    if (!hidden) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           const ChildProcessOptions& options) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<char*> environment = environment_without(options.hidden_variables);
  const FileActions actions(options);
  const int error = posix_spawnp(&pid_, arguments[0], actions.get(), nullptr, arguments.data(),
                                 environment.data());
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

}  // namespace oncebox::testing
