#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/error.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/message.hpp"
#include "oncebox/payload_codec.hpp"
#include "oncebox/receive/idempotent_receiver.hpp"
#include "oncebox/receive/mailbox.hpp"

namespace oncebox {

/// A message's own key as one text: "source/message id", where a slash or per cent sign in the
/// source is written %2F and %25.
[[nodiscard]] std::string receiver_key_of(const MessageKey& key);

/// By what a stored message is known in which its receiver finds no key.
enum class FallbackKey {
  message,  ///< its source and message id
  none,     ///< nothing: `ReceiverOptions::on_missing_key` decides
};

struct InboxProcessorOptions {
  FallbackKey fallback_key = FallbackKey::message;

  /// When a dispatcher brings a message again whose key was busy, or whose key store did not
  /// answer: after this delay, doubled with each delivery that the message has behind it, up to the
  /// other one. It counts no attempt (`NotNow`), so a duplicate outlasts its original however long
  /// that takes, and a message outlasts the time in which its keys are away.
  Duration busy_delay = std::chrono::seconds{10};
  Duration longest_busy_delay = std::chrono::minutes{30};

  /// Told of a success that the store did not take, by the handler's thread: who keeps the
  /// completion can repeat it when the store is back. What it throws is dropped.
  std::function<void(const UnrecordedSuccess& success)> on_unrecorded = {};
};

namespace detail {
/// The stored names of keys, without the receiver's prefix: see `InboxProcessor`.
[[nodiscard]] std::string name_of_message(const MessageKey& key);
[[nodiscard]] std::string scope_of_source(const Source& source);
[[nodiscard]] Duration busy_delay(const InboxProcessorOptions& options, int deliveries) noexcept;
void tell_unrecorded(const InboxProcessorOptions& options,
                     const UnrecordedSuccess& success) noexcept;
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
/// selects, or else the message's own: a message that a queue hands out a second time is recognised
/// although its sender gave no idempotency key.
///
/// **No sender reaches the keys of another one.** Behind the receiver's prefix a key is stored as
///
/// - `/key/SOURCE/KEY`, found in a header of a message from that source;
/// - `/message/SOURCE/ID`, the message's own;
/// - `KEY`, selected by `key_by`, the same for every source and for the receiver's calls; a slash
///   at its beginning is doubled;
/// - `/sha256/DIGEST`, of one of these that is too long.
///
/// The source is written as by `receiver_key_of`, so that none of them can be mistaken for another.
///
/// **As a handler.** A message is done when it was processed, replayed, or its original was
/// completed. While its key is busy, or the store of its key does not answer, it is tried again,
/// ever less often, see `InboxProcessorOptions`; one whose original failed for good is dead, and so
/// is one that has no key when `FallbackKey::none` meets `MissingKeyPolicy::reject`. What the
/// receiver's handler throws is up to the dispatcher. A success of its own that the receiver could
/// not record ends the message all the same, since the queue knows now that it is done; it is
/// logged, and told to `on_unrecorded`. One that the handler throws, of another receiver that it
/// has called, is a failure like any other.
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
    return receive(message, {.stop = stop});
  }

  /// Throws what makes a dispatcher do as said above.
  void handle(const ClaimedMessage& message, const HandlerContext& context)
    requires DecodablePayload<Payload>
  {
    const Duration delay = detail::busy_delay(options_, message.history.deliveries);
    const Received<Result> answer =
        receive(message.message, {.stop = context.stop_token(),
                                  .on_unrecorded = UnrecordedPolicy::answer,
                                  .away_delay = delay});
    if (answer.unrecorded) detail::tell_unrecorded(options_, *answer.unrecorded);
    detail::require_done(answer.status, answer.original, answer.error, delay);
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
  /// The names of keys are for this function to choose.
  Received<Result> receive(const Message& message, ReceiveOptions options)
    requires DecodablePayload<Payload>
  {
    const Payload& payload = detail::decoded<Payload>(message.payload);
    const std::string scope = detail::scope_of_source(message.key.source);
    const std::string fallback = options_.fallback_key == FallbackKey::message
                                     ? detail::name_of_message(message.key)
                                     : std::string();
    const Envelope<Payload> envelope{
        .headers = message.headers, .payload = payload, .id = message.key.message_id.str()};
    options.fallback_key = fallback;
    options.header_scope = scope;
    Received<Result> answer = receiver_.receive(envelope, options);
    answer.key.own();
    return answer;
  }

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
