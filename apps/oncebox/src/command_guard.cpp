#include "command_guard.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>
#include <utility>

#include "pipe.hpp"

namespace oncebox::app {
namespace {

/// A group's number; with a minus once the group has ended. Written and read in one piece, as
/// everything is that a pipe takes whole.
using GuardMessage = pid_t;

bool tell_guard(const detail::Descriptor& pipe, GuardMessage message) noexcept {
  ssize_t count = 0;
  do {
    count = write(pipe.get(), &message, sizeof(message));
  } while (count < 0 && errno == EINTR);
  return count == sizeof(message);
}

/// What the guard does, from its birth to its end.
[[noreturn]] void guard_commands(int pipe) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  setsid();
  prctl(PR_SET_NAME, "oncebox-guard");
  // It keeps nothing of ours open: no output that others wait for the end of, no folder.
  dup2(pipe, STDIN_FILENO);
  closefrom(STDIN_FILENO + 1);
  (void)!chdir("/");
  std::set<pid_t> groups;
  GuardMessage message = 0;
  while (read(STDIN_FILENO, &message, sizeof(message)) == sizeof(message)) {
    if (message > 0) {
      groups.insert(message);
    } else {
      groups.erase(-message);
    }
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

CommandGuard::CommandGuard() {
  Pipe pipe = make_pipe();
  pid_ = fork();
  if (pid_ < 0) refuse_start("the guard of the commands cannot be started", errno);
  if (pid_ == 0) guard_commands(pipe.reading.get());
  pipe_ = std::move(pipe.writing);
}

CommandGuard::~CommandGuard() {
  pipe_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void CommandGuard::watch_own_group() const noexcept { (void)tell_guard(pipe_, getpid()); }

void CommandGuard::forget(pid_t group) noexcept {
  if (!tell_guard(pipe_, -group)) is_there_ = false;
}

}  // namespace oncebox::app
