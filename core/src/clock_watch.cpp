#include "oncebox/driver/clock_watch.hpp"

#include <fmt/format.h>

namespace oncebox {

Health ClockWatch::health(TimePoint now, std::string_view whose) const {
  const TimePoint until = behind_until_.load();
  if (until <= now) return {};
  return {HealthStatus::degraded,
          fmt::format("{} clock went back, from {} or later; retries and leases that "
                      "were running may end later by as much: check how the clock is set",
                      whose, format_rfc3339(until))};
}

}  // namespace oncebox
