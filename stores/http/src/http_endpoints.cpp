#include "http_endpoints.hpp"

#include "oncebox/wire/endpoint_json.hpp"
#include "oncebox/wire/operator_json.hpp"

namespace oncebox::http {

std::optional<EndpointList> HttpEndpoints::do_list(std::optional<std::int64_t> known_version,
                                                   EndpointSecrets secrets) {
  const ApiCall call{
      .method = Method::get,
      .path = "/endpoints?" +
              wire::write_endpoint_query({.known_version = known_version, .secrets = secrets}),
      .effect = Effect::reads};
  return client_.call(call, wire::read_endpoints);
}

EndpointSaved HttpEndpoints::do_save(const Endpoint& endpoint, const EndpointOptions& options) {
  const ApiCall call{.path = "/endpoints",
                     .body = wire::write_endpoint_save({endpoint, options.reason})};
  return client_.call(call, wire::read_endpoint_saved);
}

bool HttpEndpoints::do_remove(const EndpointName& name, const EndpointOptions& options) {
  const ApiCall call{.path = "/endpoints/remove",
                     .body = wire::write_endpoint_removal({name, options.reason})};
  return client_.call(call, wire::read_count) > 0;
}

std::optional<EndpointNoted> HttpEndpoints::do_note(const EndpointName& name,
                                                    const EndpointEvent& event) {
  const ApiCall call{.path = "/endpoints/note", .body = wire::write_endpoint_note({name, event})};
  return client_.call(call, wire::read_endpoint_noted);
}

}  // namespace oncebox::http
