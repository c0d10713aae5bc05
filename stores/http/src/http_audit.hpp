#pragma once

#include "http_client.hpp"
#include "oncebox/audit_trail.hpp"

namespace oncebox::http {

/// The trail that the service writes, with the name of our token, of everything that is done
/// through it. So nothing is written from here.
class HttpAudit final : public AuditTrail {
 public:
  explicit HttpAudit(HttpClient& client) : client_(client) {}

 private:
  AuditId do_begin(const AuditEntry& /*entry*/) override { return AuditId{}; }
  void do_finish(AuditId /*id*/, const AuditResult& /*result*/) override {}
  AuditPage do_list(const AuditListRequest& request) override;
  std::size_t do_cleanup(const AuditCleanupRequest& request) override;

  HttpClient& client_;
};

}  // namespace oncebox::http
