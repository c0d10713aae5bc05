#pragma once

#include <exception>
#include <functional>
#include <span>
#include <string_view>

#include "oncebox/dispatch/batch_handler.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/message.hpp"

namespace oncebox {

/// What `Middleware` calls, once, for the handler to run.
using NextHandler = std::function<void()>;

/// Runs around each call of a `Handler` or a `TransactionalHandler`, on its thread: for spans,
/// times, connections, transactions of your own.
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
using Middleware = std::function<void(const ClaimedMessage& message, HandlerContext& context,
                                      const NextHandler& next)>;

/// Runs around each call of a `BatchHandler`, as a `Middleware` does: once for the whole batch.
///
/// What leaves the outermost one decides about the messages that the handler has not decided about.
/// The others keep their verdicts, unless the middleware gives them new ones: one that undoes what
/// the handler did fails the whole batch.
///
///     handlers.around_batch([&](std::span<BatchMessage> batch, const NextHandler& next) {
///       try {
///         const auto transaction = database.begin();
///         next();
///         transaction.commit();
///       } catch (...) {
///         for (BatchMessage& message : batch) message.failed(std::current_exception());
///       }
///     });
using BatchMiddleware = std::function<void(std::span<BatchMessage> batch, const NextHandler& next)>;

/// Hears how a call of an `AsyncHandler` has ended. Null: its message is done.
using AsyncEnd = std::function<void(const std::exception_ptr& failure)>;

/// What an `AsyncMiddleware` calls, once, for the handler to begin. Returns when the handler has
/// returned, and throws nothing: failures are told to `on_end`, which may be empty.
using NextAsyncHandler = std::function<void(AsyncEnd on_end)>;

/// Runs around the beginning of each call of an `AsyncHandler`, and hears of its end: for spans,
/// times and counts, and to fail a message before or after it was handled.
///
///     handlers.around_async([&](const ClaimedMessage& claimed, const HandlerContext&,
///                               const NextAsyncHandler& next) {
///       next([&, began = std::chrono::steady_clock::now()](const std::exception_ptr& failure) {
///         times.add(claimed.message.topic, std::chrono::steady_clock::now() - began, !failure);
///       });
///     });
///
/// Each `on_end` is told once, the innermost first, whatever happens: by the thread that completes
/// the message, or by the one that stops the dispatcher, when the message is released because it
/// was not completed in time. Nobody is told after the dispatcher is gone. Message and context are
/// valid until `on_end` has returned. It must not wait for the dispatcher.
///
/// What `on_end` throws takes the place of the failure, or of the success, for those further out
/// and for the message. What the middleware itself throws ends the call, unless it has ended
/// already. One that does not call `next` makes the message done.
using AsyncMiddleware = std::function<void(
    const ClaimedMessage& message, const HandlerContext& context, const NextAsyncHandler& next)>;

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
