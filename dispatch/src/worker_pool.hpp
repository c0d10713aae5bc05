#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "claim_hints.hpp"
#include "handler_calls.hpp"
#include "in_flight.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/dispatch/running_stats.hpp"
#include "oncebox/histogram.hpp"
#include "ready_messages.hpp"

namespace oncebox::dispatcher {

/// The threads that run handlers. They end when the ready queue is closed. Safe from any thread,
/// except for `start` and `join`.
class WorkerPool {
 public:
  struct Parts {
    ReadyMessages& ready;
    RoomHints& room;
    HandlerCalls& calls;
    const Clock& clock;
  };

  WorkerPool(const Parts& parts, std::size_t workers);

  std::vector<std::thread::id> start();
  void join() noexcept;

  /// Handles the message that is the next to be handled, as this worker, for an owner that starts
  /// no threads; false when none waits.
  bool run_next(std::size_t worker);

  /// Requests the stop token of the handler that runs this delivery, if one does.
  void interrupt(const Renewal& delivery);
  /// Requests those of all handlers; none begins any more.
  void interrupt_all();

  /// Hands a message that no handler has begun to its settler, to be released.
  void give_back(InFlight& message);
  /// Hands a message that never waited for a handler to its settler.
  static void finish(InFlight& message, Verdict verdict);

  [[nodiscard]] std::size_t running() const;
  void add_to(RunningStats& stats) const;

 private:
  struct Worker {
    mutable detail::Mutex mutex;
    InFlight* current ONCEBOX_GUARDED_BY(mutex) = nullptr;
    std::stop_source stop ONCEBOX_GUARDED_BY(mutex);
    // Requested, or about to be: the next handler needs another one.
    bool stop_is_spent ONCEBOX_GUARDED_BY(mutex) = false;

    // Written by the worker's thread alone.
    alignas(64) Histogram latency_ms;
    Histogram duration_ns;
    std::atomic<std::uint64_t> hits = 0;
    std::atomic<std::uint64_t> misses = 0;
  };

  void run(Worker& worker);
  void handle(Worker& worker, InFlight& message);
  std::optional<std::stop_token> begin(Worker& worker, InFlight& message);
  [[nodiscard]] HandlerCalls::Answer call(const InFlight& message, HandlerContext& context) const;
  void end(Worker& worker, InFlight& message, HandlerCalls::Answer answer);
  static void submit(InFlight& message);
  static std::optional<std::stop_source> take_stop_source(Worker& worker, const Renewal* delivery);

  const Parts parts_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<bool> interrupted_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace oncebox::dispatcher
