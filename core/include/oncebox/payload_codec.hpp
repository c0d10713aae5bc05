#pragma once

#include <concepts>
#include <string>

#include "oncebox/payload.hpp"

namespace oncebox {

/// How a payload becomes a `T`. Specialise it for your own types:
///
///     template <>
///     struct oncebox::PayloadCodec<OrderPaid> {
///       static OrderPaid decode(const oncebox::Payload& payload);  // throws when it is none
///     };
///
/// Whatever `decode` throws, except for running out of memory, means that the payload is invalid: a
/// message that cannot be decoded today cannot be decoded tomorrow.
template <class T>
struct PayloadCodec;

template <>
struct PayloadCodec<Payload> {
  static const Payload& decode(const Payload& payload) noexcept { return payload; }
  static const Payload& decode(Payload&&) = delete;
};

template <>
struct PayloadCodec<std::string> {
  static const std::string& decode(const Payload& payload) noexcept { return payload.bytes(); }
};

template <class T>
concept DecodablePayload = requires(const Payload& payload) {
  { PayloadCodec<T>::decode(payload) } -> std::convertible_to<const T&>;
};

}  // namespace oncebox
