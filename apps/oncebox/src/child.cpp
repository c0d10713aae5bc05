#include "child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "oncebox/internal/descriptor.hpp"
#include "pipe.hpp"

namespace oncebox::app {
namespace {

using detail::Descriptor;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kMaxLineBytes = 2'048;

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

/// What a new process needs on its way to its program.
struct Birth {
  const CommandGuard& guard;
  pid_t parent;
  int input;
  int errors;
  int reply;
  int failure;  ///< takes the reason why the program cannot be executed
  char* const* arguments;
  char* const* environment;
};

/// The way of a new process. It shares our memory until exec, while the thread that made it waits:
/// it may call nothing that takes memory or a lock.
[[noreturn]] void become_program(const Birth& birth) noexcept {
  constexpr int kReply = STDERR_FILENO + 1;  // as `kReplyPath` says
  constexpr int kFailure = kReply + 1;
  static_assert(kFailure == kHighestOfChild);
  setpgid(0, 0);
  birth.guard.watch_own_group();
  std::signal(SIGPIPE, SIG_IGN);  // forgets the one that a dead guard causes, which is blocked
  // In case the guard dies with us. The kernel sends it when the thread that made this process
  // ends, and that thread waits for the program.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != birth.parent) _exit(EXIT_FAILURE);
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  dup2(birth.input, STDIN_FILENO);
  dup2(birth.errors, STDERR_FILENO);
  dup2(birth.reply, kReply);
  dup3(birth.failure, kFailure, O_CLOEXEC);
  closefrom(kFailure + 1);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  execvpe(birth.arguments[0], birth.arguments, birth.environment);
  const int error = errno;
  (void)!write(kFailure, &error, sizeof(error));
  _exit(EXIT_FAILURE);
}

/// The new process; negative when there is none. Like posix_spawn, which cannot tell the guard: a
/// fork would copy the tables of our memory for every command.
pid_t give_birth(const Birth& birth) noexcept {
  // None of our handlers may run in the new process, where it would write to our memory.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // NOLINTNEXTLINE(bugprone-unsafe-functions,clang-analyzer-security.insecureAPI.vfork): see above
  const pid_t pid = vfork();
  if (pid == 0) become_program(birth);  // NOLINT(clang-analyzer-unix.Vfork): it is made for that
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return pid;
}

/// Cuts a stream into lines.
class Lines {
 public:
  Lines() = default;
  explicit Lines(const std::function<void(std::string_view)>& on_line) : on_line_(&on_line) {}

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
    if (on_line_ != nullptr) (*on_line_)(line_);
    if (line_.find_first_not_of(" \t\r") != std::string::npos) last_ = line_;
    line_.clear();
  }

  const std::function<void(std::string_view)>* on_line_ = nullptr;  // null: nobody wants them
  std::string line_;
  std::string last_;
};

/// One run of a program, from its start to its end.
class Child {
 public:
  Child(const ChildRequest& request, CommandGuard& guard,
        const std::function<void(std::string_view)>& on_error_line)
      : request_(request),
        guard_(guard),
        wake_(moved_up(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
        rest_of_input_(request.input),
        error_lines_(on_error_line) {
    Pipe input = make_pipe();
    Pipe errors = make_pipe();
    Pipe reply = make_pipe();
    start(input.reading, errors.writing, reply.writing);
    process_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    if (!process_.is_open()) {
      const int reason = errno;
      end_now();
      refuse_start("the command cannot be watched", reason);
    }
    input_ = std::move(input.writing);
    errors_ = std::move(errors.reading);
    reply_ = std::move(reply.reading);
    make_nonblocking(input_);
    make_nonblocking(errors_);
    make_nonblocking(reply_);
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
    read_lines(errors_, error_lines_);
    read_lines(reply_, reply_lines_);
    return result();
  }

 private:
  void start(const Descriptor& input, const Descriptor& errors, const Descriptor& reply) {
    Pipe failure = make_pipe();
    const std::vector<char*> arguments = pointers_to(request_.command);
    const std::vector<char*> environment = pointers_to(request_.environment);
    pid_ = give_birth({.guard = guard_,
                       .parent = getpid(),
                       .input = input.get(),
                       .errors = errors.get(),
                       .reply = reply.get(),
                       .failure = failure.writing.get(),
                       .arguments = arguments.data(),
                       .environment = environment.data()});
    if (pid_ < 0) refuse_start("no process can be made", errno);
    failure.writing.reset();
    int reason = 0;
    ssize_t count = 0;
    do {
      count = read(failure.reading.get(), &reason, sizeof(reason));
    } while (count < 0 && errno == EINTR);
    if (count <= 0) return;  // executing the program has closed the pipe
    end_now();
    refuse_start("the command cannot be started", reason);
  }

  /// Waits for something to happen and deals with it; true when the child has ended.
  bool step(const std::stop_token& stop) {
    std::array<pollfd, 5> files{pollfd{process_.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0},
                                pollfd{errors_.get(), POLLIN, 0}, pollfd{input_.get(), POLLOUT, 0},
                                pollfd{reply_.get(), POLLIN, 0}};
    if (poll(files.data(), files.size(), poll_timeout_ms()) < 0 && errno != EINTR) {
      refuse_start("the command cannot be waited for", errno);
    }
    if (files[1].revents != 0) {
      eventfd_t ignored = 0;
      eventfd_read(wake_.get(), &ignored);
    }
    if (files[2].revents != 0) read_lines(errors_, error_lines_);
    if (files[3].revents != 0) write_input();
    if (files[4].revents != 0) read_lines(reply_, reply_lines_);
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
  static void read_lines(Descriptor& pipe, Lines& lines) {
    constexpr std::size_t kPipeBytes = 64 << 10;
    std::array<char, 4'096> part{};
    for (std::size_t bytes = 0; pipe.is_open() && bytes < kPipeBytes;) {
      const ssize_t count = read(pipe.get(), part.data(), part.size());
      if (count > 0) {
        lines.add({part.data(), static_cast<std::size_t>(count)});
        bytes += static_cast<std::size_t>(count);
      } else if (count == 0) {
        pipe.reset();
      } else if (errno != EINTR) {
        return;
      }
    }
  }

  /// Waits for its end, and answers its status.
  int reap() noexcept {
    // In this order: the number is its own until it is reaped.
    guard_.forget(pid_);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
    return status;
  }

  ChildResult result() {
    const int status = reap();
    ChildResult result{
        .end = end_, .last_error_line = error_lines_.finish(), .reply = reply_lines_.finish()};
    if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    if (end_ == ChildResult::End::exited && result.signal != 0) {
      result.end = ChildResult::End::killed;
    }
    return result;
  }

  void end_now() noexcept {
    kill(-pid_, SIGKILL);
    (void)reap();
  }

  const ChildRequest& request_;
  CommandGuard& guard_;
  Descriptor wake_;
  std::string_view rest_of_input_;
  Lines error_lines_;
  Lines reply_lines_;
  pid_t pid_ = -1;
  Descriptor process_;
  Descriptor input_;
  Descriptor errors_;
  Descriptor reply_;
  std::optional<SteadyClock::time_point> act_at_ = {};
  bool asked_to_end_ = false;
  bool reaped_ = false;
  ChildResult::End end_ = ChildResult::End::exited;
};

}  // namespace

ChildResult run_child(const ChildRequest& request, CommandGuard& guard, const std::stop_token& stop,
                      const std::function<void(std::string_view)>& on_error_line) {
  Child child(request, guard, on_error_line);
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
