#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "api/api_json.hpp"
#include "api/served_stores.hpp"

namespace oncebox::server {

/// `GET /v1/events`: tells those who listen how full the queues are, every second, and at once
/// that a queue may have something to claim. Also counts the queues for the metrics, more rarely
/// while nobody listens. Of many stores those in use are counted each time, and the others by
/// turns, so that a thousand that do nothing cost next to nothing. Safe from any thread.
class EventStreams {
 public:
  /// What it is given must outlive it, but for `stop`.
  EventStreams(ServedStores& stores, const ApiParts& parts);
  ~EventStreams();
  EventStreams(const EventStreams&) = delete;
  EventStreams& operator=(const EventStreams&) = delete;

  void start();

  /// A store has come: while somebody listens, its work is told, too.
  void on_opened(const ServedStorePtr& store);

  /// Begins a stream. Throws `overloaded` when there are too many, `unavailable` when draining.
  void add(const ExchangePtr& exchange);

  /// Ends all streams and begins none any more.
  void drain() noexcept;
  /// The same, and nothing is sampled any more.
  void stop();

 private:
  class WorkWatch;
  using StreamPtr = std::shared_ptr<ResponseStream>;

  void broadcast(const std::string& text) noexcept;
  void beat();
  void sample_until_stopped(const std::stop_token& stop);
  void sample();
  /// Which stores to count this time.
  [[nodiscard]] std::vector<ServedStorePtr> choose(const std::vector<ServedStorePtr>& stores);
  void sample_store(ServedStore& store, std::vector<QueueSample>& samples);
  void show_health(const std::vector<ServedStorePtr>& stores);
  /// Sees to it that its work is told, from soon on.
  void watch(const ServedStorePtr& store);
  void begin_to_watch(const ServedStorePtr& store) noexcept;
  [[nodiscard]] std::shared_ptr<WorkWatch> new_watch(const ServedQueue& queue);

  ServedStores& stores_;
  const ApiParts& parts_;

  std::mutex mutex_;
  std::condition_variable_any somebody_listens_;
  std::vector<StreamPtr> streams_;
  std::string last_sample_;  ///< an event; empty while nobody listened when it was taken
  bool draining_ = false;
  std::atomic<std::size_t> listeners_ = 0;

  std::vector<std::weak_ptr<WorkWatch>> watches_;

  // For the sampling thread.
  std::string last_quiet_;         ///< where the turns of those that are not in use are
  std::set<std::string> busy_;     ///< had something unfinished when they were last counted
  std::set<std::string> failing_;  ///< did not answer when they were last asked
  std::jthread sampler_;
};

}  // namespace oncebox::server
