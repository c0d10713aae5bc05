#pragma once

#include "oncebox/attempt.hpp"

namespace oncebox::sql {

/// The number by which tables know an outcome. It never comes to mean another.
[[nodiscard]] int attempt_code(AttemptOutcome outcome) noexcept;
/// Throws `corrupt` for a number that no version of the library has written.
[[nodiscard]] AttemptOutcome attempt_outcome(int code);

}  // namespace oncebox::sql
