#pragma once

#include <cstddef>
#include <stop_token>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/surroundings.hpp"

namespace oncebox {

/// What became of the messages that one call of `dispatch_pending` has taken.
struct DispatchedPending {
  std::size_t handled = 0;     ///< done
  std::size_t retried = 0;     ///< failed, to be tried again
  std::size_t dead = 0;        ///< failed for good
  std::size_t released = 0;    ///< given back without a try, or interrupted
  std::size_t superseded = 0;  ///< new content came while the handler ran
  std::size_t unsettled = 0;   ///< the lease was lost, or whether it was recorded is not known

  [[nodiscard]] std::size_t total() const noexcept {
    return handled + retried + dead + released + superseded + unsettled;
  }
};

/// Handles what is pending, once: up to `limit` messages that can be claimed now, one after the
/// other on this thread, and returns. For a program that has its own loop or schedule, such as a
/// task that cron starts, and for tests; a `Dispatcher` works all the time.
///
///     const DispatchedPending sent = dispatch_pending(store.outbox(), publishers, 100);
///     const DispatchedPending done = dispatch_pending(store.inbox(), handlers, 100);
///
/// Each message is tried once at most, also when it could be tried again before the call returns.
/// Its verdict is recorded before the next handler begins; those of one partition key follow each
/// other. Leases are extended meanwhile, by a thread that lives as long as the call.
///
/// `options` mean what they mean for a `Dispatcher`, so that both can have the same; what belongs
/// to threads and time (`workers`, `max_buffered`, the intervals) is not used. The limits of
/// handlers hold within one call.
///
/// Once `stop` is requested no further handler begins, the stop tokens of those that run are
/// requested, and what handlers without a thread have not completed is released, without counting
/// an attempt. Without it, one that never uses its `Completion` keeps the call for ever.
///
/// Throws as the constructor of `Dispatcher` does, and what the store throws before it has given
/// anything; when it fails later, the call returns what was done until then. A verdict that it does
/// not take is repeated until the lease would be over.
DispatchedPending dispatch_pending(QueueStore& queue, const Handlers& handlers, std::size_t limit,
                                   const DispatcherOptions& options = {},
                                   const Surroundings& surroundings = {},
                                   const std::stop_token& stop = {});

/// The same for an outbox; a message is done when its publisher has returned.
DispatchedPending dispatch_pending(QueueStore& outbox, const Publishers& publishers,
                                   std::size_t limit, const DispatcherOptions& options = {},
                                   const Surroundings& surroundings = {},
                                   const std::stop_token& stop = {});

}  // namespace oncebox
