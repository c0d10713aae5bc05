#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "oncebox/dispatch/async_handler.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/queue_types.hpp"

namespace oncebox {

/// Hands messages of an outbox to a transport: a broker, a webhook, another inbox.
///
/// Returning means that the transport has accepted the message, and only then: what it accepts it
/// keeps. Failures are told as a `Handler` tells them: `PermanentFailure` when no retry can help,
/// `RetryAfter` when the transport says when to come again, anything else to try again by the retry
/// policy of the topic. Other than that of a handler, a `RetryAfter` makes no delay shorter than
/// the policy has it. Their texts are stored and logged: no payload, no secret.
///
/// A message may be published again when the process dies before its acceptance is recorded, so it
/// goes out under its key, source and id, by which the receiver recognises it. Called from several
/// threads at once.
class Publisher {
 public:
  virtual ~Publisher() = default;
  virtual void publish(const ClaimedMessage& message, HandlerContext& context) = 0;
};

/// A `Publisher` that holds no thread until the transport answers: a broker that confirms later, or
/// requests of which thousands are under way. The completion says what has become of the message;
/// its failures, and those that `start` throws, are told as those of a `Publisher`. Otherwise as
/// `AsyncHandler`.
class AsyncPublisher {
 public:
  virtual ~AsyncPublisher() = default;
  virtual void start(const ClaimedMessage& message, Completion completion) = 0;
};

/// A publisher that waits for its transport, as one of those that need not: `start` returns when
/// `publish` does. Throws `invalid_argument` when the pointer is null.
[[nodiscard]] std::shared_ptr<AsyncPublisher> as_async(std::shared_ptr<Publisher> publisher);

namespace detail {

template <class Callable>
class CallablePublisher final : public Publisher {
 public:
  explicit CallablePublisher(Callable callable) : callable_(std::move(callable)) {}
  void publish(const ClaimedMessage& message, HandlerContext& context) override {
    callable_(message, context);
  }

 private:
  Callable callable_;
};

}  // namespace detail

/// A function as a publisher; called from several threads at once.
template <class Callable>
  requires std::invocable<Callable&, const ClaimedMessage&, HandlerContext&>
[[nodiscard]] std::shared_ptr<Publisher> callable_publisher(Callable callable) {
  return std::make_shared<detail::CallablePublisher<Callable>>(std::move(callable));
}

/// Publishes into an inbox, of this or of another store, under the key that the message has in the
/// outbox: one that comes again is a duplicate there. Topic, payload, headers, hash, priority,
/// partition key and expiry are carried on.
///
/// Accepted is what the inbox knows, also when it is dead there: that is for its operator. What it
/// rejects or quarantines, because it knows other content under this key, is a permanent failure
/// here; so is what it can never take, such as a payload above its limit.
class InboxPublisher final : public Publisher {
 public:
  /// Borrowed. What several threads publish at once shares commits.
  explicit InboxPublisher(Inbox& inbox) : inbox_(&inbox) {}
  /// Borrowed. A call of the queue for each message.
  explicit InboxPublisher(QueueStore& queue, const EnqueueOptions& options = {})
      : queue_(&queue), options_(options) {}

  void publish(const ClaimedMessage& message, HandlerContext& context) override;

 private:
  Inbox* inbox_ = nullptr;
  QueueStore* queue_ = nullptr;
  EnqueueOptions options_ = {};
};

}  // namespace oncebox
