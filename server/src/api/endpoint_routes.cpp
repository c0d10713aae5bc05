#include <algorithm>
#include <functional>
#include <string>

#include "api/api_routes.hpp"
#include "http/answers.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/error.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/publish/secret.hpp"
#include "oncebox/wire/endpoint_json.hpp"
#include "oncebox/wire/operator_json.hpp"

/// Where the messages of the outbox go.
namespace oncebox::server {

namespace {

AuditEntry endpoint_entry(const Request& request, AuditAction action, std::string subject,
                          std::string reason) {
  return {.actor = request.principal.name,
          .action = action,
          .part = AuditedPart::endpoints,
          .subject = std::move(subject),
          .reason = std::move(reason)};
}

std::string list_endpoints(ServedStore& store, const Request& request) {
  const wire::EndpointListQuery query = wire::read_endpoint_query(request.query);
  EndpointStore& endpoints = store.endpoints();
  const std::optional<EndpointList> list =
      query.known_version ? endpoints.list_unless(*query.known_version, query.secrets)
                          : endpoints.list(query.secrets);
  return wire::write_endpoints(list, query.known_version.value_or(0));
}

std::string save_endpoint(ServedStore& store, const Request& request) {
  const wire::EndpointSave call = wire::read_endpoint_save(request.body);
  // Whoever may set endpoints must not reach into this machine and its network by them.
  const EndpointOptions options{
      .reason = call.reason,
      .may_name_secrets = false,
      .may_allow_private = store.parts().options.publish.private_over_http};
  return wire::write_endpoint_saved(audited(
  publish::require_standard(call.endpoint);
      store.audit(),
      endpoint_entry(request, AuditAction::set_endpoint, wire::audit_subject(call.endpoint),
                     call.reason),
      [&] { return publish::save_endpoint(store.store(), call.endpoint, {}, options); },
      [](EndpointSaved saved) -> std::size_t { return saved != EndpointSaved::unchanged; }));
}

std::string remove_endpoint(ServedStore& store, const Request& request) {
  const wire::EndpointRemoval call = wire::read_endpoint_removal(request.body);
  const auto remove = [&]() -> std::size_t {
    return publish::remove_endpoint(store.store(), call.name) ? 1 : 0;
  };
  return wire::write_count(audited(store.audit(),
                                   endpoint_entry(request, AuditAction::remove_endpoint,
                                                  wire::audit_subject(call.name), call.reason),
                                   remove, std::identity()));
}

std::string note_endpoint(ServedStore& store, const Request& request) {
  const wire::EndpointNote call = wire::read_endpoint_note(request.body, store.parts().clock.now());
  const auto note = [&] { return store.endpoints().note(call.name, call.event); };
  const bool disables = call.event.kind == EndpointEvent::Kind::disabled;
  // What a dispatcher notes is not by hand.
  if (!disables && call.event.kind != EndpointEvent::Kind::enabled) {
    return wire::write_endpoint_noted(note());
  }
  return wire::write_endpoint_noted(audited(
      store.audit(),
      endpoint_entry(request,
                     disables ? AuditAction::disable_endpoint : AuditAction::enable_endpoint,
                     wire::audit_subject(call.name), call.event.reason),
      note, [](const std::optional<EndpointNoted>& noted) -> std::size_t {
        return noted && noted->changed ? 1 : 0;
      }));
}

}  // namespace

void add_endpoint_routes(Router& router, const ApiContext& context) {
  const auto add = [&](Method method, std::string_view path, auto make) {
    add_store_route(router, context, {method, path, Scope::operate},
                    [method, make](const StoreCall& call) {
                      if (method == Method::post) require_no_query(call.request());
                      call.store->calls.answer(call.exchange,
                                               [store = call.store, make](const Request& request) {
                                                 return json_response(make(*store, request));
                                               });
                    });
  };
  add(Method::get, "/endpoints", list_endpoints);
  add(Method::post, "/endpoints", save_endpoint);
  add(Method::post, "/endpoints/remove", remove_endpoint);
  add(Method::post, "/endpoints/note", note_endpoint);
}

}  // namespace oncebox::server
