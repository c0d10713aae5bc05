#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "api/api_routes.hpp"
#include "oncebox/audit_trail.hpp"

/// What operators change through the service goes into the trail of the store: see `audited`.
namespace oncebox::server {

/// The entry for what a call asks of a queue.
[[nodiscard]] inline AuditEntry queue_entry(const QueueCall& call, AuditAction action,
                                            std::string subject, std::string reason) {
  return {.actor = call.request().principal.name,
          .action = action,
          .part = audited_part(call.queue->kind),
          .subject = std::move(subject),
          .reason = std::move(reason)};
}

/// How many of a batch's outcomes are this one.
template <class Outcome>
[[nodiscard]] auto counting(Outcome counted) {
  return [counted](const auto& outcomes) {
    return static_cast<std::size_t>(std::ranges::count(outcomes, counted));
  };
}

}  // namespace oncebox::server
