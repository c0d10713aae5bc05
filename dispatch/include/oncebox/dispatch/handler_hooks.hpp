#pragma once

#include <functional>
#include <string_view>

#include "oncebox/handler.hpp"
#include "oncebox/message.hpp"

namespace oncebox {

/// What `Middleware` calls, once, for the handler to run.
using NextHandler = std::function<void()>;

/// Runs around each call of a handler, on its thread: for spans, times, connections, transactions
/// of your own.
///
///     handlers.around([&](const ClaimedMessage&, HandlerContext&, const NextHandler& next) {
///       const auto transaction = database.begin();
///       next();
///       transaction.commit();
///     });
///
/// What the handler throws comes out of `next`. Let it pass, or throw something else in its place:
/// what leaves the outermost middleware decides about the message, as if the handler had thrown it.
/// One that swallows it, or does not call `next`, makes the message done. Around a
/// `TransactionalHandler` it runs inside of the transaction. Called from several threads at once.
///
/// A `BatchHandler` and an `AsyncHandler` have no call of their own for a message, whose end a
/// middleware could see or commit: around them nothing runs.
using Middleware = std::function<void(const ClaimedMessage& message, HandlerContext& context,
                                      const NextHandler& next)>;

/// A message that this dispatcher has just made dead. Borrowed for the length of the call.
struct DeadMessage {
  const ClaimedMessage& claimed;  ///< whole, with payload and headers
  std::string_view error;         ///< of the last failure
  std::string_view store;         ///< as `HandlerContext::store`
};

/// Called when a message has become dead by a verdict of this dispatcher, after that is recorded,
/// by a thread that records verdicts: to alert somebody, or to enqueue what undoes something. The
/// next verdicts wait for it. What it throws is logged, and changes nothing.
///
/// It is told once at most: not when the process dies in between, and not of messages that expire,
/// are delivered too often, or are ended by an operator or another worker. The dead are in the
/// store; `Housekeeping` and the watchdog tell of all of them.
using DeadHandler = std::function<void(const DeadMessage& message)>;

}  // namespace oncebox
