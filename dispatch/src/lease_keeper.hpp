#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "counters.hpp"
#include "in_flight.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/engine/stopwatch.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/queue_store.hpp"
#include "ready_messages.hpp"
#include "worker_pool.hpp"

namespace oncebox::dispatcher {

using detail::Stopwatch;

/// Extends the leases of all that is in flight when about a third of them has passed, tells those
/// whose lease is lost, and reaps at its own interval.
class LeaseKeeper {
 public:
  struct Parts {
    QueueStore& store;
    InFlightTable& table;
    ReadyMessages& ready;
    WorkerPool& workers;
    Counters& counters;
    Logger& logger;
    Observer& observer;
    const Clock& clock;
    const std::string& store_name;
  };

  struct Settings {
    Duration lease;
    std::optional<Duration> reap_interval;
  };

  LeaseKeeper(const Parts& parts, const Settings& settings);

  /// Does what is due. Answers when to call it again, by one thread at a time; while nothing is in
  /// flight, `next_reap` is soon enough.
  SteadyTime step();
  [[nodiscard]] SteadyTime next_reap() const;
  [[nodiscard]] Duration round() const noexcept { return round_; }
  /// Leases are kept, but nothing is reaped any more.
  void stop_reaping() noexcept { reaping_ = false; }

 private:
  void renew(unsigned rounds);
  void on_lost(const Renewal& renewal, const MessageKey& key);
  void log_lost(std::span<const LeaseExtension> extensions, std::span<const std::size_t> lost);
  /// Answers whether there is more to reap.
  [[nodiscard]] bool reap_step();

  const Parts parts_;
  const Settings settings_;
  // A lease is extended in the second round after it was taken: when between one and two sixths of
  // it have passed.
  const Duration round_;
  std::atomic<bool> reaping_ = true;
  Stopwatch since_round_;
  Stopwatch since_reap_;
  bool more_to_reap_ = false;
};

}  // namespace oncebox::dispatcher
