#include "peer_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace oncebox::sqlite {

PeerProcess::PeerProcess(const std::string& command) {
  std::array<int, 2> to_peer{};
  std::array<int, 2> from_peer{};
  // Close-on-exec: another peer that is started meanwhile must not keep this one's input open.
  if (pipe2(to_peer.data(), O_CLOEXEC) != 0 || pipe2(from_peer.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("cannot make a pipe");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_peer[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_peer[1], STDOUT_FILENO);
  const std::string line = "exec " + command;
  const std::array<const char*, 4> arguments{"sh", "-c", line.c_str(), nullptr};
  const int failed = posix_spawn(&process_, "/bin/sh", &actions, nullptr,
                                 const_cast<char* const*>(arguments.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to_peer[0]);
  close(from_peer[1]);
  input_ = fdopen(to_peer[1], "w");
  output_ = fdopen(from_peer[0], "r");
  if (failed != 0 || read_line().empty()) throw std::runtime_error("cannot start " + command);
}

PeerProcess::~PeerProcess() {
  finish();
  if (output_ != nullptr) std::fclose(output_);
}

std::string PeerProcess::read_line() {
  std::string line;
  for (int c = std::fgetc(output_); c != EOF && c != '\n'; c = std::fgetc(output_)) {
    line += static_cast<char>(c);
  }
  return line;
}

int PeerProcess::finish() {
  if (input_ == nullptr) return 0;
  std::fclose(input_);
  input_ = nullptr;
  int status = 0;
  waitpid(process_, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace oncebox::sqlite
