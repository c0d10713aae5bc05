#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "dispatcher/counters.hpp"
#include "dispatcher/in_flight.hpp"
#include "dispatcher/ready_queue.hpp"
#include "dispatcher/wake_signal.hpp"
#include "dispatcher/worker_pool.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/queue_store.hpp"

namespace oncebox::dispatcher {

/// Measures how much time has passed, by the injected clock or by the machine's steady one,
/// whichever says more: a clock that is set back must cost no lease, and a test moves only the
/// injected one.
class Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock);

  [[nodiscard]] Duration elapsed() const;
  void restart();
  /// When this much will have passed, if the injected clock keeps step.
  [[nodiscard]] SteadyTime at(Duration elapsed) const { return steady_start_ + elapsed; }

 private:
  const Clock& clock_;
  TimePoint start_;
  SteadyTime steady_start_;
};

/// Extends the leases of all that is in flight when about a third of them has passed, tells those
/// whose lease is lost, and reaps at its own interval.
class LeaseKeeper {
 public:
  struct Parts {
    QueueStore& store;
    InFlightTable& table;
    ReadyQueue& ready;
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
    int max_deliveries;
  };

  LeaseKeeper(const Parts& parts, const Settings& settings);

  /// The work of its thread, until a stop is requested.
  void run(const std::stop_token& stop);
  /// Looks at the clock again.
  void wake() noexcept { signal_.raise(kLook); }
  /// Leases are kept, but nothing is reaped any more.
  void stop_reaping() noexcept { reaping_ = false; }

 private:
  static constexpr WakeSignal::Reasons kLook = 1;

  void renew(unsigned rounds);
  void on_lost(const Renewal& renewal, const MessageKey& key);
  /// Answers whether there is more to reap.
  [[nodiscard]] bool reap_step();

  const Parts parts_;
  const Settings settings_;
  // A lease is extended in the second round after it was taken: when between one and two sixths of
  // it have passed.
  const Duration round_;
  WakeSignal signal_;
  std::atomic<bool> reaping_ = true;
  Stopwatch since_round_;
  Stopwatch since_reap_;
  bool more_to_reap_ = false;
};

}  // namespace oncebox::dispatcher
