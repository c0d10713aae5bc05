#include "exit_code.hpp"

#include <array>

namespace oncebox::app {

std::span<const ExitCodeMeaning> exit_code_meanings() noexcept {
  static constexpr std::array kMeanings{
      ExitCodeMeaning{ExitCode::ok, "done; also when a reader closes the pipe early"},
      ExitCodeMeaning{ExitCode::failed,
                      "not found, refused, or not all of it done; the message says what"},
      ExitCodeMeaning{ExitCode::usage, "wrong command line, or a value that is not acceptable"},
      ExitCodeMeaning{ExitCode::bad_data, "some of the input is no message; the rest was sent"},
      ExitCodeMeaning{ExitCode::no_input, "a file that was named cannot be read"},
      ExitCodeMeaning{ExitCode::unavailable, "the server or store cannot be reached"},
      ExitCodeMeaning{ExitCode::internal, "stored data is damaged, or a defect in Oncebox"},
      ExitCodeMeaning{ExitCode::io_error, "the output cannot be written"},
      ExitCodeMeaning{ExitCode::try_again,
                      "overloaded, timed out, or the outcome is unknown: repeating it is safe"},
      ExitCodeMeaning{ExitCode::bad_config, "the configuration is wrong"},
  };
  return kMeanings;
}

ExitCode exit_code_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::out_of_range:
    case ErrorCode::unsupported:
      return ExitCode::usage;
    case ErrorCode::not_found:
    case ErrorCode::conflict:
      return ExitCode::failed;
    case ErrorCode::unavailable:
      return ExitCode::unavailable;
    case ErrorCode::overloaded:
    case ErrorCode::timeout:
    case ErrorCode::cancelled:
    case ErrorCode::outcome_unknown:
      return ExitCode::try_again;
    case ErrorCode::corrupt:
    case ErrorCode::internal:
      return ExitCode::internal;
  }
  return ExitCode::internal;
}

}  // namespace oncebox::app
