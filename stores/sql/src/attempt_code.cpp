#include "oncebox/sql/attempt_code.hpp"

#include "oncebox/error.hpp"

namespace oncebox::sql {

int attempt_code(AttemptOutcome outcome) noexcept {
  switch (outcome) {
    case AttemptOutcome::succeeded:
      return 0;
    case AttemptOutcome::abandoned:
      return 1;
    case AttemptOutcome::failed:
      return 2;
    case AttemptOutcome::lapsed:
      return 3;
    case AttemptOutcome::superseded:
      return 4;
    case AttemptOutcome::cancelled:
      return 5;
    case AttemptOutcome::marked_dead:
      return 6;
  }
  return -1;
}

AttemptOutcome attempt_outcome(int code) {
  for (const AttemptOutcome outcome :
       {AttemptOutcome::succeeded, AttemptOutcome::abandoned, AttemptOutcome::failed,
        AttemptOutcome::lapsed, AttemptOutcome::superseded, AttemptOutcome::cancelled,
        AttemptOutcome::marked_dead}) {
    if (attempt_code(outcome) == code) return outcome;
  }
  throw Error(ErrorCode::corrupt, "a stored attempt has no known outcome");
}

}  // namespace oncebox::sql
