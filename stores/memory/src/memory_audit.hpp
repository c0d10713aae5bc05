#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "oncebox/audit_trail.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::memory {

/// The trail in memory, in the order of the numbers.
class MemoryAudit final : public AuditTrail {
 public:
  MemoryAudit(const Clock& clock, std::size_t max_entries)
      : clock_(clock), max_entries_(max_entries) {}

 private:
  AuditId do_begin(const AuditEntry& entry) override;
  void do_finish(AuditId id, const AuditResult& result) override;
  AuditPage do_list(const AuditListRequest& request) override;
  std::size_t do_cleanup(const AuditCleanupRequest& request) override;

  const Clock& clock_;
  const std::size_t max_entries_;
  detail::Mutex mutex_;
  std::map<std::uint64_t, AuditRecord> records_ ONCEBOX_GUARDED_BY(mutex_);
  std::uint64_t last_id_ ONCEBOX_GUARDED_BY(mutex_) = 0;
};

}  // namespace oncebox::memory
