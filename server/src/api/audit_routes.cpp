#include <functional>

#include "api/api_routes.hpp"
#include "http/answers.hpp"
#include "oncebox/wire/audit_json.hpp"

/// Who changed what.
namespace oncebox::server {

namespace {

std::string clean_up_trail(AuditTrail& trail, const Request& request) {
  const AuditCleanupRequest cleanup = wire::read_audit_cleanup(body_or_empty_object(request));
  const AuditEntry entry{.actor = request.principal.name,
                         .action = AuditAction::cleanup,
                         .part = AuditedPart::audit_trail,
                         .subject = wire::write_audit_cleanup(
                             {.retention = cleanup.retention, .limit = cleanup.limit}),
                         .reason = cleanup.reason};
  return wire::write_count(
      audited(trail, entry, [&] { return trail.cleanup(cleanup); }, std::identity()));
}

}  // namespace

void add_audit_routes(Router& router, const ApiContext& context) {
  add_store_route(router, context, {Method::get, "/audit", Scope::read}, [](const StoreCall& call) {
    call.store->calls.answer(call.exchange, [store = call.store](const Request& request) {
      AuditTrail& trail = store->audit();
      return json_response(
          wire::write_audit_page(trail.list(wire::read_audit_query(request.query))));
    });
  });
  add_store_route(
      router, context, {Method::post, "/audit/cleanup", Scope::operate}, [](const StoreCall& call) {
        require_no_query(call.request());
        call.store->calls.answer(call.exchange, [store = call.store](const Request& request) {
          return json_response(clean_up_trail(store->audit(), request));
        });
      });
}

}  // namespace oncebox::server
