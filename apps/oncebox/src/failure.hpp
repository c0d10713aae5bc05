#pragma once

#include <stdexcept>
#include <string>

#include "exit_code.hpp"

namespace oncebox::app {

/// Ends a command with a message and an exit code of its own. `oncebox::Error` is mapped by
/// `exit_code_of` instead.
class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}

  [[nodiscard]] ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

}  // namespace oncebox::app
