#pragma once

#include <optional>

#include "connection_pool.hpp"
#include "names.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/clock.hpp"

namespace oncebox::postgresql {

/// The trail, one row for each entry. Each call is one statement.
class PostgresqlAudit final : public AuditTrail {
 public:
  /// Everything is borrowed. Without a clock the database's decides.
  PostgresqlAudit(ConnectionPool& pool, const Names& names, const Clock* clock);

 private:
  AuditId do_begin(const AuditEntry& entry) override;
  void do_finish(AuditId id, const AuditResult& result) override;
  AuditPage do_list(const AuditListRequest& request) override;
  std::size_t do_cleanup(const AuditCleanupRequest& request) override;

  [[nodiscard]] std::optional<TimePoint> test_time() const;

  ConnectionPool& pool_;
  const Clock* clock_;
  const Statement insert_;
  const Statement finish_;
  const Statement select_;
  const Statement forget_;
};

}  // namespace oncebox::postgresql
