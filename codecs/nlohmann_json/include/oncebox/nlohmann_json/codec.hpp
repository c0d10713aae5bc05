#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "oncebox/payload.hpp"
#include "oncebox/payload_codec.hpp"

/// Payloads that are JSON, by nlohmann/json, for those who use it.
namespace oncebox::nlohmann_json {

/// To derive the codec of a type from:
///
///     struct OrderPaid {
///       std::string order;
///       int cents = 0;
///     };
///     NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OrderPaid, order, cents)
///
///     template <>
///     struct oncebox::PayloadCodec<OrderPaid> : oncebox::nlohmann_json::Codec<OrderPaid> {};
///
/// The type's `to_json` and `from_json` do the work. Fields that the type does not have are passed
/// over. Text that is not UTF-8 cannot be sent: `encode` throws.
template <class T>
struct Codec {
  static constexpr std::string_view kContentType = "application/json";

  static T decode(const Payload& payload) {
    return nlohmann::json::parse(payload.bytes()).template get<T>();
  }
  static Payload encode(const T& value) { return nlohmann::json(value).dump(); }
};

}  // namespace oncebox::nlohmann_json

/// Any JSON.
template <>
struct oncebox::PayloadCodec<nlohmann::json> {
  static constexpr std::string_view kContentType = "application/json";

  static nlohmann::json decode(const Payload& payload) {
    return nlohmann::json::parse(payload.bytes());
  }
  static Payload encode(const nlohmann::json& value) { return value.dump(); }
};
