#include "oncebox/attempt.hpp"

namespace oncebox {

std::string_view to_string(AttemptOutcome outcome) noexcept {
  switch (outcome) {
    case AttemptOutcome::succeeded:
      return "succeeded";
    case AttemptOutcome::abandoned:
      return "abandoned";
    case AttemptOutcome::failed:
      return "failed";
    case AttemptOutcome::lapsed:
      return "lapsed";
    case AttemptOutcome::superseded:
      return "superseded";
  }
  return "unknown";
}

}  // namespace oncebox
