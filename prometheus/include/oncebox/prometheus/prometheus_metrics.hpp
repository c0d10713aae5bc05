#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/dispatch/running_stats.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox {

/// Which queue of which store, as the labels of metrics have it.
struct MeasuredQueue {
  std::string store;
  QueueKind queue = QueueKind::inbox;
};

/// Metrics for Prometheus of a program that uses the library: what its queues take in and hand out,
/// how long handlers take, batches, retries, deaths, how well dispatchers stay ahead of their
/// workers, and what the kernel says of the process. `/metrics` of the server has the same names.
///
///     PrometheusMetrics metrics;
///     Observer& observer = metrics.observer({"shop"});
///     Inbox inbox(store, {}, {.observer = observer});
///     Dispatcher dispatcher(store.inbox(), handlers, {}, {.observer = observer});
///     // whenever Prometheus asks
///     metrics.on_dispatcher("shop", dispatcher.stats());
///     answer(PrometheusMetrics::kContentType, metrics.expose());
///
/// Labels are names of stores (2,000; further ones count as "other"), topics (100 of a queue,
/// 10,000 of all) and words of ours: nothing that a sender can invent without end. A queue that
/// does nothing has no series. Safe from any thread.
class PrometheusMetrics {
 public:
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

  PrometheusMetrics();
  ~PrometheusMetrics();
  PrometheusMetrics(const PrometheusMetrics&) = delete;
  PrometheusMetrics& operator=(const PrometheusMetrics&) = delete;

  /// For `Inbox`, `Outbox`, dispatchers and `ObservedQueueStore`. The same one for the same queue;
  /// it lives as long as this object.
  [[nodiscard]] Observer& observer(const MeasuredQueue& queue);
  /// For a `SetDispatcher`, an `InboxRouter` or a `Housekeeping`: the observers of queues of this
  /// kind, by their stores.
  [[nodiscard]] ObserverOfStore observers(QueueKind queue = QueueKind::inbox);

  /// How many messages a queue has in each state, as its operator counted them at this time.
  void on_stats(const MeasuredQueue& queue, const QueueStats& stats, TimePoint now);
  /// What a dispatcher of this name does now. Two at a time need two names.
  void on_dispatcher(const std::string& name, const RunningStats& stats);

  /// The text that Prometheus reads, as `kContentType`.
  [[nodiscard]] std::string expose() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox
