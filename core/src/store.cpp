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

QueueStore& Store::queue(QueueKind kind) {
  switch (kind) {
    case QueueKind::inbox:
      return inbox();
    case QueueKind::outbox:
      return outbox();
    case QueueKind::deliveries:
      break;
  }
  return deliveries();
}

QueueOperator& Store::queue_operator(QueueKind kind) {
  switch (kind) {
    case QueueKind::inbox:
      return inbox_operator();
    case QueueKind::outbox:
      return outbox_operator();
    case QueueKind::deliveries:
      break;
  }
  return deliveries_operator();
}

}  // namespace oncebox
