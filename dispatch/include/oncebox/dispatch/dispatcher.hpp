#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/dispatch/no_handler_policy.hpp"
#include "oncebox/dispatch/running_stats.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/retry_policy.hpp"
#include "oncebox/surroundings.hpp"
#include "oncebox/topic_pattern.hpp"
#include "oncebox/uuid.hpp"
#include "oncebox/worker.hpp"

namespace oncebox {

struct DispatcherOptions {
  /// Names the queue in every log line. Empty: "inbox", or "outbox" for an `OutboxDispatcher`.
  std::string name = {};
  /// Who claims; nothing: a new token. Two dispatchers must not share one.
  std::optional<OwnerToken> owner = {};
  /// What people know this worker by: shown with its leases and attempts, and in lists of workers.
  /// Nothing: `this_process()`.
  std::optional<WorkerName> worker_name = {};

  std::size_t workers = defaults::kWorkers;       ///< handlers that run at once
  std::size_t batch_size = defaults::kBatchSize;  ///< messages in one claim
  /// Messages that wait for a worker, at most; nothing: two batches. Handlers that take seconds
  /// want a small number, so that other processes get their share.
  std::optional<std::size_t> max_buffered = {};
  /// Payloads held at a time, waiting or running. One message may exceed it alone.
  std::size_t buffer_bytes = defaults::kBufferBytes;

  Duration lease = defaults::kLease;  ///< extended for as long as a message is held
  /// How soon to look again when nothing was found: doubled each time, up to the maximum. A store
  /// that notifies, and messages that become due, are not waited for by polling.
  Duration poll_interval = defaults::kPollInterval;
  Duration max_poll_interval = defaults::kMaxPollInterval;
  /// Nothing: this dispatcher does not reap. Claims take over lapsed leases in any case; reaping
  /// also ends those that nobody claims, and buries what has expired.
  std::optional<Duration> reap_interval = defaults::kReapInterval;

  /// Rules of these handlers' own, which win. What they leave open is for the rules of the store,
  /// see `TopicPolicy`.
  RetryPolicies retries = {};
  NoHandlerPolicy no_handler = NoHandlerPolicy::abandon;
  /// A message whose failed and lapsed deliveries have reached this number is dead in place of its
  /// next delivery, when one of them lapsed. The store's own number, see `TopicPolicy`,
  /// holds as well. Nothing: that one alone.
  std::optional<int> max_deliveries = {};

  /// Throws `out_of_range`, naming the option.
  void validate() const;
};

struct StopOptions {
  /// How long running handlers may go on. Then their stop tokens are requested.
  Duration finish_within = defaults::kFinishWithin;
  /// How long to wait after that. Then what handlers without a thread have not completed is
  /// released, which may take as long again.
  Duration interrupt_within = defaults::kInterruptWithin;
};

struct StopResult {
  std::size_t still_running = 0;  ///< handlers that did not end in time
  std::size_t unsettled = 0;      ///< messages whose verdict or release is not recorded yet

  [[nodiscard]] bool complete() const noexcept { return still_running + unsettled == 0; }
};

struct IdleOptions {
  std::optional<Duration> timeout = {};  ///< how long to wait; nothing: for as long as it takes
  std::stop_token stop = {};             ///< ends the wait when a stop is requested
  /// What becomes claimable within this time counts as work, too, so that the wait lasts until it
  /// is done: retries, due times, and leases that others hold and that may lapse. Zero: only what
  /// is claimable now.
  Duration due_within{0};
};

/// Claims messages of a queue and runs their handlers: a claim loop fills a bounded buffer, worker
/// threads empty it, and their verdicts are recorded in batches while the next ones gather.
///
/// **What is promised.** A message is held by one dispatcher at a time, and its handler runs on one
/// thread of this process at a time, even when a lease lapsed and the message came again. A verdict
/// is recorded as soon as the store takes it; until then the lease is kept. When a process dies,
/// its messages are handed out again once their leases lapse.
///
/// **Failures of the store** end nothing: claims, extensions and settlements are repeated with
/// growing pauses for as long as this object lives, and are never taken for a failure of a handler.
///
/// **Threads.** Every call is safe from any thread, also from inside a handler, except for
/// construction and destruction.
///
/// **Logs.** Handler calls at info, their failures at error, topics without handler at warning;
/// each with the queue's name, topic, key and, when the headers have them, correlation and
/// causation id. Never a payload.
class Dispatcher {
 public:
  /// Handlers and options are copied; everything else is borrowed and must outlive this object.
  /// Throws as `DispatcherOptions::validate` does.
  Dispatcher(QueueStore& store, const Handlers& handlers, const DispatcherOptions& options = {},
             const Surroundings& surroundings = {});

  /// Stops, requests the stop tokens at once, and waits for every handler: one that never ends
  /// blocks it for ever. A verdict that the store does not take at the last try is lost, and
  /// logged. Not to be called from a handler.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Begins to work. Throws `conflict` when it was started or stopped before.
  void start();

  /// Ends the work in order: nothing more is claimed, what no handler has begun is released without
  /// counting an attempt, what runs may finish within the time given, and every verdict is
  /// recorded. Answers what is left when the time is over instead of waiting on: a handler that
  /// ends later is still settled while its lease holds. May be called again, at once or later, and
  /// before `start`. From inside a handler it begins to stop and does not wait.
  StopResult stop(const StopOptions& options = {});
  /// Requests the stop tokens at once.
  StopResult stop_now() { return stop({.finish_within = Duration::zero()}); }

  /// Claims nothing until `resume`. What runs goes on; what waits in the buffer is released. No
  /// handler begins after this has returned, except for one that a worker was just about to call.
  void pause();
  void resume();
  /// The same for the topics of one pattern. Pauses add up: a topic rests while any pattern that
  /// matches it is paused, and `resume` ends the pause of this very pattern.
  void pause(const TopicPattern& pattern);
  void resume(const TopicPattern& pattern);

  /// Looks for work and at the clock now, without waiting for the next poll. For stores that do not
  /// notify, and for tests that have moved a clock.
  void wake() noexcept;

  /// Waits until there is nothing to do: nothing can be claimed, no handler runs, and every verdict
  /// is recorded. What was enqueued before the call is handled by then. Messages that wait for a
  /// time, such as that of a retry, are not waited for beyond `IdleOptions::due_within`, paused
  /// topics not at all; a topic whose rate limit is used up counts as work until it has room.
  ///
  ///     if (!dispatcher.wait_until_idle({.timeout = std::chrono::seconds{30}})) …
  ///
  /// False when the time was over before, a stop was requested, or the dispatcher stops. Throws
  /// `conflict` before `start`, and from inside a handler, which would wait for itself.
  [[nodiscard]] bool wait_until_idle(const IdleOptions& options = {});

  [[nodiscard]] RunningStats stats() const;
  [[nodiscard]] const OwnerToken& owner() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox
