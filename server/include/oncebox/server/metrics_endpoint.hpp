#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "oncebox/server/server_options.hpp"
#include "oncebox/surroundings.hpp"

namespace oncebox::server {

/// Answers `GET /metrics`, and nothing else, for a process that is no server: a worker that
/// Prometheus asks. Nobody is asked for a token.
class MetricsEndpoint {
 public:
  /// The text that Prometheus reads; called on the thread of the sockets, one call at a time.
  using Expose = std::function<std::string()>;

  /// Listens. Of the surroundings, logger and clock are used. Throws `unavailable` when the address
  /// cannot be had, and `invalid_argument` for one beyond loopback that `allow_anonymous_remote`
  /// does not allow.
  MetricsEndpoint(const ListenOptions& listen, Expose expose,
                  const Surroundings& surroundings = {});
  /// Stops at once.
  ~MetricsEndpoint();
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::server
