#pragma once

#include <prometheus/family.h>
#include <prometheus/labels.h>

#include <functional>
#include <unordered_map>
#include <utility>

#include "oncebox/detail/mutex.hpp"

namespace oncebox::metrics {

/// The series that one owner has made: they go with it. Safe from any thread.
class OwnedSeries {
 public:
  OwnedSeries() = default;
  ~OwnedSeries() {
    for (const auto& [made, remove] : made_) remove();
  }
  OwnedSeries(const OwnedSeries&) = delete;
  OwnedSeries& operator=(const OwnedSeries&) = delete;

  /// The same one for the same labels.
  template <class Metric, class... Arguments>
  Metric& add(prometheus::Family<Metric>& family, const prometheus::Labels& labels,
              Arguments&&... arguments) {
    const detail::Lock lock(mutex_);
    Metric& metric = family.Add(labels, std::forward<Arguments>(arguments)...);
    made_.try_emplace(&metric, [&family, &metric] { family.Remove(&metric); });
    return metric;
  }

 private:
  detail::Mutex mutex_;
  std::unordered_map<const void*, std::function<void()>> made_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::metrics
