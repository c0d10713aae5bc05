#include "observe/metrics.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "observe/recovery_metrics.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/prometheus/dispatcher_metrics.hpp"
#include "oncebox/prometheus/exposition.hpp"
#include "oncebox/prometheus/label_cache.hpp"
#include "oncebox/prometheus/owned_series.hpp"
#include "oncebox/prometheus/process_metrics.hpp"
#include "oncebox/prometheus/queue_metrics.hpp"

namespace oncebox::server {

namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

// Up to a minute: a claim may wait that long for a message.
const prometheus::Histogram::BucketBoundaries kRequestSeconds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};

// Patterns, stores, outcomes: far fewer, all of them ours or the operator's.
constexpr std::size_t kMaxSeries = 1'000;

std::string_view status_class(int status) {
  constexpr std::array<std::string_view, 5> kClasses = {"1xx", "2xx", "3xx", "4xx", "5xx"};
  return status >= 100 && status < 600 ? kClasses[static_cast<std::size_t>(status / 100 - 1)]
                                       : std::string_view("other");
}

/// Stores with series of their own.
constexpr std::size_t kMaxStores = 2'000;
constexpr std::string_view kOtherStores = "other";

std::string text(std::string_view view) { return std::string(view); }

struct CounterEntry {
  prometheus::Counter* counter = nullptr;
};

/// The series of one store.
class CountedStore final : public StoreMetrics {
 public:
  CountedStore(metrics::QueueFamilies& queues, prometheus::Family<prometheus::Counter>& keys,
               prometheus::Family<prometheus::Gauge>& waiting_claims, const std::string& name)
      : name_(name),
        waiting_claims_(waiting_claims),
        inbox_(queues, name, "inbox"),
        outbox_(queues, name, "outbox"),
        deliveries_(queues, name, "deliveries"),
        keys_(kMaxSeries, [this, &keys, name](const auto& values) {
          return std::make_unique<CounterEntry>(CounterEntry{&series_.add(
              keys, {{"store", name}, {"call", text(values[0])}, {"outcome", text(values[1])}})});
        }) {}

  [[nodiscard]] Observer& queue(QueueKind kind) override { return of(kind); }
  void on_keys(std::string_view call, std::string_view outcome) override {
    keys_.get({call, outcome}).counter->Increment();
  }
  void on_waiting_claims(std::ptrdiff_t change) override {
    series_.add(waiting_claims_, {{"store", name_}}).Increment(static_cast<double>(change));
  }
  void on_stats(QueueKind queue, const QueueStats& stats, TimePoint now) override {
    of(queue).on_stats(stats, now);
  }

 private:
  [[nodiscard]] metrics::QueueMetrics& of(QueueKind kind) noexcept {
    switch (kind) {
      case QueueKind::inbox:
        return inbox_;
      case QueueKind::outbox:
        return outbox_;
      case QueueKind::deliveries:
        break;
    }
    return deliveries_;
  }

  const std::string name_;
  prometheus::Family<prometheus::Gauge>& waiting_claims_;
  metrics::OwnedSeries series_;
  metrics::QueueMetrics inbox_;
  metrics::QueueMetrics outbox_;
  metrics::QueueMetrics deliveries_;
  metrics::LabelCache<CounterEntry, 2> keys_;
};

}  // namespace

class Metrics::Impl {
 public:
  Impl()
      : connections_(BuildGauge()
                         .Name("oncebox_http_connections")
                         .Help("Open connections.")
                         .Register(registry_)
                         .Add({})),
        refused_(BuildCounter()
                     .Name("oncebox_http_connections_refused_total")
                     .Help("Connections closed at once because too many were open.")
                     .Register(registry_)
                     .Add({})),
        dropped_log_lines_(BuildCounter()
                               .Name("oncebox_log_lines_dropped_total")
                               .Help("Lines of the log that were dropped because its reader "
                                     "stalled or refused them.")
                               .Register(registry_)
                               .Add({})) {
    BuildGauge()
        .Name("oncebox_build_info")
        .Help("Always 1; the labels say which build this is.")
        .Register(registry_)
        .Add({{"version", ONCEBOX_VERSION}, {"compiler", __VERSION__}})
        .Set(1);
  }

  std::shared_ptr<StoreMetrics> of_store(const std::string& name) {
    const detail::Lock lock(stores_mutex_);
    auto found = stores_.find(name);
    if (found == stores_.end()) {
      // One of them is the one for all the others.
      const bool has_room = stores_.size() < kMaxStores;
      const std::string label = has_room ? name : std::string(kOtherStores);
      found = stores_.find(label);
      if (found == stores_.end()) {
        auto made =
            std::make_unique<CountedStore>(queue_families_, key_count_, waiting_claims_, label);
        found = stores_.emplace(label, UsedStore{std::move(made)}).first;
      }
    }
    UsedStore& store = found->second;
    ++store.users;
    return {store.metrics.get(), [this, label = found->first](StoreMetrics*) { let_go(label); }};
  }

