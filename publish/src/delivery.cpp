#include "oncebox/publish/delivery.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "oncebox/content_hash.hpp"
#include "oncebox/error.hpp"

namespace oncebox::publish {

namespace {

/// What has no more bytes has no more characters.
constexpr std::size_t kMaxBytes = kMaxNameCodePoints;

[[nodiscard]] bool fits(const std::string& name, const EndpointName& endpoint) {
  return name.size() + 1 + endpoint.str().size() <= kMaxBytes;
}

/// "NAME@ENDPOINT", or a digest in place of the name. No endpoint's name has an @.
[[nodiscard]] std::string at_endpoint(const std::string& name, const EndpointName& endpoint) {
  if (fits(name, endpoint)) return fmt::format("{}@{}", name, endpoint.str());
  return fmt::format("sha256:{}@{}", to_hex(sha256(name)), endpoint.str());
}

[[nodiscard]] std::string before_endpoint(const std::string& name) {
  const std::size_t at = name.rfind('@');
  if (at == std::string::npos || at == 0) {
    throw Error(ErrorCode::invalid_argument, "this message was not made for an endpoint");
  }
  return name.substr(0, at);
}

/// The header's text if it is there, and what stands before the endpoint otherwise; the header
/// goes.
[[nodiscard]] std::string take_name(Headers& headers, std::string_view header,
                                    const std::string& name) {
  const auto kept = headers.get(header);
  std::string text = kept ? std::string(*kept) : before_endpoint(name);
  headers.erase(header);
  return text;
}

}  // namespace

MessageKey delivery_key(const MessageKey& key, const EndpointName& endpoint) {
  return {key.source, MessageId(at_endpoint(key.message_id.str(), endpoint))};
}

Message delivery_of(const Message& message, const EndpointName& endpoint) {
  Message delivery = message;
  delivery.key = delivery_key(message.key, endpoint);
  delivery.topic = Topic(endpoint.str());
  delivery.due_at.reset();  // it is over
  Headers& headers = delivery.headers;
  for (const std::string_view name :
       {kTopicHeader, kMessageIdHeader, kPartitionKeyHeader, kTestHeader}) {
    headers.erase(name);
  }
  headers.set(kTopicHeader, message.topic.str());
  const std::string& id = message.key.message_id.str();
  if (!fits(id, endpoint)) headers.set(kMessageIdHeader, id);
  if (message.partition_key) {
    const std::string& partition = message.partition_key->str();
    if (!fits(partition, endpoint)) headers.set(kPartitionKeyHeader, partition);
    delivery.partition_key = PartitionKey(at_endpoint(partition, endpoint));
  }
  return delivery;
}

Message original_of(const Message& delivery) {
  Message original = delivery;
  const auto topic = delivery.headers.get(kTopicHeader);
  if (!topic) throw Error(ErrorCode::invalid_argument, "this message was not made for an endpoint");
  original.topic = Topic(*topic);
  original.headers.erase(kTopicHeader);
  original.headers.erase(kTestHeader);
  original.key.message_id =
      MessageId(take_name(original.headers, kMessageIdHeader, delivery.key.message_id.str()));
  if (delivery.partition_key) {
    original.partition_key = PartitionKey(
        take_name(original.headers, kPartitionKeyHeader, delivery.partition_key->str()));
  }
  return original;
}

bool is_test(const Message& delivery) noexcept {
  return delivery.headers.get(kTestHeader).has_value();
}

ClaimedMessage original_of(const ClaimedMessage& delivery) {
  return {.message = original_of(delivery.message),
          .history = delivery.history,
          .owner = delivery.owner,
          .delivery = delivery.delivery,
          .locked_until = delivery.locked_until,
          .eligible_at = delivery.eligible_at,
          .revived_at = delivery.revived_at,
          .attempt_limit = delivery.attempt_limit};
}

}  // namespace oncebox::publish
