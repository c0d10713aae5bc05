#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "oncebox/observer.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox {
struct RunningStats;
}  // namespace oncebox

namespace oncebox::server {

class RecoveryMetrics;

/// What is counted of one store. Its series go when nobody holds it any more. Safe from any thread.
class StoreMetrics {
 public:
  virtual ~StoreMetrics() = default;

  [[nodiscard]] virtual Observer& queue(QueueKind kind) = 0;
  virtual void on_keys(std::string_view call, std::string_view outcome) = 0;
  virtual void on_waiting_claims(std::ptrdiff_t change) = 0;
  /// A queue's depth by topic and state, as it was counted.
  virtual void on_stats(QueueKind queue, const QueueStats& stats, TimePoint now) = 0;
};

/// Whether a store could be used when it was last asked.
struct StoreUp {
  std::string_view name;
  bool is_up = false;
};

/// What a part of the clients makes the server hold, and how often it was refused more.
struct MemoryUse {
  std::string_view part;
  std::size_t held_bytes = 0;
  std::size_t refusals = 0;
};

/// What the service counts, for Prometheus. Names begin with `oncebox_`, those of the process with
/// `process_`. Labels are the store's name, the queue, the route's pattern, the outcome, and topics
/// up to a fixed number of them (the rest counts as "other"): nothing that a client can invent
/// without end. Of very many stores the last to come count together, as the store "other"; one that
/// is not used has no series but `oncebox_store_up`. Safe from any thread.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// The same for the same name, as long as somebody holds it. Must not outlive this object.
  [[nodiscard]] std::shared_ptr<StoreMetrics> of_store(const std::string& name);

  void on_request(std::string_view method, std::string_view route, int status,
                  std::chrono::nanoseconds took, std::size_t bytes_in, std::size_t bytes_out);
  void on_connections(std::ptrdiff_t change);
  void on_refused_connection();
  /// How many lines of the log were dropped in all.
  void on_dropped_log_lines(std::uint64_t total);
  /// `want` is `places` or `memory`.
  void on_ended_connection(std::string_view want);
  void on_memory(const MemoryUse& use);
  /// `outcome` is one of: accepted, duplicate, bad_signature, bad_request, failed.
  void on_webhook(std::string_view name, std::string_view outcome);
  /// All stores that there are; others have no series any more.
  void on_stores(std::span<const StoreUp> stores);

  /// What a dispatcher of the server does now, by its name.
  void on_dispatcher(const std::string& name, const RunningStats& stats);

  [[nodiscard]] RecoveryMetrics& recovery() noexcept;

  /// The text of `/metrics`, version 0.0.4.
  [[nodiscard]] std::string expose() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::server
