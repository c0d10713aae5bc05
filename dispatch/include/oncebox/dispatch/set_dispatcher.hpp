#pragma once

#include <cstddef>
#include <memory>

#include "oncebox/clock.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/dispatch/running_stats.hpp"
#include "oncebox/dispatch/store_selection.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/surroundings.hpp"
#include "oncebox/topic_pattern.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox {

struct SetDispatcherOptions {
  /// Which queue of each store. Publishers are for the outbox: see `Publishers::handlers`.
  QueueKind queue = QueueKind::inbox;
  /// As for one store, with these differences: `name` is not used, as every line carries the name
  /// of its store; `max_buffered` and `buffer_bytes` are for all stores together, and the first can
  /// be exceeded by a batch for each call under way. Intervals are those of each store.
  ///
  /// A store that holds nothing never waits for what others hold, for however long: it may always
  /// claim. A store that alone holds any may claim while that is less than half of `buffer_bytes`;
  /// otherwise, while it holds fewer bytes than are free of that half, or less than a 64th and than
  /// is free of three quarters. The whole stays within `buffer_bytes`, but for one message of each
  /// store that is larger than a 16th of it, divided by the number of stores.
  DispatcherOptions dispatcher = {.max_buffered = 4 * defaults::kBatchSize};
  /// How soon to look again at an idle store that tells of work by itself; the others are polled.
  Duration notified_poll_interval = defaults::kNotifiedPollInterval;
  /// Calls under way at a time to each database server, whatever the number of stores on it: so
  /// many connections it needs of this dispatcher. Files, and stores in memory, count as one
  /// server.
  std::size_t calls_per_server = 4;

  /// Throws `out_of_range`, naming the option.
  void validate() const;
};

/// A `Dispatcher` over all stores of a set: one pool of workers, and a thread for each call to a
/// store that is under way, whatever the number of stores. Stores that come are worked on, and
/// those that go are finished with: nothing more is claimed, what no handler has begun is released,
/// what runs is settled, and then the store is let go. Threads that have nothing to do end, but for
/// one.
///
/// **Which store.** A `StoreSelection` decides, among the stores that may have something to claim:
/// one that was found empty is not asked again before it tells of work, a message is due, or the
/// next poll.
///
/// **Failures.** A store that fails is left alone for a while, ever longer, and does not hinder
/// the others; a server that hangs takes up its own calls only. A store that cannot be worked on
/// for lack of memory is logged and tried again.
///
/// What a `Dispatcher` promises of messages, handlers, threads and logs holds for every store. Keys
/// of different stores are different messages. A handler learns the store from its context.
class SetDispatcher {
 public:
  /// Handlers and options are copied; everything else is borrowed and must outlive this object.
  /// Throws as `SetDispatcherOptions::validate` does.
  /// Without a selection stores take turns, as by `round_robin`.
  SetDispatcher(StoreSource& stores, const Handlers& handlers,
                std::unique_ptr<StoreSelection> selection = {},
                const SetDispatcherOptions& options = {},
                const SurroundingsOfStores& surroundings = {});

  /// As that of `Dispatcher`.
  ~SetDispatcher();
  SetDispatcher(const SetDispatcher&) = delete;
  SetDispatcher& operator=(const SetDispatcher&) = delete;

  /// These are as those of `Dispatcher`.
  void start();
  StopResult stop(const StopOptions& options = {});
  StopResult stop_now() { return stop({.finish_within = Duration::zero()}); }
  void pause();
  void resume();
  void pause(const TopicPattern& pattern);
  void resume(const TopicPattern& pattern);
  /// Looks for work in every store.
  void wake() noexcept;
  /// Of all stores that are open. One that fails is waited for.
  [[nodiscard]] bool wait_until_idle(const IdleOptions& options = {});

  /// Of all stores together.
  [[nodiscard]] RunningStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox
