#pragma once

#include <string_view>

#include "oncebox/endpoint.hpp"
#include "oncebox/message.hpp"

/// Deliveries: one message in the queue of deliveries for each endpoint that a message of the
/// outbox goes to.
namespace oncebox::publish {

/// Headers that tell of the message of the outbox; no receiver gets them.
inline constexpr std::string_view kTopicHeader = "oncebox-topic";
/// Only where the delivery's own id or partition key cannot tell, because it would be too long.
inline constexpr std::string_view kMessageIdHeader = "oncebox-message-id";
inline constexpr std::string_view kPartitionKeyHeader = "oncebox-partition-key";
/// Only of what `send_test` has made: a message of the outbox loses a header of this name.
inline constexpr std::string_view kTestHeader = "oncebox-test";

/// The topic of messages that only test an endpoint. Others may have it, too, and are no tests.
inline constexpr std::string_view kTestTopic = "oncebox.test";

/// The key under which a message of the outbox goes to an endpoint: its source, and its id followed
/// by `@` and the name. The same every time, so that who makes a delivery again makes none.
[[nodiscard]] MessageKey delivery_key(const MessageKey& key, const EndpointName& endpoint);

/// The delivery of a message to an endpoint: its topic is the endpoint's name, and it keeps the
/// order of its partition towards this endpoint. Throws `invalid_argument` when the message has so
/// many headers that there is no room for those above.
[[nodiscard]] Message delivery_of(const Message& message, const EndpointName& endpoint);

/// The message of the outbox that a delivery was made of, with what has happened to the delivery.
/// Throws `invalid_argument` when it is no delivery.
[[nodiscard]] ClaimedMessage original_of(const ClaimedMessage& delivery);
[[nodiscard]] Message original_of(const Message& delivery);

/// Whether it only tests its endpoint, see `send_test`.
[[nodiscard]] bool is_test(const Message& delivery) noexcept;

}  // namespace oncebox::publish
