#include "oncebox/server/metrics_endpoint.hpp"

#include <cstddef>
#include <utility>

#include "http/authenticator.hpp"
#include "http/http_server.hpp"
#include "http/router.hpp"
#include "observe/metrics_response.hpp"

namespace oncebox::server {

namespace {

/// Nobody asks how often metrics are asked for.
class UncountedRequests final : public HttpObserver {
 public:
  void on_request(const Answered&) noexcept override {}
  void on_connections(std::ptrdiff_t) noexcept override {}
  void on_refused_connection() noexcept override {}
  void on_ended_connection(std::string_view) noexcept override {}
};

ServerOptions small_server(const ListenOptions& listen) {
  ServerOptions options{.listen = listen};
  options.auth.token_variable.clear();
  options.limits.max_connections = 64;
  options.access_log = AccessLog::off;
  options.io_threads = 1;
  return options;
}

}  // namespace

class MetricsEndpoint::Impl {
 public:
  Impl(const ListenOptions& listen, Expose expose, Logger& logger, const Clock& clock)
      : options_(small_server(listen)),
        expose_(std::move(expose)),
        authenticator_(options_.auth, logger),
        http_(options_, router_, authenticator_, logger, observer_, clock) {
    router_.add({.method = Method::get,
                 .pattern = "/metrics",
                 .scope = Scope::open,
                 .handler = [this](const ExchangePtr& exchange) {
                   exchange->send(metrics_response(expose_()));
                 }});
    http_.start();
    logger.log(LogLevel::info, "metrics are served",
               {{"host", listen.host}, {"port", http_.port()}, {"path", "/metrics"}});
  }

  [[nodiscard]] std::uint16_t port() const noexcept { return http_.port(); }

 private:
  const ServerOptions options_;
  const Expose expose_;
  Router router_;
  Authenticator authenticator_;
  UncountedRequests observer_;
  // Last, so destroyed first: then no request reaches the members above.
  HttpServer http_;
};

MetricsEndpoint::MetricsEndpoint(const ListenOptions& listen, Expose expose,
                                 const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(listen, std::move(expose), surroundings.logger,
                                   surroundings.clock)) {}

MetricsEndpoint::~MetricsEndpoint() = default;

std::uint16_t MetricsEndpoint::port() const noexcept { return impl_->port(); }

}  // namespace oncebox::server
