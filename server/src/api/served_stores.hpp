#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "api/hosted_store.hpp"
#include "api/paused_topics.hpp"
#include "api/waiting_claims.hpp"

namespace oncebox::server {

/// What every group of routes is given.
struct ApiParts {
  const ServerOptions& options;
  CallPool& calls;
  TimerQueue& timers;
  Metrics& metrics;
  Logger& logger;
  const Clock& clock;
};

/// One queue of one store, with what the routes need of it.
struct ServedQueue {
  HostedStore& store;
  std::string_view name;  ///< "inbox" or "outbox"
  QueueStore& queue;      ///< with log and metrics
  QueueOperator& operations;
  Inbox* singles;  ///< lets single messages share commits; null: they go to the queue
  std::size_t max_payload_bytes;
  PausedTopics paused = {};
  std::shared_ptr<WaitingClaims> claims = {};
};

struct ServedStore {
  HostedStore& store;
  ServedQueue inbox;
  ServedQueue outbox;
};

/// All stores, with what the service keeps beside each in memory.
class ServedStores {
 public:
  ServedStores(HostedStores& stores, const ApiParts& parts);
  /// Waiting claims are closed before: see `close`.
  ~ServedStores() = default;
  ServedStores(const ServedStores&) = delete;
  ServedStores& operator=(const ServedStores&) = delete;

  /// Throws `not_found`. An empty name means the default.
  [[nodiscard]] ServedStore& find(std::string_view name);

  /// The queues tell waiting claims of work from now on.
  void listen();
  void drain() noexcept;
  void close() noexcept;

  [[nodiscard]] auto begin() const noexcept { return stores_.begin(); }
  [[nodiscard]] auto end() const noexcept { return stores_.end(); }

 private:
  WaitingPlaces places_;
  std::vector<std::unique_ptr<ServedStore>> stores_;
};

}  // namespace oncebox::server
