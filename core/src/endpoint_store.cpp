#include "oncebox/endpoint_store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

const EndpointRecord* EndpointList::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(
      endpoints, name, {},
      [](const EndpointRecord& record) { return std::string_view(record.endpoint.name.str()); });
  return found != endpoints.end() && found->endpoint.name.str() == name ? &*found : nullptr;
}

EndpointList EndpointStore::list(EndpointSecrets secrets) {
  return do_list(std::nullopt, secrets).value();
}

std::optional<EndpointList> EndpointStore::list_unless(std::int64_t known_version,
                                                       EndpointSecrets secrets) {
  return do_list(known_version, secrets);
}

EndpointSaved EndpointStore::save(const Endpoint& endpoint, const EndpointOptions& options) {
  endpoint.validate();
  return do_save(endpoint, options);
}

bool EndpointStore::remove(const EndpointName& name, const EndpointOptions& options) {
  return do_remove(name, options);
}

std::optional<EndpointNoted> EndpointStore::note(const EndpointName& name,
                                                 const EndpointEvent& event) {
  require_in_range("time of an event", event.at);
  return do_note(name, event);
}

Endpoint endpoint_after(const std::optional<Endpoint>& known, const Endpoint& wanted,
                        std::size_t count) {
  if (!known && count >= EndpointStore::kMaxEndpoints) {
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
  return after;
}

}  // namespace oncebox
