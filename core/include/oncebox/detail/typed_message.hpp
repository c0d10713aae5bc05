#pragma once

#include <concepts>
#include <string_view>
#include <utility>

#include "oncebox/headers.hpp"
#include "oncebox/payload.hpp"
#include "oncebox/payload_codec.hpp"

namespace oncebox::detail {

/// What the codec says of every payload that it makes; empty: nothing.
template <class T>
constexpr std::string_view content_type_of() noexcept {
  if constexpr (requires {
                  { PayloadCodec<T>::kContentType } -> std::convertible_to<std::string_view>;
                }) {
    return PayloadCodec<T>::kContentType;
  } else {
    return {};
  }
}

/// Throws `invalid_argument` when a message that is sent with a value has a payload already.
void require_no_payload(const Payload& payload);

/// Says what the payload is, unless the sender has said so or there is nothing to say.
void note_content_type(Headers& headers, std::string_view content_type);

/// The message with the value in it; of a `Message` or an `OutboxMessage`.
template <EncodablePayload T, class AnyMessage>
AnyMessage carrying(const T& value, AnyMessage message) {
  require_no_payload(message.payload);
  message.payload = encoded(value);
  note_content_type(message.headers, content_type_of<T>());
  return message;
}

}  // namespace oncebox::detail
