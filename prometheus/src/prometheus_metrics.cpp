#include "oncebox/prometheus/prometheus_metrics.hpp"

#include <prometheus/registry.h>

#include <cstddef>
#include <map>
#include <utility>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/prometheus/dispatcher_metrics.hpp"
#include "oncebox/prometheus/exposition.hpp"
#include "oncebox/prometheus/process_metrics.hpp"
#include "oncebox/prometheus/queue_metrics.hpp"

namespace oncebox {

class PrometheusMetrics::Impl {
 public:
  metrics::QueueMetrics& queue(const MeasuredQueue& queue) {
    const detail::Lock lock(mutex_);
    auto found = queues_.find({queue.store, queue.queue});
    if (found != queues_.end()) return *found->second;
    const std::string store = queues_.size() < kMaxQueues ? queue.store : "other";
    auto& place = queues_[{store, queue.queue}];
    if (!place) {
      place = std::make_unique<metrics::QueueMetrics>(families_, store, to_string(queue.queue));
    }
    return *place;
  }

  void on_dispatcher(const std::string& name, const RunningStats& stats) {
    dispatchers_.on_stats(name, stats);
  }

  std::string expose() {
    process_.update();
    return metrics::exposition(registry_);
  }

 private:
  static constexpr std::size_t kMaxQueues = 4'000;  // those of 2,000 stores

  prometheus::Registry registry_;
  metrics::ProcessMetrics process_{registry_};
  metrics::QueueFamilies families_{registry_};
  metrics::DispatcherMetrics dispatchers_{registry_};
  detail::Mutex mutex_;
  std::map<std::pair<std::string, QueueKind>, std::unique_ptr<metrics::QueueMetrics>> queues_
      ONCEBOX_GUARDED_BY(mutex_);
};

PrometheusMetrics::PrometheusMetrics() : impl_(std::make_unique<Impl>()) {}
PrometheusMetrics::~PrometheusMetrics() = default;

Observer& PrometheusMetrics::observer(const MeasuredQueue& queue) { return impl_->queue(queue); }

ObserverOfStore PrometheusMetrics::observers(QueueKind queue) {
  return [this, queue](const std::string& store) -> Observer& { return observer({store, queue}); };
}

void PrometheusMetrics::on_stats(const MeasuredQueue& queue, const QueueStats& stats,
                                 TimePoint now) {
  impl_->queue(queue).on_stats(stats, now);
}

void PrometheusMetrics::on_dispatcher(const std::string& name, const RunningStats& stats) {
  impl_->on_dispatcher(name, stats);
}

std::string PrometheusMetrics::expose() const { return impl_->expose(); }

}  // namespace oncebox
