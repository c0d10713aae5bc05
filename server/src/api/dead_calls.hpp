#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "api/served_stores.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/operate/dead_groups.hpp"
#include "oncebox/wire/operator_json.hpp"

/// Calls about groups of dead messages, and revivals at a rate.
namespace oncebox::server {

/// Whether the client is still there: a call that goes on in batches ends when it is not.
using Presence = std::shared_ptr<std::atomic<bool>>;
[[nodiscard]] Presence watch(const ExchangePtr& exchange);
/// The same as a function. Borrows `present`.
[[nodiscard]] inline KeepGoing while_there(const Presence& present) {
  return [&there = *present] { return there.load(); };
}

/// By group, or at a rate, or both; `entry` goes into the audit trail unless it is a dry run.
[[nodiscard]] std::string revive_paced(ServedQueue& queue, const wire::ReviveCall& call,
                                       const AuditEntry& entry, const Presence& present);
[[nodiscard]] std::string purge_group(ServedQueue& queue, const wire::PurgeCall& call,
                                      const AuditEntry& entry, const Presence& present);

}  // namespace oncebox::server
