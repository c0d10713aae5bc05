#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/prometheus/label_cache.hpp"
#include "oncebox/prometheus/owned_series.hpp"
#include "oncebox/queue_operator.hpp"

namespace oncebox::metrics {

/// What is counted of queues, under their names.
struct QueueFamilies {
  explicit QueueFamilies(prometheus::Registry& registry);

  prometheus::Family<prometheus::Counter>& enqueued;
  prometheus::Family<prometheus::Counter>& observed;
  prometheus::Family<prometheus::Counter>& delivered;
  prometheus::Family<prometheus::Counter>& redelivered;
  prometheus::Family<prometheus::Histogram>& delivery_latency;
  prometheus::Family<prometheus::Counter>& claims;
  prometheus::Family<prometheus::Counter>& settled;
  prometheus::Family<prometheus::Counter>& retries;
  prometheus::Family<prometheus::Counter>& dead;
  prometheus::Family<prometheus::Counter>& lapsed;
  prometheus::Family<prometheus::Counter>& lost;
  prometheus::Family<prometheus::Histogram>& handler_latency;
  prometheus::Family<prometheus::Histogram>& handler_duration;
  prometheus::Family<prometheus::Counter>& mismatches;
  prometheus::Family<prometheus::Histogram>& batch;
  prometheus::Family<prometheus::Histogram>& call_duration;
  prometheus::Family<prometheus::Counter>& call_failures;
  prometheus::Family<prometheus::Gauge>& depth;
  prometheus::Family<prometheus::Gauge>& oldest_ready_age;
  prometheus::Family<prometheus::Gauge>& oldest_dead_age;

  /// Topics with series of their own, over all queues of all stores.
  static constexpr std::size_t kMaxTopicsOfAll = 10'000;
  LabelBudget topics{kMaxTopicsOfAll};
};

/// Counts what one queue of one store does. A queue that nobody uses has no series; all of them go
/// with this object.
class QueueMetrics final : public Observer {
 public:
  /// So many topics have series of their own; the others share those of the topic "other".
  static constexpr std::size_t kMaxTopics = 100;

  QueueMetrics(QueueFamilies& families, std::string_view store, std::string_view queue);

  void on_enqueue(const Message& message, const EnqueueOutcome& outcome) noexcept override;
  void on_observe(const MessageKey& key, const ObserveOutcome& outcome) noexcept override;
  void on_mark(const Mark& mark, MarkOutcome outcome) noexcept override;
  void on_claim(std::size_t messages, std::size_t limit) noexcept override;
  void on_delivery(const ClaimedMessage& claimed, Duration waited) noexcept override;
  void on_settle(const Settlement& settlement, const SettleOutcome& outcome) noexcept override;
  void on_handler_start(const ClaimedMessage& claimed, Duration waited) noexcept override;
  void on_handler_end(const ClaimedMessage& claimed, const Verdict& verdict,
                      std::chrono::nanoseconds took) noexcept override;
  void on_lease_lost(const MessageKey& key) noexcept override;
  void on_cancel(const MessageKey& key) noexcept override;
  void on_reap(const ReapResult& result) noexcept override;
  void on_store_call(std::string_view call, std::size_t items, std::chrono::nanoseconds took,
                     bool failed) noexcept override;

  void on_stats(const QueueStats& stats, TimePoint now);

 private:
  static constexpr std::size_t kEnqueueStatuses = 9;
  static constexpr std::size_t kObservedStates = 7;
  static constexpr std::size_t kSettleOutcomes = 3;
  static constexpr std::size_t kDepthStates = 6;

  struct TopicEntry {
    prometheus::Labels labels;
    std::array<std::atomic<prometheus::Counter*>, kEnqueueStatuses> enqueued{};
    prometheus::Counter* delivered = nullptr;
    std::atomic<prometheus::Histogram*> handler_duration = nullptr;  ///< null before its first one
    std::array<prometheus::Gauge*, kDepthStates> depth{};  ///< null before it was first counted
    prometheus::Gauge* oldest_ready_age = nullptr;
    prometheus::Gauge* oldest_dead_age = nullptr;
  };
  struct CallEntry {
    prometheus::Histogram* duration = nullptr;
    prometheus::Counter* failures = nullptr;
    prometheus::Histogram* batch = nullptr;  ///< null where the items are only a limit
  };
  /// How many messages of a topic there are in each state, and since when.
  struct Depth {
    TopicEntry* topic = nullptr;
    std::array<std::size_t, kDepthStates> counts{};
    std::optional<TimePoint> oldest_ready_at = {};
    std::optional<TimePoint> oldest_dead_at = {};
  };

  prometheus::Counter& counter(prometheus::Family<prometheus::Counter>& family,
                               prometheus::Labels more);
  [[nodiscard]] prometheus::Labels with(prometheus::Labels more) const;
  [[nodiscard]] std::unique_ptr<TopicEntry> make_topic(std::string_view topic);
  [[nodiscard]] std::unique_ptr<CallEntry> make_call(std::string_view call);
  prometheus::Counter& enqueued(TopicEntry& entry, EnqueueStatus status);
  prometheus::Histogram& handler_duration(TopicEntry& entry);
  prometheus::Histogram& handler_latency();
  [[nodiscard]] std::vector<Depth> depths_of(const QueueStats& stats);
  void show(const Depth& depth, TimePoint now) ONCEBOX_REQUIRES(stats_mutex_);

  /// What every queue has that is used at all.
  struct Fixed {
    explicit Fixed(QueueMetrics& queue);

    std::array<prometheus::Counter*, kObservedStates> observed{};
    std::array<std::array<prometheus::Counter*, kSettleOutcomes>, std::variant_size_v<Verdict>>
        settled{};
    prometheus::Counter& claims_empty;
    prometheus::Counter& claims_partial;
    prometheus::Counter& claims_full;
    prometheus::Histogram& claim_batch;
    prometheus::Histogram& delivery_latency;
    prometheus::Counter& redelivered;
    prometheus::Counter& retries;
    prometheus::Counter& dead_failed;
    prometheus::Counter& dead_reaped;
    prometheus::Counter& dead_cancelled;
    prometheus::Counter& dead_quarantined;
    prometheus::Counter& dead_marked;
    prometheus::Counter& lapsed;
    prometheus::Counter& mismatches;
  };
  [[nodiscard]] Fixed& fixed();

  QueueFamilies& families_;
  const prometheus::Labels labels_;
  OwnedSeries series_;
  LabelCache<TopicEntry, 1> topics_;
  LabelCache<CallEntry, 1> calls_;
  std::once_flag fixed_is_made_;
  std::atomic<bool> is_used_ = false;
  std::optional<Fixed> fixed_;
  std::atomic<prometheus::Histogram*> handler_latency_ = nullptr;  // null before the first handler

  detail::Mutex stats_mutex_;
  std::vector<TopicEntry*> shown_topics_
      ONCEBOX_GUARDED_BY(stats_mutex_);  // whose depth was shown last
};

}  // namespace oncebox::metrics
