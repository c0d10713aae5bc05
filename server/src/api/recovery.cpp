#include "api/recovery.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <tuple>
#include <utility>

#include "api/api_routes.hpp"
#include "observe/metrics.hpp"
#include "oncebox/wire/health_json.hpp"

namespace oncebox::server {

namespace {

constexpr Duration kShowInterval = std::chrono::seconds{5};
/// The watchdog may let so many intervals pass between two looks at a store without unfinished
/// messages.
constexpr int kIntervalsBetweenLooks = 4;

DeadNoticesOptions notice_options(const ServerOptions& options) {
  DeadNoticesOptions when = options.notices.when;
  when.recent = std::max(when.recent, options.watchdog.interval * kIntervalsBetweenLooks);
  return when;
}

HousekeepingOptions housekeeping_options(const RetentionOptions& retention) {
  return {.reap_interval = retention.reap_interval,
          .cleanup_interval = retention.interval,
          .done_retention = retention.done,
          .dead_retention = retention.dead,
          .audit_retention = retention.audit,
          .batch = retention.batch};
}

HousekeptQueue kept(ServedQueue& queue) { return {queue.queue, queue.operations}; }

}  // namespace

Recovery::Recovery(const ApiParts& parts, const StoreSet& set)
    : parts_(parts),
      set_(set),
      sender_(parts.options.notices, parts.metrics.recovery(), parts.logger, parts.clock),
      notices_(notice_options(parts.options), sender_),
      watchdog_(parts.options.watchdog, {&notices_},
                {.logger = parts.logger, .clock = parts.clock}),
      housekeeping_(housekeeping_options(parts.options.retention),
                    {.logger = parts.logger, .clock = parts.clock}) {}

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
  for (const StoreHousekeeping& kept : housekeeping_.figures()) {
    if (!kept.is_behind(parts_.clock.now())) continue;
    report.status = HealthStatus::degraded;
    report.findings.push_back({.code = FindingCode::store_lagging,
                               .store = kept.store,
                               .since = *kept.behind_since,
                               .detail = "more is past its retention than housekeeping removes"});
  }
  std::ranges::sort(report.findings, [](const Finding& a, const Finding& b) {
    return std::tie(a.store, a.queue, a.code, a.topic) <
           std::tie(b.store, b.queue, b.code, b.topic);
  });
  return report;
}

void Recovery::add(const ServedStorePtr& store) {
  remove(store->name());
  const std::string& server = store->member()->server();
  housekeeping_.add({.name = store->name(),
                     .server = server,
                     .inbox = kept(store->inbox),
                     .outbox = {store->outbox.queue, store->outbox.operations},
                     .deliveries = {store->deliveries.queue, store->deliveries.operations},
                     .keys = store->keys(),
                     .audit = store->audit(),
                     .keep_alive = store});
  watchdog_.add(
      {.name = store->name(), .server = server, .store = store->store(), .keep_alive = store});
}

void Recovery::remove(std::string_view name) {
  housekeeping_.remove(name);
  watchdog_.remove(name);
}

void Recovery::start() {
  const auto show = [this] {
    show_figures();
    showing_.want_at(parts_.clock.steady() + kShowInterval);
  };
  showing_ = parts_.timers.add(show);
  show();
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
    parts_.logger.log(LogLevel::warning,
                      "the metrics of housekeeping and watchdog could not be updated",
                      {{"reason", failure.what()}});
  }
}

}  // namespace oncebox::server
