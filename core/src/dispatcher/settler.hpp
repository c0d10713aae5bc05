#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include "dispatcher/claim_gate.hpp"
#include "dispatcher/counters.hpp"
#include "dispatcher/in_flight.hpp"
#include "dispatcher/wake_signal.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/queue_store.hpp"

namespace oncebox::dispatcher {

/// Records verdicts. While one batch is being recorded the next one gathers; nothing waits for a
/// timer. A store that fails is asked again with growing pauses; a verdict that it refuses for good
/// is logged, and its lease lapses.
class Settler {
 public:
  struct Parts {
    QueueStore& store;
    InFlightTable& table;
    ClaimGate& gate;
    Counters& counters;
    Logger& logger;
    Observer& observer;
    const Clock& clock;
    const std::string& store_name;
  };

  explicit Settler(const Parts& parts) : parts_(parts) {}

  /// Takes a message over whose verdict is given. From any thread.
  void submit(InFlight& message) noexcept;

  /// The work of its thread: ends once a stop is requested and nothing is left.
  void run(const std::stop_token& stop);

  /// From now on a call that fails is not repeated.
  void stop_repeating() noexcept;
  /// Ends a pause after a failure.
  void wake() noexcept { signal_.raise(kLook); }

 private:
  static constexpr WakeSignal::Reasons kVerdicts = 1;
  static constexpr WakeSignal::Reasons kLook = 2;

  void gather();
  void settle_next();
  void conclude(std::size_t count, const std::vector<SettleOutcome>& outcomes);
  void count(const InFlight& message, const Settlement& settlement, SettleOutcome outcome);
  void on_failure(std::size_t count, const std::exception& failure);
  void give_up(std::size_t count, const char* why);
  void drop_first(std::size_t count);

  const Parts parts_;
  WakeSignal signal_;
  std::atomic<InFlight*> submitted_ = nullptr;  // a stack, taken as a whole
  std::atomic<bool> repeats_ = true;

  // Of its thread alone.
  std::vector<InFlight*> pending_;
  std::vector<Settlement> settlements_;  // only ever grows: see `InFlightTable::address`
  std::size_t one_by_one_ = 0;           // so many of the first go alone, to find the bad one
  std::chrono::milliseconds pause_{0};
};

}  // namespace oncebox::dispatcher
