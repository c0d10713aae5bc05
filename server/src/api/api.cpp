#include "api/api.hpp"

#include <chrono>
#include <exception>
#include <utility>

#include "api/publish_service.hpp"
#include "observe/metrics.hpp"

namespace oncebox::server {

namespace {

/// A thread that has made no call for so long ends.
constexpr Duration kCallThreadRest = std::chrono::seconds{10};
constexpr Duration kReadinessInterval = std::chrono::seconds{1};
/// Shorter than any probe waits for its answer.
constexpr Duration kReadinessPatience{900};

}  // namespace

Api::Api(const ServerOptions& options, StoreSet& stores, Metrics& metrics,
         const Surroundings& around)
    : options_(options),
      calls_(options_.call_threads, options_.max_queued_calls, kCallThreadRest, around.clock),
      timers_(around.clock),
      parts_{options_, calls_, timers_, metrics, around.logger, around.clock, around.tracer},
      stores_(stores, parts_),
      events_(stores_, parts_),
      recovery_(parts_, stores),
      publishing_(options_.publish.is_on()
                      ? std::make_unique<PublishService>(parts_, recovery_.notices())
                      : nullptr),
      probe_(kReadinessPatience, around.clock) {
  stores_.start({.on_opened =
                     [this](const ServedStorePtr& store) {
                       events_.on_opened(store);
                       recovery_.add(store);
                       if (publishing_) publishing_->on_opened(store);
                     },
                 .on_ready =
                     [this](const ServedStorePtr& store) {
                       if (publishing_) publishing_->on_ready(store);
                     },
                 .on_removed =
                     [this](const ServedStorePtr& store) {
                       if (publishing_) publishing_->on_removed(store);
                       recovery_.remove(store->name());
                     }});
}

Api::~Api() {
  if (publishing_) publishing_->stop(Duration::zero());
  recovery_.stop();
  events_.stop();
  stores_.close();
  timers_.stop();
  // The time to drain is over: a store that hangs must not hold up the end of the process.
  calls_.discard();
  calls_.stop();
}

void Api::add_routes(Router& router) {
  add_enqueue_routes(router, context_);
  add_work_routes(router, context_);
  add_operator_routes(router, context_);
  add_edit_routes(router, context_);
  add_audit_routes(router, context_);
  add_endpoint_routes(router, context_);
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

void Api::start() {
  events_.start();
  recovery_.start();
  if (publishing_) publishing_->start();
}

void Api::drain() noexcept {
  try {
    if (publishing_) publishing_->drain();
  } catch (const std::exception& failure) {
    parts_.logger.log(LogLevel::warning,
                      "publishing cannot be drained; it begins deliveries until the server stops",
                      {{"reason", failure.what()}});
  }
  stores_.drain();
  events_.drain();
}

void Api::finish_publishing(Duration within) {
  if (publishing_) publishing_->stop(within);
}

void Api::show_publishing() {
  if (!publishing_) return;
  const publish::PublishingStats stats = publishing_->stats();
  parts_.metrics.on_dispatcher("outbox", stats.fan_out);
  parts_.metrics.on_dispatcher("deliveries", stats.deliveries);
}

void Api::check_tokens() {
  for (const ServedStorePtr& store : stores_.all()) {
    for (const QueueKind kind : kQueueKinds) store->queue(kind).claims->check_tokens();
  }
  events_.check_tokens();
}

Readiness Api::readiness() {
  const detail::Lock asking(asking_mutex_);
  if (std::optional<Readiness> known = known_readiness()) return std::move(*known);
  Readiness readiness = ask_readiness(stores_, probe_);
  readiness.degraded |= recovery_.report().status != HealthStatus::healthy;
  const detail::Lock lock(readiness_mutex_);
  readiness_ = readiness;
  readiness_until_ = parts_.clock.steady() + kReadinessInterval;
  return readiness;
}

std::optional<Readiness> Api::known_readiness() {
  const detail::Lock lock(readiness_mutex_);
  if (parts_.clock.steady() >= readiness_until_) return std::nullopt;
  return readiness_;
}

}  // namespace oncebox::server
