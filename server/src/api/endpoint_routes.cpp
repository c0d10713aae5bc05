#include <chrono>
#include <functional>
#include <string>

#include "api/api_routes.hpp"
#include "api/dead_calls.hpp"
#include "http/answers.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/error.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/publish/resend.hpp"
#include "oncebox/wire/endpoint_json.hpp"
#include "oncebox/wire/operator_json.hpp"

/// Where the messages of the outbox go.
namespace oncebox::server {

namespace {

constexpr Duration kUsualTestWait = std::chrono::seconds{30};

/// The endpoint's name in the path.
EndpointName name_in(const Request& request) { return EndpointName(request.arguments.back()); }

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
  publish::require_standard(call.endpoint);
  // Whoever may set endpoints must not reach into this machine and its network by them.
  const EndpointOptions options{
      .reason = call.reason,
      .may_name_secrets = false,
      .may_allow_private = store.parts().options.publish.private_over_http};
  return wire::write_endpoint_saved(audited(
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

std::string test_endpoint(ServedStore& store, const Request& request) {
  const Duration within = wire::read_endpoint_test(body_or_empty_object(request), kUsualTestWait);
  return wire::write_endpoint_tested(
      publish::send_test(store.store(), name_in(request), within, store.parts().clock));
}

publish::ResendResult resend(Store& store, const wire::EndpointResend& call,
                             const publish::ResendRequest& request, const Clock& clock) {
  if (call.failed) return publish::resend_failed(store, request, clock);
  if (call.key) return publish::resend_one(store, request, *call.key, clock);
  return publish::resend_since(store, request, clock);
}

std::string resend_to_endpoint(ServedStore& store, const Request& request,
                               const Presence& present) {
  const wire::EndpointResend call = wire::read_endpoint_resend(request.body);
  const EndpointName name = name_in(request);
  const publish::ResendRequest wanted{.endpoint = name,
                                      .sent = call.sent,
                                      .pace = {call.per_second},
                                      .reason = call.reason,
                                      .dry_run = call.dry_run,
                                      .keep_going = while_there(present)};
  const auto send = [&] { return resend(store.store(), call, wanted, store.parts().clock); };
  const auto count = [](const publish::ResendResult& result) { return result.resent; };
  const publish::ResendResult result =
      call.dry_run ? send()
                   : audited(store.audit(),
                             endpoint_entry(request, AuditAction::resend, wire::audit_subject(name),
                                            call.reason),
                             send, count);
  return wire::write_endpoint_resent(
      {result.resent, result.under_way, result.not_wanted, call.dry_run});
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
  add(Method::post, "/endpoints/{endpoint}/test", test_endpoint);
  add_store_route(router, context, {Method::post, "/endpoints/{endpoint}/resend", Scope::operate},
                  [](const StoreCall& call) {
                    require_no_query(call.request());
                    call.store->calls.answer(
                        call.exchange, [store = call.store,
                                        present = watch(call.exchange)](const Request& request) {
                          return json_response(resend_to_endpoint(*store, request, present));
                        });
                  });
}

}  // namespace oncebox::server
