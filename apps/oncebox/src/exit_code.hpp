#pragma once

#include <span>
#include <string_view>

#include "oncebox/error.hpp"

namespace oncebox::app {

/// What the program tells the shell: the values of sysexits.h where one fits.
enum class ExitCode {
  ok = 0,
  failed = 1,
  usage = 2,
  bad_data = 65,
  no_input = 66,
  unavailable = 69,
  internal = 70,
  io_error = 74,
  try_again = 75,
  bad_config = 78,
};

struct ExitCodeMeaning {
  ExitCode code;
  std::string_view text;
};

/// Every code and what it means, as the help and the manual tell it.
[[nodiscard]] std::span<const ExitCodeMeaning> exit_code_meanings() noexcept;

/// The one place that says with which code an error ends the program.
[[nodiscard]] ExitCode exit_code_of(ErrorCode code) noexcept;

}  // namespace oncebox::app
