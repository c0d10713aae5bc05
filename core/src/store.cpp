#include "oncebox/store.hpp"

namespace oncebox {

std::string_view to_string(HealthStatus status) noexcept {
  switch (status) {
    case HealthStatus::healthy:
      return "healthy";
    case HealthStatus::degraded:
      return "degraded";
    case HealthStatus::unavailable:
      return "unavailable";
  }
  return "unknown";
}

}  // namespace oncebox
