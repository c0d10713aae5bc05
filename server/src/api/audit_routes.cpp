#include <algorithm>
#include <functional>

#include "api/answer_hold.hpp"
#include "api/api_routes.hpp"
#include "http/answers.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/wire/audit_json.hpp"

/// Who changed what.
namespace oncebox::server {

namespace {

/// Of an entry whose texts are all as long as they may be.
constexpr std::size_t kMaxEntryBytes = limits::kMaxActorBytes + limits::kMaxSubjectBytes +
                                       limits::kMaxReasonBytes + limits::kMaxErrorBytes;

/// As many entries as there is memory for.
Response list_entries(AuditTrail& trail, const Exchange& exchange, const Request& request) {
  AuditListRequest wanted = wire::read_audit_query(request.query);
  const std::size_t most = std::min(wanted.limit, limits::kMaxListItems);
  AnswerHold hold = AnswerHold::for_look(exchange, most * kMaxEntryBytes);
  if (wanted.limit == most) wanted.limit = hold.max_bytes() / kMaxEntryBytes;
  return std::move(hold).answer(wire::write_audit_page(trail.list(wanted)));
}

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
    call.store->looks.answer(
        call.exchange, [exchange = call.exchange, store = call.store](const Request& request) {
          return list_entries(store->audit(), *exchange, request);
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
