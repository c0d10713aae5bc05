#include "api/recovery.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "api/api_routes.hpp"
#include "observe/metrics.hpp"
#include "oncebox/wire/health_json.hpp"

namespace oncebox::server {

namespace {

constexpr Duration kShowInterval = std::chrono::seconds{5};

HousekeepingOptions housekeeping_options(const RetentionOptions& retention) {
  return {.reap_interval = retention.reap_interval,
          .cleanup_interval = retention.interval,
          .done_retention = retention.done,
          .dead_retention = retention.dead,
          .audit_retention = retention.audit,
          .batch = retention.batch};
}

HousekeptQueue kept(ServedQueue& queue) {
  return {queue.queue, queue.operations, [&queue] { return queue.claims->max_deliveries(); }};
}

}  // namespace

Recovery::Recovery(const ApiParts& parts, const StoreSet& set)
    : parts_(parts),
      set_(set),
      sender_(parts.options.notices, parts.metrics.recovery(), parts.logger, parts.clock),
      notices_(parts.options.notices.when, sender_),
      watchdog_(parts.options.watchdog, parts.logger, parts.clock, {&notices_}),
      housekeeping_(housekeeping_options(parts.options.retention), parts.logger, parts.clock) {}

void Recovery::add_routes(Router& router) {
  router.add({.method = Method::get,
              .pattern = "/v1/health",
              .scope = Scope::read,
              .handler = [this](const ExchangePtr& exchange) {
                require_no_query(exchange->request());
                exchange->send(
                    json_response(wire::write_health(report(), set_.discovery_health())));
              }});
}

WatchdogReport Recovery::report() const {
  WatchdogReport report = watchdog_.report();
  for (MemberState& state : set_.states()) {
    if (state.open) continue;
    report.status = HealthStatus::degraded;
    std::erase_if(report.stores, [&](const auto& known) { return known.store == state.name; });
    report.stores.push_back(
        {.store = state.name, .health = {HealthStatus::unavailable, std::move(state.failure)}});
  }
  std::ranges::sort(report.stores, {}, &WatchedHealth::store);
  return report;
}

void Recovery::add(const ServedStorePtr& store) {
  remove(store->name());
  housekeeping_.add({.name = store->name(),
                     .inbox = kept(store->inbox),
                     .outbox = {store->outbox.queue, store->outbox.operations},
                     .keys = store->store.store().keys(),
                     .audit = store->store.store().audit(),
                     .keep_alive = store});
  watchdog_.add({.name = store->name(), .store = store->store.store(), .keep_alive = store});
}

void Recovery::remove(std::string_view name) {
  housekeeping_.remove(name);
  watchdog_.remove(name);
}

void Recovery::start() {
  show_figures();
  parts_.timers.at(std::chrono::steady_clock::now() + kShowInterval, [this] { start(); });
}

void Recovery::stop() {
  housekeeping_.stop();
  watchdog_.stop();
}

void Recovery::show_figures() noexcept {
  try {
    parts_.metrics.recovery().on_housekeeping(housekeeping_.figures());
    parts_.metrics.recovery().on_findings(report().findings);
  } catch (const std::exception& failure) {
    parts_.logger.log(LogLevel::warning, "figures cannot be shown", {{"reason", failure.what()}});
  }
}

}  // namespace oncebox::server
