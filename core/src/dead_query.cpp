#include "oncebox/dead_query.hpp"

#include <cmath>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

constexpr double kMinPerSecond = 0.001;
constexpr double kMaxPerSecond = 1'000'000;

}  // namespace

Duration RevivalPace::length(std::size_t messages, Duration delay) const {
  if (!per_second) return Duration{0};
  if (!(*per_second >= kMinPerSecond && *per_second <= kMaxPerSecond)) {
    throw Error(ErrorCode::out_of_range,
                "the rate must be from 0.001 to 1000000 messages a second");
  }
  if (messages < 2) return Duration{0};
  const double milliseconds = std::ceil(static_cast<double>(messages - 1) * 1'000 / *per_second);
  if (milliseconds > static_cast<double>((limits::kMaxDelay - delay).count())) {
    throw Error(ErrorCode::out_of_range,
                "so many messages would take more than a year at this rate; revive fewer, or "
                "faster");
  }
  return Duration{static_cast<Duration::rep>(milliseconds)};
}

}  // namespace oncebox
