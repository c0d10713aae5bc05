#include "oncebox/endpoint_store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "oncebox/driver/call_scope.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

[[noreturn]] void refuse(const char* why) { throw Error(ErrorCode::invalid_argument, why); }

/// Whoever may set endpoints must not make a machine send its files and variables to them.
void require_unnamed(const Endpoint& endpoint, bool secrets_are_new, bool url_stays) {
  if (std::ranges::all_of(*endpoint.secrets, is_literal_secret)) return;
  if (secrets_are_new) {
    refuse(
        "secrets: over HTTP they are written as \"literal:TEXT\"; those of the server's "
        "environment and files are for its configuration");
  }
  if (!url_stays) {
    refuse(
        "url: the secrets of this endpoint come from the server's environment or files, and must "
        "not go to another address; give it secrets as \"literal:TEXT\", or change the server's "
        "configuration");
  }
}

}  // namespace

const EndpointRecord* EndpointList::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(
      endpoints, name, {},
      [](const EndpointRecord& record) { return std::string_view(record.endpoint.name.str()); });
  return found != endpoints.end() && found->endpoint.name.str() == name ? &*found : nullptr;
}

EndpointList EndpointStore::list(EndpointSecrets secrets, const CallOptions& call) {
  const CallScope scope(call);
  return do_list(std::nullopt, secrets).value();
}

std::optional<EndpointList> EndpointStore::list_unless(std::int64_t known_version,
                                                       EndpointSecrets secrets,
                                                       const CallOptions& call) {
  const CallScope scope(call);
  return do_list(known_version, secrets);
}

EndpointSaved EndpointStore::save(const Endpoint& endpoint, const EndpointOptions& options,
                                  const CallOptions& call) {
  endpoint.validate();
  const CallScope scope(call);
  return do_save(endpoint, options);
}

bool EndpointStore::remove(const EndpointName& name, const EndpointOptions& options,
                           const CallOptions& call) {
  const CallScope scope(call);
  return do_remove(name, options);
}

std::optional<EndpointNoted> EndpointStore::note(const EndpointName& name,
                                                 const EndpointEvent& event,
                                                 const CallOptions& call) {
  require_in_range("time of an event", event.at);
  const CallScope scope(call);
  return do_note(name, event);
}

Endpoint endpoint_after(const EndpointsBefore& before, const Endpoint& wanted,
                        const EndpointOptions& options) {
  const std::optional<Endpoint>& known = before.known;
  if (!known && before.count >= EndpointStore::kMaxEndpoints) {
    throw Error(ErrorCode::overloaded,
                fmt::format("the store has {} endpoints already; remove some by: oncebox endpoints "
                            "remove",
                            EndpointStore::kMaxEndpoints));
  }
  Endpoint after = wanted;
  if (!after.secrets) {
    after.secrets = known ? known->secrets : std::nullopt;
    if (!after.secrets) after.secrets.emplace();
  }
  const bool stays = known && known->url == after.url;
  if (!options.may_name_secrets) require_unnamed(after, wanted.secrets.has_value(), stays);
  if (!options.may_allow_private && after.allow_private && !(stays && known->allow_private)) {
    refuse(
        "allowPrivate: private addresses may not be called at a new URL; whoever configures the "
        "server can permit it by publishing.private_over_http");
  }
  return after;
}

}  // namespace oncebox
