#pragma once

#include <concepts>
#include <string>
#include <utility>

#include "oncebox/payload.hpp"

namespace oncebox {

/// How a payload becomes a `T`, and a `T` a payload. Specialise it for your own types, with what is
/// needed: `decode` for those that are handled, `encode` for those that are sent.
///
///     template <>
///     struct oncebox::PayloadCodec<OrderPaid> {
///       static OrderPaid decode(const oncebox::Payload& payload);  // throws when it is none
///       static oncebox::Payload encode(const OrderPaid& paid);     // or a string
///     };
///
/// For JSON there is one to derive from: `oncebox::boost_json::Codec<OrderPaid>`, and the same for
/// nlohmann/json. A codec with a `static constexpr std::string_view kContentType` has it set as the
/// header `contentType` of what is sent through it, unless the sender sets one.
///
/// Whatever `decode` throws, except for running out of memory, means that the payload is invalid: a
/// message that cannot be decoded today cannot be decoded tomorrow.
template <class T>
struct PayloadCodec;

template <>
struct PayloadCodec<Payload> {
  static const Payload& decode(const Payload& payload) noexcept { return payload; }
  static const Payload& decode(Payload&&) = delete;
  static Payload encode(Payload payload) noexcept { return payload; }
};

template <>
struct PayloadCodec<std::string> {
  static const std::string& decode(const Payload& payload) noexcept { return payload.bytes(); }
  static Payload encode(std::string bytes) noexcept { return Payload(std::move(bytes)); }
};

template <class T>
concept DecodablePayload = requires(const Payload& payload) {
  { PayloadCodec<T>::decode(payload) } -> std::convertible_to<const T&>;
};

template <class T>
concept EncodablePayload = requires(const T& value) {
  { PayloadCodec<T>::encode(value) } -> std::convertible_to<Payload>;
};

/// The payload of a value, for calls that take messages as they are: several in one call, or marks
/// and observations by their content. Throws what the codec throws.
template <EncodablePayload T>
[[nodiscard]] Payload encoded(const T& value) {
  return PayloadCodec<T>::encode(value);
}

}  // namespace oncebox
