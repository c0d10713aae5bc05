#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>
#include <compare>
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

/// What a notice is about.
enum class NoticeKind { dead, endpoint };

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
  void on_notice(NoticeKind kind, const std::string& store, std::string_view outcome);
  /// By this process, because of what its receiver answered, or did not.
  void on_endpoint_disabled(const std::string& store);

 private:
  struct StoreSeries {
    std::array<prometheus::Counter*, 8> removed{};
    prometheus::Counter* failures = nullptr;
    prometheus::Gauge* last_run = nullptr;
  };

  StoreSeries make(const std::string& store);
  void remove(const StoreSeries& series);
  void forget_told_but_of(std::span<const StoreHousekeeping> stores) ONCEBOX_REQUIRES(mutex_);
  void count(prometheus::Family<prometheus::Counter>& family, const std::string& store,
             std::string_view outcome);

  prometheus::Family<prometheus::Counter>& removed_;
  prometheus::Family<prometheus::Counter>& failures_;
  prometheus::Family<prometheus::Gauge>& last_run_;
  prometheus::Family<prometheus::Gauge>& findings_;
  prometheus::Family<prometheus::Counter>& dead_notices_;
  prometheus::Family<prometheus::Counter>& endpoint_notices_;
  prometheus::Family<prometheus::Counter>& endpoints_disabled_;

  detail::Mutex mutex_;
  std::map<std::string, StoreSeries> stores_ ONCEBOX_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, FindingCode>, prometheus::Gauge*> shown_
      ONCEBOX_GUARDED_BY(mutex_);
  /// Of notices, and of endpoints that were disabled.
  struct Told {
    std::string store;
    prometheus::Family<prometheus::Counter>* family;
    std::string outcome;  ///< empty: the family has none

    friend auto operator<=>(const Told&, const Told&) = default;
  };
  std::map<Told, prometheus::Counter*> told_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::server
