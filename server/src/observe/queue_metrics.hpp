#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "observe/label_cache.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/queue_operator.hpp"

namespace oncebox::server {

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
  prometheus::Family<prometheus::Counter>& mismatches;
  prometheus::Family<prometheus::Histogram>& batch;
  prometheus::Family<prometheus::Histogram>& call_duration;
  prometheus::Family<prometheus::Counter>& call_failures;
  prometheus::Family<prometheus::Gauge>& depth;
  prometheus::Family<prometheus::Gauge>& oldest_ready_age;
  prometheus::Family<prometheus::Gauge>& oldest_dead_age;
};

/// Counts what one queue of one store does.
class QueueMetrics final : public Observer {
 public:
  /// So many topics have series of their own; the others share those of the topic "other".
  static constexpr std::size_t kMaxTopics = 100;

  QueueMetrics(QueueFamilies& families, std::string_view store, std::string_view queue);

  void on_enqueue(const Message& message, const EnqueueOutcome& outcome) noexcept override;
  void on_observe(const MessageKey& key, const ObserveOutcome& outcome) noexcept override;
  void on_claim(std::size_t messages, std::size_t limit) noexcept override;
  void on_delivery(const ClaimedMessage& claimed, Duration waited) noexcept override;
  void on_settle(const Settlement& settlement, SettleOutcome outcome) noexcept override;
  void on_reap(const ReapResult& result) noexcept override;
  void on_store_call(std::string_view call, std::size_t items, std::chrono::nanoseconds took,
                     bool failed) noexcept override;

  void on_stats(const QueueStats& stats, TimePoint now);

 private:
  static constexpr std::size_t kEnqueueStatuses = 9;
  static constexpr std::size_t kObservedStates = 6;
  static constexpr std::size_t kSettleOutcomes = 3;
  static constexpr std::size_t kDepthStates = 6;

  struct TopicEntry {
    prometheus::Labels labels;
    std::array<std::atomic<prometheus::Counter*>, kEnqueueStatuses> enqueued{};
    prometheus::Counter* delivered = nullptr;
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

  [[nodiscard]] prometheus::Labels with(prometheus::Labels more) const;
  [[nodiscard]] std::unique_ptr<TopicEntry> make_topic(std::string_view topic);
  [[nodiscard]] std::unique_ptr<CallEntry> make_call(std::string_view call);
  prometheus::Counter& enqueued(TopicEntry& entry, EnqueueStatus status);
  [[nodiscard]] std::vector<Depth> depths_of(const QueueStats& stats);
  void show(const Depth& depth, TimePoint now);

  QueueFamilies& families_;
  const prometheus::Labels labels_;
  LabelCache<TopicEntry, 1> topics_;
  LabelCache<CallEntry, 1> calls_;

  std::array<prometheus::Counter*, kObservedStates> observed_{};
  std::array<std::array<prometheus::Counter*, kSettleOutcomes>, std::variant_size_v<Verdict>>
      settled_{};
  prometheus::Counter& claims_empty_;
  prometheus::Counter& claims_partial_;
  prometheus::Counter& claims_full_;
  prometheus::Histogram& claim_batch_;
  prometheus::Histogram& delivery_latency_;
  prometheus::Counter& redelivered_;
  prometheus::Counter& retries_;
  prometheus::Counter& dead_failed_;
  prometheus::Counter& dead_reaped_;
  prometheus::Counter& dead_quarantined_;
  prometheus::Counter& lapsed_;
  prometheus::Counter& mismatches_;

  std::mutex stats_mutex_;
  std::vector<TopicEntry*> shown_topics_;  // whose depth was shown last
};

}  // namespace oncebox::server
