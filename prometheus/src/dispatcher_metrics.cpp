#include "oncebox/prometheus/dispatcher_metrics.hpp"

#include <algorithm>
#include <cstdint>

namespace oncebox::metrics {

namespace {

constexpr const char* kOtherDispatchers = "other";

/// Counters of a dispatcher only grow.
void raise_counter(prometheus::Counter& counter, std::uint64_t value) {
  counter.Increment(std::max(0.0, static_cast<double>(value) - counter.Value()));
}

}  // namespace

DispatcherMetrics::DispatcherMetrics(prometheus::Registry& registry)
    : messages_(prometheus::BuildGauge()
                    .Name("oncebox_dispatcher_messages")
                    .Help("Messages that a dispatcher holds: they wait for a worker, their handler "
                          "runs, or their verdict is not recorded yet.")
                    .Register(registry)),
      prefetches_(prometheus::BuildCounter()
                      .Name("oncebox_dispatcher_prefetches_total")
                      .Help("How often a free worker found a message in the buffer (hit), or had "
                            "to wait for one (miss).")
                      .Register(registry)),
      lease_extensions_(prometheus::BuildCounter()
                            .Name("oncebox_dispatcher_lease_extensions_total")
                            .Help("Leases that were extended because a handler took long.")
                            .Register(registry)),
      given_up_(prometheus::BuildCounter()
                    .Name("oncebox_dispatcher_verdicts_given_up_total")
                    .Help("Verdicts that the store would not take: the leases lapse.")
                    .Register(registry)) {}

void DispatcherMetrics::on_stats(const std::string& dispatcher, const RunningStats& stats) {
  const detail::Lock lock(mutex_);
  Series& series = series_of(dispatcher);
  series.buffered.Set(static_cast<double>(stats.buffered));
  series.running.Set(static_cast<double>(stats.running));
  series.unsettled.Set(static_cast<double>(stats.unsettled));
  raise_counter(series.prefetch_hits, stats.prefetch_hits);
  raise_counter(series.prefetch_misses, stats.prefetch_misses);
  raise_counter(series.lease_extensions, stats.lease_extensions);
  raise_counter(series.given_up, stats.given_up);
}

DispatcherMetrics::Series& DispatcherMetrics::series_of(const std::string& dispatcher) {
  auto found = series_.find(dispatcher);
  if (found != series_.end()) return found->second;
  const std::string name = series_.size() < kMaxDispatchers ? dispatcher : kOtherDispatchers;
  found = series_.find(name);
  if (found == series_.end()) found = series_.emplace(name, make(name)).first;
  return found->second;
}

DispatcherMetrics::Series DispatcherMetrics::make(const std::string& dispatcher) {
  const auto in_state = [&](const char* state) -> prometheus::Gauge& {
    return messages_.Add({{"dispatcher", dispatcher}, {"state", state}});
  };
  const auto with_outcome = [&](const char* outcome) -> prometheus::Counter& {
    return prefetches_.Add({{"dispatcher", dispatcher}, {"outcome", outcome}});
  };
  return {.buffered = in_state("buffered"),
          .running = in_state("running"),
          .unsettled = in_state("unsettled"),
          .prefetch_hits = with_outcome("hit"),
          .prefetch_misses = with_outcome("miss"),
          .lease_extensions = lease_extensions_.Add({{"dispatcher", dispatcher}}),
          .given_up = given_up_.Add({{"dispatcher", dispatcher}})};
}

}  // namespace oncebox::metrics
