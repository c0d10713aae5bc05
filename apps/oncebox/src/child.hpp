#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "command_guard.hpp"
#include "oncebox/clock.hpp"

namespace oncebox::app {

/// A program to be run once: in a process group of its own, with nothing open but its standard
/// input (a pipe), our standard output, its standard error (a pipe), and `kReplyPath` (a pipe).
struct ChildRequest {
  std::vector<std::string> command;      ///< the first is a path, or looked up in PATH
  std::vector<std::string> environment;  ///< all of it, NAME=VALUE
  std::string_view input;                ///< borrowed
  Duration timeout{0};                   ///< zero: none
  /// Between SIGTERM and SIGKILL, both to the whole group.
  Duration grace = std::chrono::seconds{5};
};

/// Where a program can write what it has to say to us alone.
inline constexpr std::string_view kReplyPath = "/dev/fd/3";

struct ChildResult {
  enum class End { exited, killed, timed_out, stopped };

  End end = End::exited;
  int exit_code = 0;            ///< when it exited
  int signal = 0;               ///< when a signal ended it
  std::string last_error_line;  ///< of its standard error, cut; may be empty
  std::string reply;            ///< the last line of what it wrote there, cut; may be empty
};

/// Runs it and waits for its end. When `stop` is requested or the time is over, its group gets
/// SIGTERM, and SIGKILL after the grace. `on_error_line` gets what it writes to standard error, in
/// whole lines. Throws `unavailable` when it cannot be started. Safe from any thread.
///
/// When this process dies meanwhile, the guard kills the group. Should the guard die with it, the
/// kernel still kills the program, unless that is set-uid, but not what it has started.
[[nodiscard]] ChildResult run_child(const ChildRequest& request, CommandGuard& guard,
                                    const std::stop_token& stop,
                                    const std::function<void(std::string_view)>& on_error_line);

/// Whether the program can be found and executed.
[[nodiscard]] bool is_executable(const std::string& program);

}  // namespace oncebox::app
