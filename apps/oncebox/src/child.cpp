#include "child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/internal/descriptor.hpp"

namespace oncebox::app {
namespace {

using detail::Descriptor;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kMaxLineBytes = 2'048;

[[noreturn]] void refuse_start(std::string_view what, int error) {
  throw Error(ErrorCode::unavailable, fmt::format("{}: {}", what, std::strerror(error)));
}

struct Pipe {
  Descriptor reading;
  Descriptor writing;
};

/// Above the three that a child has, so that none of them is overwritten while they are moved.
Descriptor moved_up(int descriptor) {
  if (descriptor > STDERR_FILENO) return Descriptor(descriptor);
  const int higher = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(descriptor);
  if (higher < 0) refuse_start("no more files can be opened", errno);
  return Descriptor(higher);
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) refuse_start("no pipe can be made", errno);
  return {moved_up(ends[0]), moved_up(ends[1])};
}

void make_nonblocking(const Descriptor& descriptor) {
  fcntl(descriptor.get(), F_SETFL, fcntl(descriptor.get(), F_GETFL) | O_NONBLOCK);
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// What posix_spawn wants to know, released with this object.
class SpawnSettings {
 public:
  SpawnSettings(const Descriptor& input, const Descriptor& errors) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_adddup2(&files_, input.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files_, errors.get(), STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1);

    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* files() const noexcept { return &files_; }
  [[nodiscard]] const posix_spawnattr_t* attributes() const noexcept { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

/// Cuts a stream into lines.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& on_line) : on_line_(on_line) {}

  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      if (byte == '\n') {
        end_line();
      } else if (line_.size() < kMaxLineBytes) {
        line_ += byte;
      }
    }
  }
  /// The last line that was not empty.
  [[nodiscard]] std::string finish() {
    if (!line_.empty()) end_line();
    return std::move(last_);
  }

 private:
  void end_line() {
    on_line_(line_);
    if (line_.find_first_not_of(" \t\r") != std::string::npos) last_ = line_;
    line_.clear();
  }

  const std::function<void(std::string_view)>& on_line_;
  std::string line_;
  std::string last_;
};

/// One run of a program, from its start to its end.
class Child {
 public:
  Child(const ChildRequest& request, const std::function<void(std::string_view)>& on_error_line)
      : request_(request),
        wake_(moved_up(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
        rest_of_input_(request.input),
        lines_(on_error_line) {
    Pipe input = make_pipe();
    Pipe errors = make_pipe();
    const SpawnSettings settings(input.reading, errors.writing);
    const std::vector<char*> arguments = pointers_to(request.command);
    const std::vector<char*> environment = pointers_to(request.environment);
    const int error = posix_spawnp(&pid_, arguments[0], settings.files(), settings.attributes(),
                                   arguments.data(), environment.data());
    if (error != 0) refuse_start("the command cannot be started", error);
    process_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    if (!process_.is_open()) {
      const int reason = errno;
      end_now();
      refuse_start("the command cannot be watched", reason);
    }
    input_ = std::move(input.writing);
    errors_ = std::move(errors.reading);
    make_nonblocking(input_);
    make_nonblocking(errors_);
    if (rest_of_input_.empty()) input_.reset();
    if (request.timeout > Duration::zero()) act_at_ = SteadyClock::now() + request.timeout;
  }
  ~Child() {
    if (!reaped_) end_now();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  ChildResult run(const std::stop_token& stop) {
    const std::stop_callback wake_up(stop, [this] { eventfd_write(wake_.get(), 1); });
    while (!step(stop)) {
    }
    // What it left behind in its group has nobody to answer to when it did not end by itself. The
    // group cannot be another's: the child is not reaped yet.
    if (asked_to_end_) kill(-pid_, SIGKILL);
    read_errors();
    return result();
  }

 private:
  /// Waits for something to happen and deals with it; true when the child has ended.
  bool step(const std::stop_token& stop) {
    std::array<pollfd, 4> files{pollfd{process_.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0},
                                pollfd{errors_.get(), POLLIN, 0}, pollfd{input_.get(), POLLOUT, 0}};
    if (poll(files.data(), files.size(), poll_timeout_ms()) < 0 && errno != EINTR) {
      refuse_start("the command cannot be waited for", errno);
    }
    if (files[1].revents != 0) {
      eventfd_t ignored = 0;
      eventfd_read(wake_.get(), &ignored);
    }
    if (files[2].revents != 0) read_errors();
    if (files[3].revents != 0) write_input();
    if (files[0].revents != 0) return true;
    if (stop.stop_requested() && !asked_to_end_) {
      end_ = ChildResult::End::stopped;
      ask_to_end();
    } else if (act_at_ && SteadyClock::now() >= *act_at_) {
      act();
    }
    return false;
  }

  [[nodiscard]] int poll_timeout_ms() const {
    if (!act_at_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*act_at_ - SteadyClock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
  }

  /// The time for the next harsher step has come.
  void act() {
    if (!asked_to_end_) {
      end_ = ChildResult::End::timed_out;
      ask_to_end();
    } else {
      kill(-pid_, SIGKILL);
      act_at_.reset();
    }
  }

  void ask_to_end() {
    asked_to_end_ = true;
    kill(-pid_, SIGTERM);
    act_at_ = SteadyClock::now() + request_.grace;
  }

  void write_input() {
    while (!rest_of_input_.empty()) {
      const ssize_t count = write(input_.get(), rest_of_input_.data(), rest_of_input_.size());
      if (count < 0 && errno == EAGAIN) return;
      if (count < 0 && errno == EINTR) continue;
      // A child that does not read all of it is free not to.
      if (count < 0) break;
      rest_of_input_.remove_prefix(static_cast<std::size_t>(count));
    }
    input_.reset();
  }

  /// Reads what is there now, and no more than a pipe holds: the child may write without end, and
  /// its own children may hold the pipe open after it has ended.
  void read_errors() {
    constexpr std::size_t kPipeBytes = 64 << 10;
    std::array<char, 4'096> part{};
    for (std::size_t bytes = 0; errors_.is_open() && bytes < kPipeBytes;) {
      const ssize_t count = read(errors_.get(), part.data(), part.size());
      if (count > 0) {
        lines_.add({part.data(), static_cast<std::size_t>(count)});
        bytes += static_cast<std::size_t>(count);
      } else if (count == 0) {
        errors_.reset();
      } else if (errno != EINTR) {
        return;
      }
    }
  }

  ChildResult result() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
    ChildResult result{.end = end_, .last_error_line = lines_.finish()};
    if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    if (end_ == ChildResult::End::exited && result.signal != 0) {
      result.end = ChildResult::End::killed;
    }
    return result;
  }

  void end_now() noexcept {
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
  }

  const ChildRequest& request_;
  Descriptor wake_;
  std::string_view rest_of_input_;
  Lines lines_;
  pid_t pid_ = -1;
  Descriptor process_;
  Descriptor input_;
  Descriptor errors_;
  std::optional<SteadyClock::time_point> act_at_ = {};
  bool asked_to_end_ = false;
  bool reaped_ = false;
  ChildResult::End end_ = ChildResult::End::exited;
};

}  // namespace

ChildResult run_child(const ChildRequest& request, const std::stop_token& stop,
                      const std::function<void(std::string_view)>& on_error_line) {
  Child child(request, on_error_line);
  return child.run(stop);
}

bool is_executable(const std::string& program) {
  const auto is_program = [](const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) return is_program(program);
  const char* variable = std::getenv("PATH");
  std::string_view folders = variable != nullptr ? variable : "/usr/bin:/bin";
  while (true) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    if (is_program(std::filesystem::path(folders.substr(0, end)) / program)) return true;
    if (end == folders.size()) return false;
    folders.remove_prefix(end + 1);
  }
}

}  // namespace oncebox::app
