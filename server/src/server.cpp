#include "oncebox/server/server.hpp"

#include <utility>

#include "api/api.hpp"
#include "api/call_pool.hpp"
#include "api/hosted_store.hpp"
#include "http/answers.hpp"
#include "http/authenticator.hpp"
#include "http/http_server.hpp"
#include "http/router.hpp"
#include "observe/metrics.hpp"
#include "oncebox/error.hpp"
#include "openapi/openapi.hpp"
#include "webhooks/webhooks.hpp"

namespace oncebox::server {

namespace {

/// What the transport counts goes to the metrics.
class TransportMetrics final : public HttpObserver {
 public:
  explicit TransportMetrics(Metrics& metrics) : metrics_(metrics) {}

  void on_request(const Answered& answered) noexcept override {
    count([&] {
      metrics_.on_request(answered.method, answered.route, answered.status, answered.took,
                          answered.bytes_in, answered.bytes_out);
    });
  }
  void on_connections(std::ptrdiff_t change) noexcept override {
    count([&] { metrics_.on_connections(change); });
  }
  void on_refused_connection() noexcept override {
    count([&] { metrics_.on_refused_connection(); });
  }

 private:
  /// What cannot be counted must not fail the request.
  template <class Count>
  static void count(Count count) noexcept {
    try {
      count();
    } catch (...) {
    }
  }

  Metrics& metrics_;
};

ServerOptions validated(const ServerOptions& options) {
  options.validate();
  return options;
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, const std::vector<NamedStore>& stores, Logger& logger,
       const Clock& clock)
      : options_(validated(options)),
        logger_(logger),
        stores_(stores, options_, logger, metrics_, clock),
        authenticator_(options_.auth, logger),
        api_(options_, stores_, metrics_, logger, clock),
        webhooks_(options_.webhooks, stores_, metrics_, logger, clock),
        http_(options_, router_, authenticator_, logger, transport_metrics_) {
    api_.add_routes(router_);
    webhooks_.add_routes(router_);
    add_openapi_routes(router_);
    add_probe_routes();
  }

  ~Impl() {
    stop(Duration::zero());
    // What they still do asks `http_`, which goes first.
    probes_.stop();
    expositions_.stop();
  }

  void start() {
    api_.start();
    http_.start();
    logger_.log(LogLevel::info, "listening",
                {{"host", options_.listen.host},
                 {"port", http_.port()},
                 {"tls", options_.tls.enabled()},
                 {"tokens", authenticator_.has_tokens()}});
  }

  [[nodiscard]] std::uint16_t port() const noexcept { return http_.port(); }

  bool reload() {
    const bool has_tokens = reload("tokens", [this] { authenticator_.reload(); });
    const bool has_certificates = reload("certificates", [this] { http_.reload_certificates(); });
    return has_tokens && has_certificates;
  }

  DrainResult stop(Duration within) {
    http_.drain();
    api_.drain();
    const DrainResult result{.unanswered = http_.stop(within)};
    if (!result.complete()) {
      logger_.log(LogLevel::warning, "requests were cut off", {{"count", result.unanswered}});
    }
    return result;
  }

 private:
  template <class Reload>
  bool reload(std::string_view what, Reload reload) {
    try {
      reload();
      logger_.log(LogLevel::info, "reloaded", {{"what", what}});
      return true;
    } catch (const std::exception& error) {
      logger_.log(LogLevel::error, "cannot be reloaded; the old ones stay",
                  {{"what", what}, {"cause", error.what()}});
      return false;
    }
  }

  void add_probe_routes();
  [[nodiscard]] Response answer_readiness(const Request& request);

  const ServerOptions options_;
  Logger& logger_;
  Metrics metrics_;
  TransportMetrics transport_metrics_{metrics_};
  HostedStores stores_;
  Router router_;
  Authenticator authenticator_;
  Api api_;
  Webhooks webhooks_;
  /// Look at stores and metrics, so that neither a slow store nor a long text holds up a socket;
  /// nor does a store that hangs keep anybody from the metrics.
  CallPool probes_{1, 64};
  CallPool expositions_{1, 64};
  // First to go: nothing is asked of the rest once it is gone.
  HttpServer http_;
};

void Server::Impl::add_probe_routes() {
  router_.add({.method = Method::get,
               .pattern = "/healthz",
               .scope = Scope::open,
               .handler = [](const ExchangePtr& exchange) {
                 exchange->send(json_response(R"({"status":"ok"})"));
               }});
  router_.add({.method = Method::get,
               .pattern = "/readyz",
               .scope = Scope::open,
               .handler = [this](const ExchangePtr& exchange) {
                 probes_.answer(exchange, [this](const Request& request) {
                   return answer_readiness(request);
                 });
               }});
  router_.add({.method = Method::get,
               .pattern = "/metrics",
               .scope = Scope::read,
               .handler = [this](const ExchangePtr& exchange) {
                 expositions_.answer(exchange, [this](const Request&) {
                   Response response;
                   response.content_type = "text/plain; version=0.0.4; charset=utf-8";
                   response.body = metrics_.expose();
                   return response;
                 });
               }});
}

Response Server::Impl::answer_readiness(const Request& request) {
  if (http_.is_draining()) {
    return problem_response({.status = 503,
                             .code = "unavailable",
                             .title = "Not ready",
                             .detail = "the server is stopping"},
                            request);
  }
  const Api::Readiness readiness = api_.readiness();
  if (readiness.ready) return json_response(R"({"status":"ready"})");
  // Everybody may ask: what the driver says of hosts and users is for the log.
  Response response = problem_response({.status = 503,
                                        .code = "unavailable",
                                        .title = "Not ready",
                                        .detail = "a store cannot be used; see /v1/stores"},
                                       request);
  response.cause = readiness.detail;
  return response;
}

Server::Server(const ServerOptions& options, std::vector<NamedStore> stores, Logger& logger,
               const Clock& clock)
    : impl_(std::make_unique<Impl>(options, stores, logger, clock)) {}

Server::~Server() = default;

void Server::start() { impl_->start(); }
std::uint16_t Server::port() const noexcept { return impl_->port(); }
bool Server::reload() { return impl_->reload(); }
DrainResult Server::stop(Duration within) { return impl_->stop(within); }

}  // namespace oncebox::server
