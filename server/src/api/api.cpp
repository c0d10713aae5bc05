#include "api/api.hpp"

#include <chrono>
#include <utility>

#include "api/api_routes.hpp"
#include "api/event_streams.hpp"
#include "api/readiness.hpp"
#include "api/recovery.hpp"
#include "api/served_stores.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::server {

namespace {

constexpr Duration kReadinessInterval = std::chrono::seconds{1};
/// Shorter than any probe waits for its answer.
constexpr Duration kReadinessPatience{900};

}  // namespace

class Api::Impl {
 public:
  Impl(const ServerOptions& options, StoreSet& stores, Metrics& metrics, Logger& logger,
       const Clock& clock)
      : options_(options),
        calls_(options_.call_threads, options_.max_queued_calls),
        parts_{options_, calls_, timers_, metrics, logger, clock},
        stores_(stores, parts_),
        events_(stores_, parts_),
        recovery_(parts_, stores) {
    stores_.start(
        {.on_opened =
             [this](const ServedStorePtr& store) {
               events_.on_opened(store);
               recovery_.add(store);
             },
         .on_removed = [this](const ServedStorePtr& store) { recovery_.remove(store->name()); }});
  }

  ~Impl() {
    recovery_.stop();
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
    add_edit_routes(router, context_);
    add_audit_routes(router, context_);
    add_recovery_routes(router, context_);
    recovery_.add_routes(router);
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
    events_.start();
    recovery_.start();
  }

  void drain() noexcept {
    stores_.drain();
    events_.drain();
  }

  HostedStorePtr find_store(std::string_view name) {
    const ServedStorePtr served = stores_.find(name);
    return {served, &served->store};
  }

  CallPool& calls() noexcept { return calls_; }

  Readiness readiness() {
    const detail::Lock lock(readiness_mutex_);
    if (parts_.clock.steady() < readiness_until_) return readiness_;
    readiness_ = ask_readiness(stores_, probe_);
    readiness_.degraded |= recovery_.report().status != HealthStatus::healthy;
    readiness_until_ = parts_.clock.steady() + kReadinessInterval;
    return readiness_;
  }

 private:
  const ServerOptions options_;
  CallPool calls_;
  TimerQueue timers_;
  const ApiParts parts_;
  ServedStores stores_;
  EventStreams events_;
  Recovery recovery_;
  const ApiContext context_{parts_, stores_};
  HealthProbe probe_{kReadinessPatience, parts_.clock};
  detail::Mutex readiness_mutex_;
  Readiness readiness_ ONCEBOX_GUARDED_BY(readiness_mutex_);
  SteadyTime readiness_until_ ONCEBOX_GUARDED_BY(readiness_mutex_){};
};

Api::Api(const ServerOptions& options, StoreSet& stores, Metrics& metrics, Logger& logger,
         const Clock& clock)
    : impl_(std::make_unique<Impl>(options, stores, metrics, logger, clock)) {}

Api::~Api() = default;

void Api::add_routes(Router& router) { impl_->add_routes(router); }
void Api::start() { impl_->start(); }
void Api::drain() noexcept { impl_->drain(); }
HostedStorePtr Api::find_store(std::string_view name) { return impl_->find_store(name); }
CallPool& Api::calls() noexcept { return impl_->calls(); }
Api::Readiness Api::readiness() { return impl_->readiness(); }

}  // namespace oncebox::server
