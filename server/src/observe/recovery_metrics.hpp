#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/operate/housekeeping.hpp"
#include "oncebox/operate/watchdog.hpp"

namespace oncebox::server {

/// What housekeeping did, what the watchdog found, and what became of notices. Of stores that are
/// gone no series stay. Safe from any thread.
class RecoveryMetrics {
 public:
  /// The registry must outlive it.
  explicit RecoveryMetrics(prometheus::Registry& registry);

  /// Of all stores that there are.
  void on_housekeeping(std::span<const StoreHousekeeping> stores);
  /// All that there are.
  void on_findings(std::span<const Finding> findings);
  /// `outcome` is one of: sent, failed, dropped.
  void on_notice(const std::string& store, std::string_view outcome);

 private:
  struct StoreSeries {
    std::array<prometheus::Counter*, 8> removed{};
    prometheus::Counter* failures = nullptr;
    prometheus::Gauge* last_run = nullptr;
  };

  StoreSeries make(const std::string& store);
  void remove(const StoreSeries& series);
  void forget_notices_but_of(std::span<const StoreHousekeeping> stores) ONCEBOX_REQUIRES(mutex_);

  prometheus::Family<prometheus::Counter>& removed_;
  prometheus::Family<prometheus::Counter>& failures_;
  prometheus::Family<prometheus::Gauge>& last_run_;
  prometheus::Family<prometheus::Gauge>& findings_;
  prometheus::Family<prometheus::Counter>& notices_;

  detail::Mutex mutex_;
  std::map<std::string, StoreSeries> stores_ ONCEBOX_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, FindingCode>, prometheus::Gauge*> shown_
      ONCEBOX_GUARDED_BY(mutex_);
  /// Of notices.
  std::map<std::pair<std::string, std::string>, prometheus::Counter*> told_
      ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::server
