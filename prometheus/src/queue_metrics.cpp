#include "oncebox/prometheus/queue_metrics.hpp"

#include <algorithm>

namespace oncebox::metrics {

namespace {

prometheus::Family<prometheus::Counter>& counter(prometheus::Registry& registry, const char* name,
                                                 const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Gauge>& gauge(prometheus::Registry& registry, const char* name,
                                             const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Histogram>& histogram(prometheus::Registry& registry,
                                                     const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

const prometheus::Histogram::BucketBoundaries kLatencySeconds = {
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600};
const prometheus::Histogram::BucketBoundaries kCallSeconds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
    0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
const prometheus::Histogram::BucketBoundaries kHandlerSeconds = {
    0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800};
const prometheus::Histogram::BucketBoundaries kBatchItems = {1,  2,   4,   8,   16,  32,
                                                             64, 128, 256, 512, 1024};

constexpr std::array<std::string_view, 4> kVerdicts = {"ack", "abandon", "fail", "release"};
constexpr std::array<std::string_view, 6> kStates = {"seen",   "ready", "waiting",
                                                     "leased", "done",  "dead"};
// What a client may call a topic without one cannot be mistaken for it: no topic is empty.
constexpr std::string_view kNoTopic = "";
// The calls of a QueueStore are ten.
constexpr std::size_t kMaxCalls = 32;

double seconds(std::chrono::duration<double> duration) { return duration.count(); }

double age(const std::optional<TimePoint>& since, TimePoint now) {
  return since ? std::max(0.0, seconds(now - *since)) : 0.0;
}

void keep_earlier(std::optional<TimePoint>& kept, const std::optional<TimePoint>& other) {
  if (other && (!kept || *other < *kept)) kept = other;
}

}  // namespace

QueueFamilies::QueueFamilies(prometheus::Registry& registry)
    : enqueued(counter(registry, "oncebox_messages_enqueued_total",
                       "Messages offered to the queue, by what became of them.")),
      observed(counter(registry, "oncebox_messages_observed_total",
                       "Keys observed, by what was known of them.")),
      delivered(counter(registry, "oncebox_messages_delivered_total",
                        "Messages handed out to a worker, again ones included.")),
      redelivered(counter(registry, "oncebox_messages_redelivered_total",
                          "Messages handed out that had been handed out before.")),
      delivery_latency(histogram(registry, "oncebox_delivery_latency_seconds",
                                 "From when a message could be claimed until it was.")),
      claims(counter(registry, "oncebox_claims_total",
                     "Claims, by whether they got all, some or none of what they asked for.")),
      settled(counter(registry, "oncebox_messages_settled_total",
                      "Settlements, by verdict and by whether it took effect.")),
      retries(counter(registry, "oncebox_messages_retried_total",
                      "Messages that failed and will be tried again.")),
      dead(counter(registry, "oncebox_messages_dead_total",
                   "Messages that went dead, by the cause.")),
      lapsed(
          counter(registry, "oncebox_leases_lapsed_total", "Leases that ran out and were ended.")),
      lost(counter(registry, "oncebox_leases_lost_total",
                   "Leases that ended while a dispatcher held the message.")),
      handler_latency(histogram(registry, "oncebox_handler_latency_seconds",
                                "From when a message could be claimed until its handler began.")),
      handler_duration(
          histogram(registry, "oncebox_handler_duration_seconds", "How long handlers take.")),
      mismatches(counter(registry, "oncebox_hash_mismatches_total",
                         "Keys that came again with other content under the same id.")),
      batch(histogram(registry, "oncebox_batch_items",
                      "Items in one call of the store; of claims, messages that it answered.")),
      call_duration(histogram(registry, "oncebox_store_call_duration_seconds",
                              "How long calls of the store take.")),
      call_failures(counter(registry, "oncebox_store_call_failures_total",
                            "Calls of the store that failed.")),
      depth(gauge(registry, "oncebox_queue_messages",
                  "Messages in the queue, by topic and by what they are doing.")),
      oldest_ready_age(gauge(registry, "oncebox_queue_oldest_ready_age_seconds",
                             "How long the first of the claimable messages has been so.")),
      oldest_dead_age(gauge(registry, "oncebox_queue_oldest_dead_age_seconds",
                            "How long the first of the dead messages has been so.")) {}

QueueMetrics::QueueMetrics(QueueFamilies& families, std::string_view store, std::string_view queue)
    : families_(families),
      labels_({{"store", std::string(store)}, {"queue", std::string(queue)}}),
      topics_(
          kMaxTopics, [this](const auto& values) { return make_topic(values[0]); },
          &families.topics),
      calls_(kMaxCalls, [this](const auto& values) { return make_call(values[0]); }) {}

QueueMetrics::Fixed::Fixed(QueueMetrics& queue)
    : claims_empty(queue.counter(queue.families_.claims, {{"outcome", "empty"}})),
      claims_partial(queue.counter(queue.families_.claims, {{"outcome", "partial"}})),
      claims_full(queue.counter(queue.families_.claims, {{"outcome", "full"}})),
      claim_batch(
          queue.series_.add(queue.families_.batch, queue.with({{"call", "claim"}}), kBatchItems)),
      delivery_latency(
          queue.series_.add(queue.families_.delivery_latency, queue.labels_, kLatencySeconds)),
      redelivered(queue.counter(queue.families_.redelivered, {})),
      retries(queue.counter(queue.families_.retries, {})),
      dead_failed(queue.counter(queue.families_.dead, {{"cause", "failed"}})),
      dead_reaped(queue.counter(queue.families_.dead, {{"cause", "expired_or_lapsed"}})),
      dead_cancelled(queue.counter(queue.families_.dead, {{"cause", "cancelled"}})),
      dead_quarantined(queue.counter(queue.families_.dead, {{"cause", "quarantined"}})),
      dead_marked(queue.counter(queue.families_.dead, {{"cause", "marked"}})),
      lapsed(queue.counter(queue.families_.lapsed, {})),
      mismatches(queue.counter(queue.families_.mismatches, {})) {
  for (std::size_t state = 0; state < observed.size(); ++state) {
    const auto name = to_string(static_cast<ObservedState>(state));
    observed[state] = &queue.counter(queue.families_.observed, {{"outcome", std::string(name)}});
  }
  for (std::size_t verdict = 0; verdict < settled.size(); ++verdict) {
    for (std::size_t outcome = 0; outcome < kSettleOutcomes; ++outcome) {
      const auto name = to_string(static_cast<SettleStatus>(outcome));
      settled[verdict][outcome] = &queue.counter(
          queue.families_.settled,
          {{"verdict", std::string(kVerdicts[verdict])}, {"outcome", std::string(name)}});
    }
  }
}

QueueMetrics::Fixed& QueueMetrics::fixed() {
  if (!is_used_.load(std::memory_order_acquire)) {
    std::call_once(fixed_is_made_, [this] {
      fixed_.emplace(*this);
      is_used_.store(true, std::memory_order_release);
    });
  }
  return *fixed_;
}

prometheus::Counter& QueueMetrics::counter(prometheus::Family<prometheus::Counter>& family,
                                           prometheus::Labels more) {
  return series_.add(family, with(std::move(more)));
}

prometheus::Labels QueueMetrics::with(prometheus::Labels more) const {
  more.insert(labels_.begin(), labels_.end());
  return more;
}

std::unique_ptr<QueueMetrics::TopicEntry> QueueMetrics::make_topic(std::string_view topic) {
  auto entry = std::make_unique<TopicEntry>();
  entry->labels = with({{"topic", std::string(topic)}});
  if (topic != kNoTopic) {
    entry->delivered = &series_.add(families_.delivered, entry->labels);
  }
  return entry;
}

std::unique_ptr<QueueMetrics::CallEntry> QueueMetrics::make_call(std::string_view call) {
  const prometheus::Labels labels = with({{"call", std::string(call)}});
  auto entry = std::make_unique<CallEntry>();
  entry->duration = &series_.add(families_.call_duration, labels, kCallSeconds);
  entry->failures = &series_.add(families_.call_failures, labels);
  if (call != "claim" && call != "reap" && call != "next_due") {
    entry->batch = &series_.add(families_.batch, labels, kBatchItems);
  }
  return entry;
}

prometheus::Counter& QueueMetrics::enqueued(TopicEntry& entry, EnqueueStatus status) {
  auto& place = entry.enqueued[static_cast<std::size_t>(status)];
  prometheus::Counter* known = place.load(std::memory_order_acquire);
  if (known == nullptr) {
    prometheus::Labels labels = entry.labels;
    labels.emplace("outcome", to_string(status));
    known = &series_.add(families_.enqueued, labels);  // the same one for two threads at once
    place.store(known, std::memory_order_release);
  }
  return *known;
}

void QueueMetrics::on_enqueue(const Message& message, const EnqueueOutcome& outcome) noexcept {
  enqueued(topics_.get({message.topic.str()}), outcome.status).Increment();
  if (outcome.hash_mismatch) fixed().mismatches.Increment();
  if (outcome.newly_dead) fixed().dead_quarantined.Increment();
}

void QueueMetrics::on_observe(const MessageKey& /*key*/, const ObserveOutcome& outcome) noexcept {
  fixed().observed[static_cast<std::size_t>(outcome.state)]->Increment();
  if (outcome.hash_mismatch) fixed().mismatches.Increment();
}

void QueueMetrics::on_mark(const Mark& mark, MarkOutcome outcome) noexcept {
  if (mark.as != MarkAs::dead || outcome != MarkOutcome::marked) return;
  fixed().dead_marked.Increment();
}

void QueueMetrics::on_claim(std::size_t messages, std::size_t limit) noexcept {
  if (messages == 0) {
    fixed().claims_empty.Increment();
    return;
  }
  (messages < limit ? fixed().claims_partial : fixed().claims_full).Increment();
  fixed().claim_batch.Observe(static_cast<double>(messages));
}

void QueueMetrics::on_delivery(const ClaimedMessage& claimed, Duration waited) noexcept {
  topics_.get({claimed.message.topic.str()}).delivered->Increment();
  if (claimed.history.deliveries > 1) fixed().redelivered.Increment();
  fixed().delivery_latency.Observe(std::max(0.0, seconds(waited)));
}

void QueueMetrics::on_settle(const Settlement& settlement, const SettleOutcome& outcome) noexcept {
  const auto status = static_cast<std::size_t>(outcome.status);
  fixed().settled[settlement.verdict.index()][status]->Increment();
  if (outcome != SettleStatus::settled) return;
  if (outcome.death) {
    fixed().dead_failed.Increment();
  } else if (std::holds_alternative<Abandon>(settlement.verdict)) {
    fixed().retries.Increment();
  }
}

// The same one for two threads at once, as `OwnedSeries` gives it.
prometheus::Histogram& QueueMetrics::handler_duration(TopicEntry& entry) {
  prometheus::Histogram* known = entry.handler_duration.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = &series_.add(families_.handler_duration, entry.labels, kHandlerSeconds);
    entry.handler_duration.store(known, std::memory_order_release);
  }
  return *known;
}

prometheus::Histogram& QueueMetrics::handler_latency() {
  prometheus::Histogram* known = handler_latency_.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = &series_.add(families_.handler_latency, labels_, kLatencySeconds);
    handler_latency_.store(known, std::memory_order_release);
  }
  return *known;
}

void QueueMetrics::on_handler_start(const ClaimedMessage& /*claimed*/, Duration waited) noexcept {
  handler_latency().Observe(std::max(0.0, seconds(waited)));
}

void QueueMetrics::on_handler_end(const ClaimedMessage& claimed, const Verdict& /*verdict*/,
                                  std::chrono::nanoseconds took) noexcept {
  handler_duration(topics_.get({claimed.message.topic.str()})).Observe(seconds(took));
}

// Only a dispatcher tells of it, and rarely: a server has no such series.
void QueueMetrics::on_lease_lost(const MessageKey& /*key*/) noexcept {
  counter(families_.lost, {}).Increment();
}

void QueueMetrics::on_cancel(const MessageKey& /*key*/) noexcept {
  fixed().dead_cancelled.Increment();
}

void QueueMetrics::on_reap(const ReapResult& result) noexcept {
  if (result.total() == 0) return;
  fixed().lapsed.Increment(static_cast<double>(result.released));
  fixed().dead_reaped.Increment(static_cast<double>(result.buried));
}

void QueueMetrics::on_store_call(std::string_view call, std::size_t items,
                                 std::chrono::nanoseconds took, bool failed) noexcept {
  // That a queue which nobody uses was looked at is worth no series.
  if (call == "reap" && !failed && !is_used_.load(std::memory_order_relaxed)) return;
  CallEntry& entry = calls_.get({call});
  entry.duration->Observe(seconds(took));
  if (failed) {
    entry.failures->Increment();
  } else if (entry.batch != nullptr) {
    entry.batch->Observe(static_cast<double>(items));
  }
}

std::vector<QueueMetrics::Depth> QueueMetrics::depths_of(const QueueStats& stats) {
  std::vector<Depth> depths;
  for (const TopicStats& topic : stats.topics) {
    TopicEntry& entry = topics_.get({topic.topic ? topic.topic->str() : kNoTopic});
    // Topics that are "other" come together.
    auto depth = std::find_if(depths.begin(), depths.end(),
                              [&](const Depth& known) { return known.topic == &entry; });
    if (depth == depths.end()) depth = depths.insert(depths.end(), Depth{.topic = &entry});
    const std::array counts = {topic.seen,   topic.ready, topic.waiting.total(),
                               topic.leased, topic.done,  topic.dead};
    for (std::size_t state = 0; state < counts.size(); ++state) {
      depth->counts[state] += counts[state];
    }
    keep_earlier(depth->oldest_ready_at, topic.oldest_ready_at);
    keep_earlier(depth->oldest_dead_at, topic.oldest_dead_at);
  }
  return depths;
}

void QueueMetrics::show(const Depth& depth, TimePoint now) {
  TopicEntry& topic = *depth.topic;
  if (topic.oldest_ready_age == nullptr) {
    for (std::size_t state = 0; state < kStates.size(); ++state) {
      prometheus::Labels in_state = topic.labels;
      in_state.emplace("state", kStates[state]);
      topic.depth[state] = &series_.add(families_.depth, in_state);
    }
    topic.oldest_dead_age = &series_.add(families_.oldest_dead_age, topic.labels);
    topic.oldest_ready_age = &series_.add(families_.oldest_ready_age, topic.labels);
  }
  for (std::size_t state = 0; state < kStates.size(); ++state) {
    topic.depth[state]->Set(static_cast<double>(depth.counts[state]));
  }
  topic.oldest_ready_age->Set(age(depth.oldest_ready_at, now));
  topic.oldest_dead_age->Set(age(depth.oldest_dead_at, now));
}

void QueueMetrics::on_stats(const QueueStats& stats, TimePoint now) {
  const std::vector<Depth> depths = depths_of(stats);
  const detail::Lock lock(stats_mutex_);
  for (TopicEntry* before : shown_topics_) {
    const bool still_there = std::any_of(depths.begin(), depths.end(),
                                         [&](const Depth& depth) { return depth.topic == before; });
    if (!still_there) show({.topic = before}, now);
  }
  for (const Depth& depth : depths) show(depth, now);
  shown_topics_.clear();
  for (const Depth& depth : depths) shown_topics_.push_back(depth.topic);
}

}  // namespace oncebox::metrics
