#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include "oncebox/detail/mutex.hpp"

namespace oncebox::metrics {

/// What the kernel says of this process, under the names that every Prometheus client uses.
class ProcessMetrics {
 public:
  explicit ProcessMetrics(prometheus::Registry& registry);

  /// Asks the kernel again. What it does not tell stays as it was.
  void update();

 private:
  detail::Mutex mutex_;  ///< one update at a time
  prometheus::Counter& cpu_seconds_;
  prometheus::Gauge& resident_bytes_;
  prometheus::Gauge& virtual_bytes_;
  prometheus::Gauge& open_fds_;
  prometheus::Gauge& max_fds_;
  prometheus::Gauge& threads_;
};

}  // namespace oncebox::metrics
