#include "observe/metrics.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "observe/label_cache.hpp"
#include "observe/process_metrics.hpp"
#include "observe/queue_metrics.hpp"

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

std::string text(std::string_view view) { return std::string(view); }

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
        waiting_claims_(BuildGauge()
                            .Name("oncebox_waiting_claims")
                            .Help("Claims that wait for a message.")
                            .Register(registry_)
                            .Add({})) {
    BuildGauge()
        .Name("oncebox_build_info")
        .Help("Always 1; the labels say which build this is.")
        .Register(registry_)
        .Add({{"version", ONCEBOX_VERSION}, {"compiler", __VERSION__}})
        .Set(1);
  }

  QueueMetrics& queue(std::string_view store, std::string_view queue) {
    return queues_.get({store, queue});
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

  void on_keys(std::string_view store, std::string_view call, std::string_view outcome) {
    keys_.get({store, call, outcome}).counter->Increment();
  }

  void on_store_health(std::string_view store, bool healthy) {
    store_up_.Add({{"store", text(store)}}).Set(healthy ? 1 : 0);
  }

  std::string expose() {
    process_.update();
    std::vector<prometheus::MetricFamily> families = registry_.Collect();
    // The library keeps them by kind and members by hash; a reader looks for names.
    std::sort(families.begin(), families.end(),
              [](const auto& left, const auto& right) { return left.name < right.name; });
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, families);
    return std::move(out).str();
  }

  prometheus::Gauge& connections() { return connections_; }
  prometheus::Counter& refused() { return refused_; }
  prometheus::Gauge& waiting_claims() { return waiting_claims_; }

 private:
  struct RequestEntry {
    prometheus::Counter* count = nullptr;
    prometheus::Histogram* duration = nullptr;
    prometheus::Counter* bytes_in = nullptr;
    prometheus::Counter* bytes_out = nullptr;
  };
  struct CounterEntry {
    prometheus::Counter* counter = nullptr;
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

  static std::unique_ptr<CounterEntry> made(prometheus::Counter& counter) {
    return std::make_unique<CounterEntry>(CounterEntry{&counter});
  }

  prometheus::Registry registry_;
  ProcessMetrics process_{registry_};
  QueueFamilies queue_families_{registry_};
  prometheus::Gauge& connections_;
  prometheus::Counter& refused_;
  prometheus::Gauge& waiting_claims_;
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
  prometheus::Family<prometheus::Gauge>& store_up_ =
      BuildGauge()
          .Name("oncebox_store_up")
          .Help("Whether the store could be reached when it was last asked.")
          .Register(registry_);

  LabelCache<QueueMetrics, 2> queues_{kMaxSeries, [this](const auto& values) {
                                        return std::make_unique<QueueMetrics>(queue_families_,
                                                                              values[0], values[1]);
                                      }};
  LabelCache<RequestEntry, 3> requests_{
      kMaxSeries, [this](const auto& values) { return make_request(values); }};
  LabelCache<CounterEntry, 2> webhooks_{
      kMaxSeries, [this](const auto& values) {
        return made(
            webhook_count_.Add({{"webhook", text(values[0])}, {"outcome", text(values[1])}}));
      }};
  LabelCache<CounterEntry, 3> keys_{
      kMaxSeries, [this](const auto& values) {
        return made(key_count_.Add(
            {{"store", text(values[0])}, {"call", text(values[1])}, {"outcome", text(values[2])}}));
      }};
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

Observer& Metrics::observer(std::string_view store, std::string_view queue) {
  return impl_->queue(store, queue);
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

void Metrics::on_webhook(std::string_view name, std::string_view outcome) {
  impl_->on_webhook(name, outcome);
}

void Metrics::on_waiting_claims(std::ptrdiff_t change) {
  impl_->waiting_claims().Increment(static_cast<double>(change));
}

void Metrics::on_keys(std::string_view store, std::string_view call, std::string_view outcome) {
  impl_->on_keys(store, call, outcome);
}

void Metrics::on_stats(std::string_view store, std::string_view queue, const QueueStats& stats,
                       TimePoint now) {
  impl_->queue(store, queue).on_stats(stats, now);
}

void Metrics::on_store_health(std::string_view store, bool healthy) {
  impl_->on_store_health(store, healthy);
}

std::string Metrics::expose() const { return impl_->expose(); }

}  // namespace oncebox::server
