#pragma once

#include "connection.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/clock.hpp"
#include "reader_pool.hpp"
#include "writer.hpp"

namespace oncebox::sqlite {

/// The trail, one row of `oncebox_audit` for each entry.
class SqliteAudit final : public AuditTrail {
 public:
  /// Everything is borrowed, as by `SqliteKeys`.
  SqliteAudit(Connection& writer_connection, Writer& writer, ReaderPool& readers,
              const Clock& clock);

 private:
  AuditId do_begin(const AuditEntry& entry) override;
  void do_finish(AuditId id, const AuditResult& result) override;
  AuditPage do_list(const AuditListRequest& request) override;
  std::size_t do_cleanup(const AuditCleanupRequest& request) override;

  Connection& connection_;
  Writer& writer_;
  ReaderPool& readers_;
  const Clock& clock_;
  Statement insert_;
  Statement finish_;
  Statement forget_;
};

}  // namespace oncebox::sqlite
