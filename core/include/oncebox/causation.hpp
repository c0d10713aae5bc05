#pragma once

#include <string_view>

#include "oncebox/envelope.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/headers.hpp"
#include "oncebox/message.hpp"
#include "oncebox/names.hpp"

/// How it is known from which message another one followed, through inbox, handler, outbox and
/// transport.
///
///     handlers.on("order.paid", [&](const ClaimedMessage& order, HandlerContext& context) {
///       outbox.enqueue({.topic = "receipt.send", .id = derived_id(context, "receipt")}, context);
///       inbox.enqueue({.key = {"shop", derived_id(order, "stock").str()}, .topic = "stock.take",
///                      .headers = caused_by(order)});
///     });
namespace oncebox {

/// The message that others follow from, or none. Borrowed: for the length of a call.
class Cause {
 public:
  Cause() = default;
  Cause(const Message& message) noexcept
      : headers_(&message.headers), id_(message.key.message_id.str()) {}
  Cause(const ClaimedMessage& handled) noexcept : Cause(handled.message) {}
  Cause(const HandlerContext& context) noexcept : Cause(context.message()) {}
  /// What a receiver got.
  template <class Payload>
  Cause(const Envelope<Payload>& received) noexcept
      : headers_(&received.headers),
        id_(received.id.empty() ? received.headers.message_id().value_or("") : received.id) {}

  /// Null when there is no cause.
  [[nodiscard]] const Headers* headers() const noexcept { return headers_; }
  /// Empty when there is no cause, or none that is known by an id.
  [[nodiscard]] std::string_view id() const noexcept { return id_; }

 private:
  const Headers* headers_ = nullptr;
  std::string_view id_;
};

/// The headers of a message that follows from `cause`. Whatever `own` has stays; beside it:
///
/// - `correlationId` is that of the cause, or the cause's id when it begins the chain;
/// - `causationId` is the cause's id, if it has one;
/// - `traceparent`, and `tracestate` with it, are passed on.
///
/// A `causationId` or `messageId` in `own` that is the cause's own was copied from it, and is not
/// true of what follows: the former is replaced, the latter removed, for an outbox to stamp. Other
/// headers that tell one message from another cannot be told from a choice and stay: to copy the
/// headers of a cause take `forwarded`.
///
/// Without a cause `own` stays as it is. Throws `invalid_argument` when they are too many headers.
[[nodiscard]] Headers caused_by(const Cause& cause, Headers own = {});

/// What may flow on of the headers of a message, to one that follows from it: all but those that
/// are of that one message, which are `messageId`, `causationId`, `idempotencyKey`, `partitionKey`,
/// `timestamp` and `quarantinedFrom`. `contentType` stays; set it if the payload is another one.
///
///     outbox.enqueue({.topic = "receipt.send", .headers = forwarded(order.message.headers)},
///     order);
[[nodiscard]] Headers forwarded(Headers headers) noexcept;

/// The id of what follows from a message under a name, "receipt" for example: always the same, so
/// that a handler that runs again sends what it had sent before, and not something new.
///
/// It is a UUID of version 8 (RFC 9562): the first 16 bytes of the SHA-256 of source, NUL, message
/// id, NUL and name, with the bits of version and variant set. Nothing else goes into it, and it
/// will not change.
[[nodiscard]] MessageId derived_id(const MessageKey& cause, std::string_view name);
[[nodiscard]] inline MessageId derived_id(const ClaimedMessage& cause, std::string_view name) {
  return derived_id(cause.message.key, name);
}
[[nodiscard]] inline MessageId derived_id(const HandlerContext& cause, std::string_view name) {
  return derived_id(cause.message(), name);
}
/// The id of what follows from the work of a key: as above, of NUL, key, NUL and name.
[[nodiscard]] MessageId derived_id(const IdempotencyKey& key, std::string_view name);

}  // namespace oncebox
