#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "async_calls.hpp"
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
  ~WorkerPool() { release_uncompleted(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  std::vector<std::thread::id> start();
  void join() noexcept;

  /// Handles the message that is the next to be handled, as this worker, for an owner that starts
  /// no threads; false when none waits.
  bool run_next(std::size_t worker);

  /// Requests the stop token of the handler that runs this delivery, if one does.
  void interrupt(const Renewal& delivery);
  /// Requests those of all handlers; none begins any more.
  void interrupt_all();
  /// Releases what handlers without a thread have not completed; none has an effect any more. After
  /// `interrupt_all`. Answers how many there were.
  std::size_t release_uncompleted() noexcept { return async_->close(); }

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
    std::size_t running ONCEBOX_GUARDED_BY(mutex) = 0;  // messages that its handler has now
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
  /// Of one message, or of a batch. Nothing when no handler is to begin any more.
  std::optional<std::stop_token> begin(Worker& worker, std::span<InFlight* const> messages);
  [[nodiscard]] HandlerCalls::Answer call(const InFlight& message, HandlerContext& context) const;
  void end(Worker& worker);
  /// The message has its answer.
  void conclude(InFlight& message, HandlerCalls::Answer answer);

  // Handlers of batches.

  void handle_batch(Worker& worker, InFlight& first);
  [[nodiscard]] std::vector<InFlight*> gather_batch(InFlight& first, TimePoint now);
  void run_batch(Worker& worker, const std::vector<InFlight*>& messages, TimePoint now,
                 const std::stop_token& stop);

  // Handlers without a thread.

  void start_async(Worker& worker, InFlight& message);
  void end_async(const AsyncCallInFlight& call, InFlight& message,
                 const std::exception_ptr& failure);

  [[nodiscard]] HandlerCall call_of(const InFlight& message, std::stop_token stop) const;
  void note_start(Worker& worker, InFlight& message, TimePoint now);
  void note_end(InFlight& message, const HandlerCalls::Answer& answer,
                std::chrono::nanoseconds took);
  static void submit(InFlight& message);
  static std::optional<std::stop_source> take_stop_source(Worker& worker, const Renewal* delivery);

  const Parts parts_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<bool> interrupted_ = false;
  std::vector<std::jthread> threads_;

  mutable detail::Mutex async_mutex_;
  Histogram async_duration_ns_ ONCEBOX_GUARDED_BY(async_mutex_);
  const std::shared_ptr<AsyncCalls> async_;  // last: what ends in it uses the members above
};

}  // namespace oncebox::dispatcher
