#include "oncebox/server/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "api/api.hpp"
#include "api/borrowed_stores.hpp"
#include "api/call_pool.hpp"
#include "api/heap_trimmer.hpp"
#include "api/shared_answer.hpp"
#include "http/answers.hpp"
#include "http/authenticator.hpp"
#include "http/http_server.hpp"
#include "http/router.hpp"
#include "observe/message_log_filter.hpp"
#include "observe/metrics.hpp"
#include "observe/metrics_response.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
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
  void on_ended_connection(std::string_view want) noexcept override {
    count([&] { metrics_.on_ended_connection(want); });
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

/// Without a default store in the options, the first store is the default.
ServerOptions with_default(ServerOptions options, const std::vector<NamedStore>& stores) {
  if (options.default_store.empty() && !stores.empty()) options.default_store = stores[0].name;
  return options;
}

/// Throws `not_found` when the options name a store that the set will never have.
void require_known_stores(const ServerOptions& options, const StoreSet& stores) {
  const std::vector<std::string> names = stores.names();
  const auto require = [&](const std::string& name, const std::string& what) {
    if (name.empty() || std::ranges::find(names, name) != names.end()) return;
    throw Error(ErrorCode::not_found, what + ": there is no store of this name");
  };
  require(options.default_store, "default_store");
  for (const WebhookOptions& webhook : options.webhooks) {
    if (webhook.has_store_by_request()) continue;
    require(webhook.store, "webhook \"" + webhook.name + "\": store");
  }
}

Response readiness_response(const Readiness& readiness, const Request& request) {
  if (readiness.ready && !readiness.degraded) return json_response(R"({"status":"ready"})");
  if (readiness.ready) {
    return json_response(
        fmt::format(R"({{"status":"degraded","storesDown":{}}})", readiness.stores_down));
  }
  // Everybody may ask: what the driver says of hosts and users is for the log.
  Response response = problem_response({.status = 503,
                                        .code = "unavailable",
                                        .title = "Not ready",
                                        .detail = "a store cannot be used; see /v1/stores"},
                                       request);
  response.cause = readiness.detail;
  return response;
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, const std::vector<NamedStore>& stores,
       const Surroundings& around)
      : Impl(with_default(options, stores), borrowed_set(stores, around.logger), nullptr, around) {}

  Impl(const ServerOptions& options, StoreSet& stores, const Surroundings& around)
      : Impl(options, nullptr, &stores, around) {}

  ~Impl() {
    stop(Duration::zero());
    // Their calls ask `http_`, whose destructor runs before theirs.
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
    const bool has_tokens = reload("tokens", [this] {
      authenticator_.reload();
      api_.check_tokens();
    });
    const bool has_certificates = reload("certificates", [this] { http_.reload_certificates(); });
    const bool has_stores = reload("stores", [this] { (void)stores_.refresh(); });
    return has_tokens && has_certificates && has_stores;
  }

  DrainResult stop(Duration within) {
    const SteadyTime until =
        clock_.steady() + std::clamp(within, Duration::zero(), limits::kMaxDelay);
    http_.drain();
    api_.drain();
    const DrainResult result{.unanswered = http_.stop(within)};
    if (!result.complete()) {
      logger_.log(LogLevel::warning, "the time to drain was over; requests were cut off",
                  {{"count", result.unanswered}});
    }
    const auto left = std::chrono::duration_cast<Duration>(until - clock_.steady());
    api_.finish_publishing(std::max(left, Duration::zero()));
    return result;
  }

 private:
  /// One of the two sets is not null.
  Impl(const ServerOptions& options, std::unique_ptr<StoreSet> own, StoreSet* borrowed,
       const Surroundings& around)
      : options_(validated(options)),
        logger_(around.logger),
        clock_(around.clock),
        message_log_(logger_, options_.message_log, clock_),
        own_stores_(std::move(own)),
        stores_(own_stores_ ? *own_stores_ : *borrowed),
        authenticator_(options_.auth, logger_),
        api_(options_, stores_, metrics_,
             {.logger = message_log_, .clock = clock_, .tracer = around.tracer}),
        webhooks_(
            options_.webhooks, [this](std::string_view name) { return api_.find_store(name); },
            api_.calls(), metrics_, message_log_, clock_),
        http_(options_, router_, authenticator_, logger_, transport_metrics_, clock_),
        trimmer_([this] { return http_.memory().held(); }, clock_) {
    if (own_stores_) require_known_stores(options_, stores_);
    api_.add_routes(router_);
    webhooks_.add_routes(router_);
    add_openapi_routes(router_);
    add_probe_routes();
  }

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
  void answer_readiness(const ExchangePtr& exchange);
  /// Asks the stores, and answers all probes that wait.
  void answer_probes() noexcept;
  [[nodiscard]] std::vector<ExchangePtr> take_probes();
  void show_memory();

  const ServerOptions options_;
  Logger& logger_;
  const Clock& clock_;
  MessageLogFilter message_log_;  ///< where lines about messages come from
  Metrics metrics_;
  TransportMetrics transport_metrics_{metrics_};
  const std::unique_ptr<StoreSet> own_stores_;
  StoreSet& stores_;
  Router router_;
  Authenticator authenticator_;
  Api api_;
  Webhooks webhooks_;
  /// The threads that ask stores for /readyz and write /metrics, so that neither holds up a thread
  /// of the sockets. Two pools: /metrics answers while a store hangs.
  CallPool probes_{1, 1};
  SharedAnswer exposition_;
  CallPool expositions_{1, 64};
  detail::Mutex waiting_mutex_;
  /// Those who have asked `/readyz` while the stores are being asked; one for each connection.
  std::vector<ExchangePtr> waiting_probes_ ONCEBOX_GUARDED_BY(waiting_mutex_);
  // Destroyed before the others: then no request reaches the members above.
  HttpServer http_;
  HeapTrimmer trimmer_;
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
               .handler = [this](const ExchangePtr& exchange) { answer_readiness(exchange); }});
  router_.add({.method = Method::get,
               .pattern = "/metrics",
               .scope = Scope::read,
               .handler = [this](const ExchangePtr& exchange) {
                 exposition_.ask(expositions_, exchange, [this] {
                   metrics_.on_dropped_log_lines(logger_.dropped_lines());
                   show_memory();
                   api_.show_publishing();
                   return [text = metrics_.expose()](const Request&) {
                     return metrics_response(text);
                   };
                 });
               }});
}

