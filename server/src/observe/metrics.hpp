#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "oncebox/observer.hpp"
#include "oncebox/queue_operator.hpp"

namespace oncebox::server {

/// What the service counts, for Prometheus. Names begin with `oncebox_`, those of the process with
/// `process_`. Labels are the store's name, the queue, the route's pattern, the outcome, and topics
/// up to a fixed number of them (the rest counts as "other"): nothing that a client can invent
/// without end. Safe from any thread.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// Hears what one queue of one store does. Lives as long as this object; the same for the same
  /// names.
  [[nodiscard]] Observer& observer(std::string_view store, std::string_view queue);

  void on_request(std::string_view method, std::string_view route, int status,
                  std::chrono::nanoseconds took, std::size_t bytes_in, std::size_t bytes_out);
  void on_connections(std::ptrdiff_t change);
  void on_refused_connection();
  /// `outcome` is one of: accepted, duplicate, bad_signature, bad_request, failed.
  void on_webhook(std::string_view name, std::string_view outcome);
  void on_waiting_claims(std::ptrdiff_t change);
  void on_keys(std::string_view store, std::string_view call, std::string_view outcome);
  /// A queue's depth by topic and state, as it was counted.
  void on_stats(std::string_view store, std::string_view queue, const QueueStats& stats,
                TimePoint now);
  void on_store_health(std::string_view store, bool healthy);

  /// The text of `/metrics`, version 0.0.4.
  [[nodiscard]] std::string expose() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::server
