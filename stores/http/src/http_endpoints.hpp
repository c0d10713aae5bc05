#pragma once

#include "http_client.hpp"
#include "oncebox/endpoint_store.hpp"

namespace oncebox::http {

/// The endpoints that the service's store keeps.
class HttpEndpoints final : public EndpointStore {
 public:
  explicit HttpEndpoints(HttpClient& client) : client_(client) {}

 private:
  std::optional<EndpointList> do_list(std::optional<std::int64_t> known_version,
                                      EndpointSecrets secrets) override;
  EndpointSaved do_save(const Endpoint& endpoint, const EndpointOptions& options) override;
  bool do_remove(const EndpointName& name, const EndpointOptions& options) override;
  std::optional<EndpointNoted> do_note(const EndpointName& name,
                                       const EndpointEvent& event) override;

  HttpClient& client_;
};

}  // namespace oncebox::http
