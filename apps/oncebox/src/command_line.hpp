#pragma once

#include <string>
#include <vector>

#include "command.hpp"

namespace oncebox::app {

/// What a command line asks for. `path` names the command, the program first.
struct Invocation {
  enum class Kind { run, help };

  Kind kind = Kind::run;
  std::vector<std::string> path = {};
  const Command* command = nullptr;
};

/// Reads a command line and gives every value to the option that wants it. Throws a `Failure` with
/// `ExitCode::usage`, which names what is wrong and what was probably meant.
[[nodiscard]] Invocation parse_command_line(const Command& program, int argc,
                                            const char* const* argv);

}  // namespace oncebox::app
