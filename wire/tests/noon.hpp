#pragma once

#include "oncebox/clock.hpp"

namespace oncebox::wire {

/// A time to write and read.
inline const TimePoint kNoon = parse_rfc3339("2026-01-31T12:00:00Z");

}  // namespace oncebox::wire