void Server::Impl::show_memory() {
  const MemoryBudget& memory = http_.memory();
  for (const MemoryPart part :
       {MemoryPart::connections, MemoryPart::strangers, MemoryPart::callers}) {
    metrics_.on_memory({to_string(part), memory.held(part), memory.refusals(part)});
  }
}

// Anybody may ask, at any rate: so an answer costs no call of a store while the last
// one is fresh, and one call for all who ask meanwhile.
void Server::Impl::answer_readiness(const ExchangePtr& exchange) {
  const Request& request = exchange->request();
  if (http_.is_draining()) {
    exchange->send(problem_response({.status = 503,
                                     .code = "unavailable",
                                     .title = "Not ready",
                                     .detail = "the server is stopping"},
                                    request));
    return;
  }
  if (const std::optional<Readiness> known = api_.known_readiness()) {
    exchange->send(readiness_response(*known, request));
    return;
  }
  {
    const detail::Lock lock(waiting_mutex_);
    waiting_probes_.push_back(exchange);
    if (waiting_probes_.size() > 1) return;  // the stores are being asked
  }
  try {
    probes_.submit_own([this]() noexcept { answer_probes(); });
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    for (const ExchangePtr& probe : take_probes()) {
      probe->send(failure_response(failure, probe->request()));
    }
  }
}

void Server::Impl::answer_probes() noexcept {
  Readiness readiness;
  std::exception_ptr failure;
  try {
    readiness = api_.readiness();
  } catch (...) {
    failure = std::current_exception();
  }
  for (const ExchangePtr& probe : take_probes()) {
    answer(*probe, [&] {
      if (failure) std::rethrow_exception(failure);
      return readiness_response(readiness, probe->request());
    });
  }
}

std::vector<ExchangePtr> Server::Impl::take_probes() {
  const detail::Lock lock(waiting_mutex_);
  return std::exchange(waiting_probes_, {});
}

Server::Server(const ServerOptions& options, StoreSet& stores, const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(options, stores, surroundings)) {}

Server::Server(const ServerOptions& options, std::vector<NamedStore> stores,
               const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(options, stores, surroundings)) {}

Server::~Server() = default;

void Server::start() { impl_->start(); }
std::uint16_t Server::port() const noexcept { return impl_->port(); }
bool Server::reload() { return impl_->reload(); }
DrainResult Server::stop(Duration within) { return impl_->stop(within); }

}  // namespace oncebox::server
