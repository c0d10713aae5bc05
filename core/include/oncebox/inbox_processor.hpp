#pragma once

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/error.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/handlers.hpp"
#include "oncebox/idempotent_receiver.hpp"
#include "oncebox/mailbox.hpp"
#include "oncebox/message.hpp"
#include "oncebox/payload_codec.hpp"

namespace oncebox {

/// The key under which a message without an idempotency key is received: "source/message id", where
/// a slash or per cent sign in the source is written %2F and %25.
[[nodiscard]] std::string receiver_key_of(const MessageKey& key);

struct InboxProcessorOptions {
  /// When a dispatcher brings a message again whose key was busy. It counts as an attempt: attempts
  /// times delay should exceed the lease, after which the key of a dead process is free.
  Duration busy_delay = std::chrono::seconds{10};
};

namespace detail {
/// What a dispatcher is to do about a message that was not handled. Returns when nothing.
void require_done(ReceiveStatus status, std::optional<OriginalState> original,
                  const std::optional<std::string>& error, Duration busy_delay);
[[noreturn]] void throw_not_posted(PostOutcome outcome);
[[nodiscard]] std::exception_ptr dropped_error(DropReason reason);
}  // namespace detail

/// The door of an inbox (PKT-07): an idempotent receiver in front of whatever brings messages,
/// which are envelopes, stored messages, or the deliveries of a dispatcher.
///
///     InboxProcessor<OrderPaid, std::string> processor(std::move(receiver));
///     Handlers handlers;
///     handlers.on("order.paid", processor.handler());
///
/// Stored messages are decoded through `PayloadCodec`. Their key is the one that the receiver
/// selects, or else the message's own, see `receiver_key_of`: a message that a queue hands out a
/// second time is recognised although its sender gave no idempotency key.
///
/// **As a handler.** A message is done when it was processed, replayed, or its original was
/// completed. While its key is busy it is tried again after `busy_delay`; one whose original failed
/// for good, or that has no key where the receiver wants one, is dead. What the receiver's handler
/// throws is up to the dispatcher. A success that could not be recorded ends the message all the
/// same: that it is done is now known to the queue.
///
/// Safe to use from any thread.
template <class Payload, StorableResult Result>
class InboxProcessor {
 public:
  using Receiver = IdempotentReceiver<Payload, Result>;

  explicit InboxProcessor(Receiver receiver, const InboxProcessorOptions& options = {})
      : receiver_(std::move(receiver)), options_(options) {}

  Received<Result> process(const Envelope<Payload>& message, const ReceiveOptions& options = {}) {
    return receiver_.receive(message, options);
  }

  /// A payload that cannot be decoded is a `PermanentFailure`, whose text never contains it. The
  /// key of the answer is its own.
  Received<Result> process(const Message& message, const std::stop_token& stop = {})
    requires DecodablePayload<Payload>
  {
    const Payload& payload = detail::decoded<Payload>(message.payload);
    const std::string fallback = receiver_key_of(message.key);
    const Envelope<Payload> envelope{
        .headers = message.headers, .payload = payload, .id = message.key.message_id.str()};
    Received<Result> answer = receiver_.receive(envelope, {.stop = stop, .fallback_key = fallback});
    answer.key.own();
    return answer;
  }

  /// Throws what makes a dispatcher do as said above.
  void handle(const ClaimedMessage& message, const HandlerContext& context)
    requires DecodablePayload<Payload>
  {
    try {
      const Received<Result> answer = process(message.message, context.stop_token());
      detail::require_done(answer.status, answer.original, answer.error, options_.busy_delay);
    } catch (const UnrecordedSuccess&) {
      // The receiver has logged it.
    }
  }

  /// For `Handlers::on`. Borrows this object.
  [[nodiscard]] std::shared_ptr<Handler> handler()
    requires DecodablePayload<Payload>
  {
    const auto call = [this](const ClaimedMessage& message, HandlerContext& context) {
      handle(message, context);
    };
    return std::make_shared<detail::CallableHandler<decltype(call)>>(call);
  }

  [[nodiscard]] Receiver& receiver() noexcept { return receiver_; }

 private:
  Receiver receiver_;
  const InboxProcessorOptions options_;
};

/// An inbox processor whose messages are processed one after the other, in the order in which they
/// were posted: for work of one process that must not overlap, whatever the keys.
///
///     MailboxProcessor<OrderPaid, std::string> mailbox(processor, {.capacity = 100});
///     std::future<Received<std::string>> answer = mailbox.post(headers, order);
template <class Payload, StorableResult Result>
class MailboxProcessor {
 public:
  /// The processor is borrowed.
  explicit MailboxProcessor(InboxProcessor<Payload, Result>& processor,
                            const MailboxOptions& options = {})
      : mailbox_(
            [&processor](Item& item, const std::stop_token& stop) { item.run(processor, stop); },
            options, {.on_dropped = [](Item&& item, DropReason reason) {
              item.answer.set_exception(detail::dropped_error(reason));
            }}) {}

  /// The future gets the answer, with a key of its own, or what `process` threw; `overloaded` when
  /// the message had to give way to others, `unavailable` when the mailbox stopped before its turn.
  /// Throws `overloaded` when there is no room, `timeout` when the wait was cancelled, and
  /// `unavailable` after `stop`.
  [[nodiscard]] std::future<Received<Result>> post(Headers headers, Payload payload,
                                                   const PostWait& wait = {}) {
    Item item{std::move(headers), std::move(payload), {}};
    std::future<Received<Result>> answer = item.answer.get_future();
    const PostOutcome outcome = mailbox_.post(std::move(item), wait);
    if (outcome != PostOutcome::accepted && outcome != PostOutcome::dropped) {
      detail::throw_not_posted(outcome);
    }
    return answer;
  }

  std::size_t stop(const MailboxStop& options = {}) { return mailbox_.stop(options); }
  std::size_t stop_now() { return mailbox_.stop_now(); }
  [[nodiscard]] MailboxCounters counters() const { return mailbox_.counters(); }

 private:
  struct Item {
    Headers headers;
    Payload payload;
    std::promise<Received<Result>> answer;

    void run(InboxProcessor<Payload, Result>& processor, const std::stop_token& stop) {
      try {
        Received<Result> received =
            processor.process({.headers = headers, .payload = payload}, {.stop = stop});
        received.key.own();
        answer.set_value(std::move(received));
      } catch (...) {
        answer.set_exception(std::current_exception());
        throw;  // the mailbox counts it
      }
    }
  };

  Mailbox<Item> mailbox_;
};

}  // namespace oncebox
