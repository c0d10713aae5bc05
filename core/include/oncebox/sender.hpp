#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/detail/typed_message.hpp"
#include "oncebox/headers.hpp"
#include "oncebox/message.hpp"
#include "oncebox/names.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/payload_codec.hpp"

namespace oncebox {

/// What can be said of a message that is sent, beside its payload.
struct SendOptions {
  /// Tells it from others that the same call of a handler sends: "receipt", for example. Empty: its
  /// number among them. Its id is made of this and the key of what is handled: a handler that runs
  /// again, and sends things in another order than before, has to name them.
  std::string name = {};
  Headers headers = {};  ///< its own; those of what is handled only as `forwarded`
  /// Messages of one key are published in the order in which they were sent.
  std::optional<PartitionKey> partition_key = {};
  Priority priority = {};
  std::optional<TimePoint> due_at = {};      ///< not published before
  std::optional<TimePoint> expires_at = {};  ///< not published from then on
};

namespace detail {

/// What a call of a handler has sent so far.
class SentMessages {
 public:
  SentMessages(Topic topic, std::string_view key);

  void add(Payload payload, SendOptions options);
  [[nodiscard]] const std::vector<OutboxMessage>& messages() const noexcept { return messages_; }
  [[nodiscard]] std::vector<OutboxMessage> take() { return std::exchange(messages_, {}); }

 private:
  [[nodiscard]] std::optional<MessageId> id_for(const std::string& name) const;

  Topic topic_;
  std::optional<IdempotencyKey> key_;
  std::unordered_set<std::string> names_;
  std::vector<OutboxMessage> messages_;
};

}  // namespace detail

/// With which the handler of a `ReliabilityPipeline` sends. It only collects: the messages are put
/// into the outbox when the handler has returned, and never when it throws.
///
///     sender.send(OrderAccepted{order.id}, {.partition_key = order.customer});
///
/// Used by one thread at a time.
template <class T>
class Sender {
 public:
  /// Ids are derived from the key; without one each is a new UUIDv7. A test of a handler makes its
  /// own: `Sender<OrderAccepted> sender("order.accepted", "key")`.
  explicit Sender(Topic topic, std::string_view key = {}) : sent_(std::move(topic), key) {}

  /// Throws `conflict` when something of this name was sent already.
  void send(const T& payload, SendOptions options = {})
    requires EncodablePayload<T>
  {
    detail::note_content_type(options.headers, detail::content_type_of<T>());
    sent_.add(encoded(payload), std::move(options));
  }

  /// What was sent and not yet taken.
  [[nodiscard]] const std::vector<OutboxMessage>& messages() const noexcept {
    return sent_.messages();
  }
  [[nodiscard]] std::vector<OutboxMessage> take() { return sent_.take(); }

 private:
  detail::SentMessages sent_;
};

}  // namespace oncebox
