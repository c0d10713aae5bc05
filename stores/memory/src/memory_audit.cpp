#include "memory_audit.hpp"

#include <fmt/format.h>

#include "oncebox/driver/list_cursor.hpp"
#include "oncebox/error.hpp"

namespace oncebox::memory {

AuditId MemoryAudit::do_begin(const AuditEntry& entry) {
  const detail::Lock lock(mutex_);
  if (records_.size() >= max_entries_) {
    throw Error(ErrorCode::overloaded,
                fmt::format("the audit trail of the memory store holds its limit of {} entries; "
                            "clean it up or raise max_audit_entries",
                            max_entries_));
  }
  const std::uint64_t id = last_id_ + 1;
  records_.emplace(id, AuditRecord{.id = AuditId{id}, .entry = entry, .begun_at = clock_.now()});
  last_id_ = id;
  return AuditId{id};
}

void MemoryAudit::do_finish(AuditId id, const AuditResult& result) {
  const detail::Lock lock(mutex_);
  const auto found = records_.find(static_cast<std::uint64_t>(id));
  if (found == records_.end() || found->second.result) return;
  found->second.result = result;
  found->second.finished_at = clock_.now();
}

AuditPage MemoryAudit::do_list(const AuditListRequest& request) {
  const detail::Lock lock(mutex_);
  const auto from = request.after
                        ? records_.lower_bound(number_of(*request.after, ListOrder::newest_first))
                        : records_.end();
  AuditPage page;
  for (auto record = std::make_reverse_iterator(from); record != records_.rend(); ++record) {
    if (!request.filter.matches(record->second)) continue;
    if (page.records.size() == request.limit) {
      const auto last = static_cast<std::uint64_t>(page.records.back().id);
      page.next = list_cursor(last, ListOrder::newest_first);
      break;
    }
    page.records.push_back(record->second);
  }
  return page;
}

std::size_t MemoryAudit::do_cleanup(const AuditCleanupRequest& request) {
  const detail::Lock lock(mutex_);
  const TimePoint until = clock_.now() - request.retention;
  std::size_t removed = 0;
  for (auto record = records_.begin(); record != records_.end() && removed < request.limit;) {
    const bool due = record->second.result && record->second.begun_at <= until;
    record = due ? records_.erase(record) : std::next(record);
    if (due) ++removed;
  }
  return removed;
}

}  // namespace oncebox::memory