  void on_request(std::string_view method, std::string_view route, int status,
                  std::chrono::nanoseconds took, std::size_t bytes_in, std::size_t bytes_out) {
    RequestEntry& entry = requests_.get({method, route, status_class(status)});
    entry.count->Increment();
    entry.duration->Observe(std::chrono::duration<double>(took).count());
    entry.bytes_in->Increment(static_cast<double>(bytes_in));
    entry.bytes_out->Increment(static_cast<double>(bytes_out));
  }

  void on_webhook(std::string_view name, std::string_view outcome) {
    webhooks_.get({name, outcome}).counter->Increment();
  }

  void on_stores(std::span<const StoreUp> stores) {
    const detail::Lock lock(stores_mutex_);
    std::map<std::string, prometheus::Gauge*, std::less<>> before = std::exchange(up_, {});
    for (const StoreUp& store : stores) {
      const auto known = before.find(store.name);
      const auto place =
          known != before.end()
              ? up_.insert(before.extract(known)).position
              : up_.emplace(store.name, &store_up_.Add({{"store", text(store.name)}})).first;
      place->second->Set(store.is_up ? 1 : 0);
    }
    for (const auto& [name, gauge] : before) store_up_.Remove(gauge);
  }

  void on_ended_connection(std::string_view want) { ended_.get({want}).counter->Increment(); }

  void on_memory(const MemoryUse& use) {
    const prometheus::Labels part = {{"part", text(use.part)}};
    held_bytes_.Add(part).Set(static_cast<double>(use.held_bytes));
    prometheus::Counter& refusals = memory_refusals_.Add(part);
    refusals.Increment(std::max(0.0, static_cast<double>(use.refusals) - refusals.Value()));
  }

  std::string expose() {
    process_.update();
    return metrics::exposition(registry_);
  }

  prometheus::Gauge& connections() { return connections_; }
  prometheus::Counter& refused() { return refused_; }
  prometheus::Counter& dropped_log_lines() { return dropped_log_lines_; }
  RecoveryMetrics& recovery() { return recovery_; }
  metrics::DispatcherMetrics& dispatchers() { return dispatchers_; }

 private:
  struct RequestEntry {
    prometheus::Counter* count = nullptr;
    prometheus::Histogram* duration = nullptr;
    prometheus::Counter* bytes_in = nullptr;
    prometheus::Counter* bytes_out = nullptr;
  };

  std::unique_ptr<RequestEntry> make_request(const std::array<std::string_view, 3>& values) {
    const prometheus::Labels of_route = {{"method", text(values[0])}, {"route", text(values[1])}};
    prometheus::Labels of_status = of_route;
    of_status.emplace("status", values[2]);
    auto entry = std::make_unique<RequestEntry>();
    entry->count = &request_count_.Add(of_status);
    entry->duration = &request_duration_.Add(of_route, kRequestSeconds);
    entry->bytes_in = &request_bytes_.Add(of_route);
    entry->bytes_out = &response_bytes_.Add(of_route);
    return entry;
  }

  // Under the lock: `of_store` must not hand out series that are about to be removed.
  void let_go(const std::string& label) {
    const detail::Lock lock(stores_mutex_);
    const auto found = stores_.find(label);
    if (--found->second.users == 0) stores_.erase(found);
  }

  static std::unique_ptr<CounterEntry> made(prometheus::Counter& counter) {
    return std::make_unique<CounterEntry>(CounterEntry{&counter});
  }

