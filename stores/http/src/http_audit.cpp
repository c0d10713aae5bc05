#include "http_audit.hpp"

#include "oncebox/wire/audit_json.hpp"

namespace oncebox::http {

AuditPage HttpAudit::do_list(const AuditListRequest& request) {
  const ApiCall call{.method = Method::get,
                     .path = "/audit?" + wire::write_audit_query(request),
                     .effect = Effect::reads};
  return client_.call(call, wire::read_audit_page);
}

std::size_t HttpAudit::do_cleanup(const AuditCleanupRequest& request) {
  return client_.call({.path = "/audit/cleanup", .body = wire::write_audit_cleanup(request)},
                      wire::read_count);
}

}  // namespace oncebox::http
