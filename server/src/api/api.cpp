#include "api/api.hpp"

#include <chrono>
#include <mutex>
#include <vector>

#include "api/api_routes.hpp"
#include "api/event_streams.hpp"
#include "api/housekeeper.hpp"
#include "api/served_stores.hpp"

namespace oncebox::server {

namespace {

constexpr Duration kReadinessInterval = std::chrono::seconds{1};

}  // namespace

class Api::Impl {
 public:
  Impl(const ServerOptions& options, HostedStores& stores, Metrics& metrics, Logger& logger,
       const Clock& clock)
      : options_(options),
        calls_(options_.call_threads, options_.max_queued_calls),
        parts_{options_, calls_, timers_, metrics, logger, clock},
        stores_(stores, parts_),
        events_(stores_, parts_) {
    for (const auto& store : stores_) {
      housekeepers_.push_back(std::make_unique<Housekeeper>(*store, parts_));
    }
  }

  ~Impl() {
    for (const auto& housekeeper : housekeepers_) housekeeper->stop();
    events_.stop();
    stores_.close();
    timers_.stop();
    // The time to drain is over: a store that hangs must not hold up the end of the process.
    calls_.discard();
    calls_.stop();
  }

  void add_routes(Router& router) {
    add_enqueue_routes(router, context_);
    add_work_routes(router, context_);
    add_operator_routes(router, context_);
    add_key_routes(router, context_);
    add_store_routes(router, context_);
    router.add({.method = Method::get,
                .pattern = "/v1/events",
                .scope = Scope::read,
                .handler = [this](const ExchangePtr& exchange) {
                  require_no_query(exchange->request());
                  events_.add(exchange);
                }});
  }

  void start() {
    stores_.listen();
    events_.start();
    for (const auto& housekeeper : housekeepers_) housekeeper->start();
  }

  void drain() noexcept {
    stores_.drain();
    events_.drain();
  }

  Readiness readiness() {
    const std::lock_guard lock(readiness_mutex_);
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now < readiness_until_) return readiness_;
    readiness_ = {};
    for (const auto& store : stores_) {
      const Health health = store->store.store().health();
      if (health.status != HealthStatus::unavailable) continue;
      readiness_ = {.ready = false,
                    .detail = "store " + store->store.name() + ": " + health.detail};
      break;
    }
    readiness_until_ = std::chrono::steady_clock::now() + kReadinessInterval;
    return readiness_;
  }

 private:
  const ServerOptions options_;
  CallPool calls_;
  TimerQueue timers_;
  const ApiParts parts_;
  ServedStores stores_;
  EventStreams events_;
  std::vector<std::unique_ptr<Housekeeper>> housekeepers_;
  const ApiContext context_{parts_, stores_};
  std::mutex readiness_mutex_;
  Readiness readiness_;
  SteadyTime readiness_until_{};
};

Api::Api(const ServerOptions& options, HostedStores& stores, Metrics& metrics, Logger& logger,
         const Clock& clock)
    : impl_(std::make_unique<Impl>(options, stores, metrics, logger, clock)) {}

Api::~Api() = default;

void Api::add_routes(Router& router) { impl_->add_routes(router); }
void Api::start() { impl_->start(); }
void Api::drain() noexcept { impl_->drain(); }
Api::Readiness Api::readiness() { return impl_->readiness(); }

}  // namespace oncebox::server