  prometheus::Registry registry_;
  metrics::ProcessMetrics process_{registry_};
  metrics::QueueFamilies queue_families_{registry_};
  RecoveryMetrics recovery_{registry_};
  metrics::DispatcherMetrics dispatchers_{registry_};
  prometheus::Gauge& connections_;
  prometheus::Counter& refused_;
  prometheus::Counter& dropped_log_lines_;
  prometheus::Family<prometheus::Counter>& request_count_ =
      BuildCounter()
          .Name("oncebox_http_requests_total")
          .Help("Requests, by route and by the class of the answer's status.")
          .Register(registry_);
  prometheus::Family<prometheus::Histogram>& request_duration_ =
      BuildHistogram()
          .Name("oncebox_http_request_duration_seconds")
          .Help("From a request's head until its answer was handed to the socket.")
          .Register(registry_);
  prometheus::Family<prometheus::Counter>& request_bytes_ =
      BuildCounter()
          .Name("oncebox_http_request_bytes_total")
          .Help("Bytes of requests.")
          .Register(registry_);
  prometheus::Family<prometheus::Counter>& response_bytes_ =
      BuildCounter()
          .Name("oncebox_http_response_bytes_total")
          .Help("Bytes of answers.")
          .Register(registry_);
  prometheus::Family<prometheus::Counter>& ended_count_ =
      BuildCounter()
          .Name("oncebox_http_connections_ended_total")
          .Help("Connections of slow or idle clients that had to go, by what others wanted.")
          .Register(registry_);
  prometheus::Family<prometheus::Gauge>& held_bytes_ =
      BuildGauge()
          .Name("oncebox_http_held_bytes")
          .Help("What clients make the server hold, of limits.memory.")
          .Register(registry_);
  prometheus::Family<prometheus::Counter>& memory_refusals_ =
      BuildCounter()
          .Name("oncebox_http_memory_refusals_total")
          .Help("Requests, answers and connections for which no memory was left.")
          .Register(registry_);
  prometheus::Family<prometheus::Counter>& webhook_count_ =
      BuildCounter()
          .Name("oncebox_webhooks_total")
          .Help("Webhooks that came in, by what became of them.")
          .Register(registry_);
  prometheus::Family<prometheus::Counter>& key_count_ =
      BuildCounter()
          .Name("oncebox_key_calls_total")
          .Help("Calls about idempotency keys, by their outcome.")
          .Register(registry_);
  prometheus::Family<prometheus::Gauge>& waiting_claims_ =
      BuildGauge()
          .Name("oncebox_waiting_claims")
          .Help("Claims that wait for a message.")
          .Register(registry_);
  prometheus::Family<prometheus::Gauge>& store_up_ =
      BuildGauge()
          .Name("oncebox_store_up")
          .Help("Whether the store could be reached when it was last asked.")
          .Register(registry_);

  metrics::LabelCache<RequestEntry, 3> requests_{
      kMaxSeries, [this](const auto& values) { return make_request(values); }};
  metrics::LabelCache<CounterEntry, 1> ended_{
      kMaxSeries,
      [this](const auto& values) { return made(ended_count_.Add({{"want", text(values[0])}})); }};
  metrics::LabelCache<CounterEntry, 2> webhooks_{
      kMaxSeries, [this](const auto& values) {
        return made(
            webhook_count_.Add({{"webhook", text(values[0])}, {"outcome", text(values[1])}}));
      }};

  struct UsedStore {
    std::unique_ptr<CountedStore> metrics;
    std::size_t users = 0;
  };
  detail::Mutex stores_mutex_;
  std::map<std::string, UsedStore, std::less<>> stores_ ONCEBOX_GUARDED_BY(stores_mutex_);
  std::map<std::string, prometheus::Gauge*, std::less<>> up_ ONCEBOX_GUARDED_BY(stores_mutex_);
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

std::shared_ptr<StoreMetrics> Metrics::of_store(const std::string& name) {
  return impl_->of_store(name);
}

void Metrics::on_request(std::string_view method, std::string_view route, int status,
                         std::chrono::nanoseconds took, std::size_t bytes_in,
                         std::size_t bytes_out) {
  impl_->on_request(method, route, status, took, bytes_in, bytes_out);
}

void Metrics::on_connections(std::ptrdiff_t change) {
  impl_->connections().Increment(static_cast<double>(change));
}

void Metrics::on_refused_connection() { impl_->refused().Increment(); }

void Metrics::on_dropped_log_lines(std::uint64_t total) {
  prometheus::Counter& counter = impl_->dropped_log_lines();
  counter.Increment(static_cast<double>(total) - counter.Value());
}

void Metrics::on_ended_connection(std::string_view want) { impl_->on_ended_connection(want); }

void Metrics::on_memory(const MemoryUse& use) { impl_->on_memory(use); }

void Metrics::on_webhook(std::string_view name, std::string_view outcome) {
  impl_->on_webhook(name, outcome);
}

void Metrics::on_stores(std::span<const StoreUp> stores) { impl_->on_stores(stores); }

void Metrics::on_dispatcher(const std::string& name, const RunningStats& stats) {
  impl_->dispatchers().on_stats(name, stats);
}

RecoveryMetrics& Metrics::recovery() noexcept { return impl_->recovery(); }

std::string Metrics::expose() const { return impl_->expose(); }

}  // namespace oncebox::server
