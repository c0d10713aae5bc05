#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <map>
#include <string>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/dispatch/running_stats.hpp"

namespace oncebox::metrics {

/// What dispatchers tell of themselves in `RunningStats` and no observer hears, by their names.
/// Safe from any thread.
class DispatcherMetrics {
 public:
  /// More dispatchers than this count as the one called "other".
  static constexpr std::size_t kMaxDispatchers = 100;

  /// The registry must outlive it.
  explicit DispatcherMetrics(prometheus::Registry& registry);

  void on_stats(const std::string& dispatcher, const RunningStats& stats);

 private:
  struct Series {
    prometheus::Gauge& buffered;
    prometheus::Gauge& running;
    prometheus::Gauge& unsettled;
    prometheus::Counter& prefetch_hits;
    prometheus::Counter& prefetch_misses;
    prometheus::Counter& lease_extensions;
    prometheus::Counter& given_up;
  };

  [[nodiscard]] Series& series_of(const std::string& dispatcher) ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] Series make(const std::string& dispatcher);

  prometheus::Family<prometheus::Gauge>& messages_;
  prometheus::Family<prometheus::Counter>& prefetches_;
  prometheus::Family<prometheus::Counter>& lease_extensions_;
  prometheus::Family<prometheus::Counter>& given_up_;
  detail::Mutex mutex_;
  std::map<std::string, Series> series_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::metrics
