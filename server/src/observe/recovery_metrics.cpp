#include "observe/recovery_metrics.hpp"

#include <algorithm>
#include <chrono>
#include <set>

namespace oncebox::server {

namespace {

/// More stores than this have no series of their own housekeeping.
constexpr std::size_t kMaxStoresShown = 1'000;
/// Of more series than that about notices, the rest counts as this store.
constexpr const char* kOtherStores = "other";

void raise_to(prometheus::Counter& counter, std::uint64_t value) {
  counter.Increment(std::max(0.0, static_cast<double>(value) - counter.Value()));
}

}  // namespace

RecoveryMetrics::RecoveryMetrics(prometheus::Registry& registry)
    : removed_(prometheus::BuildCounter()
                   .Name("oncebox_housekeeping_removed_total")
                   .Help("Messages and keys removed because their retention was over.")
                   .Register(registry)),
      failures_(prometheus::BuildCounter()
                    .Name("oncebox_housekeeping_failures_total")
                    .Help("Calls of housekeeping that failed.")
                    .Register(registry)),
      last_run_(prometheus::BuildGauge()
                    .Name("oncebox_housekeeping_last_run_timestamp_seconds")
                    .Help("When housekeeping last succeeded with the store.")
                    .Register(registry)),
      findings_(prometheus::BuildGauge()
                    .Name("oncebox_watchdog_findings")
                    .Help("What the watchdog has found and what is not over, by its code.")
                    .Register(registry)),
      dead_notices_(prometheus::BuildCounter()
                        .Name("oncebox_dead_notices_total")
                        .Help("Notices of dead messages, by what became of them.")
                        .Register(registry)),
      endpoint_notices_(prometheus::BuildCounter()
                            .Name("oncebox_endpoint_notices_total")
                            .Help("Notices of endpoints that were disabled, by what became of "
                                  "them.")
                            .Register(registry)),
      endpoints_disabled_(prometheus::BuildCounter()
                              .Name("oncebox_endpoints_disabled_total")
                              .Help("Endpoints that this server has disabled, because their "
                                    "receiver was gone or had failed for too long.")
                              .Register(registry)) {}

RecoveryMetrics::StoreSeries RecoveryMetrics::make(const std::string& store) {
  const auto removed = [&](const char* queue, const char* what) {
    return &removed_.Add({{"store", store}, {"queue", queue}, {"state", what}});
  };
  return {.removed = {removed("inbox", "done"), removed("inbox", "dead"), removed("outbox", "done"),
                      removed("outbox", "dead"), removed("deliveries", "done"),
                      removed("deliveries", "dead"), removed("keys", "forgotten"),
                      removed("audit", "forgotten")},
          .failures = &failures_.Add({{"store", store}}),
          .last_run = &last_run_.Add({{"store", store}})};
}

void RecoveryMetrics::remove(const StoreSeries& series) {
  for (prometheus::Counter* counter : series.removed) removed_.Remove(counter);
  failures_.Remove(series.failures);
  last_run_.Remove(series.last_run);
}

void RecoveryMetrics::on_housekeeping(std::span<const StoreHousekeeping> stores) {
  const detail::Lock lock(mutex_);
  std::map<std::string, StoreSeries> kept;
  for (const StoreHousekeeping& store : stores) {
    auto known = stores_.extract(store.store);
    if (known.empty() && kept.size() + stores_.size() >= kMaxStoresShown) continue;
    const StoreSeries series = known.empty() ? make(store.store) : known.mapped();
    const std::array removed = {store.inbox.done_removed,
                                store.inbox.dead_removed,
                                store.outbox.done_removed,
                                store.outbox.dead_removed,
                                store.deliveries.done_removed,
                                store.deliveries.dead_removed,
                                store.keys_removed,
                                store.audit_removed};
    for (std::size_t i = 0; i < removed.size(); ++i) raise_to(*series.removed[i], removed[i]);
    raise_to(*series.failures, store.failures);
    if (store.last_run) {
      series.last_run->Set(
          std::chrono::duration<double>(store.last_run->time_since_epoch()).count());
    }
    kept.emplace(store.store, series);
  }
  for (const auto& [name, series] : stores_) remove(series);
  stores_ = std::move(kept);
  forget_told_but_of(stores);
}

void RecoveryMetrics::forget_told_but_of(std::span<const StoreHousekeeping> stores) {
  if (told_.empty()) return;
  std::set<std::string_view> names;
  for (const StoreHousekeeping& store : stores) names.insert(store.store);
  std::erase_if(told_, [&](const auto& entry) {
    const std::string& store = entry.first.store;
    if (store == kOtherStores || names.contains(store)) return false;
    entry.first.family->Remove(entry.second);
    return true;
  });
}

void RecoveryMetrics::on_findings(std::span<const Finding> findings) {
  std::map<std::pair<std::string, FindingCode>, std::size_t> counts;
  for (const Finding& finding : findings) ++counts[{finding.store, finding.code}];
  const detail::Lock lock(mutex_);
  std::erase_if(shown_, [&](const auto& entry) {
    if (counts.contains(entry.first)) return false;
    findings_.Remove(entry.second);
    return true;
  });
  for (const auto& [which, count] : counts) {
    prometheus::Gauge*& gauge = shown_[which];
    if (gauge == nullptr) {
      gauge =
          &findings_.Add({{"store", which.first}, {"code", std::string(to_string(which.second))}});
    }
    gauge->Set(static_cast<double>(count));
  }
}

void RecoveryMetrics::on_notice(NoticeKind kind, const std::string& store,
                                std::string_view outcome) {
  count(kind == NoticeKind::dead ? dead_notices_ : endpoint_notices_, store, outcome);
}

void RecoveryMetrics::on_endpoint_disabled(const std::string& store) {
  count(endpoints_disabled_, store, {});
}

void RecoveryMetrics::count(prometheus::Family<prometheus::Counter>& family,
                            const std::string& store, std::string_view outcome) {
  const detail::Lock lock(mutex_);
  Told which{.store = store, .family = &family, .outcome = std::string(outcome)};
  if (!told_.contains(which) && told_.size() >= kMaxStoresShown) which.store = kOtherStores;
  prometheus::Counter*& counter = told_[which];
  if (counter == nullptr) {
    prometheus::Labels labels{{"store", which.store}};
    if (!which.outcome.empty()) labels.emplace("outcome", which.outcome);
    counter = &family.Add(labels);
  }
  counter->Increment();
}

}  // namespace oncebox::server
