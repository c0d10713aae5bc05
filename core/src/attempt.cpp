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
    case AttemptOutcome::cancelled:
      return "cancelled";
    case AttemptOutcome::marked_dead:
      return "marked_dead";
  }
  return "unknown";
}

}  // namespace oncebox
