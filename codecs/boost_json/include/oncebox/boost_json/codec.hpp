#pragma once

#include <boost/json.hpp>
#include <string_view>

#include "oncebox/payload.hpp"
#include "oncebox/payload_codec.hpp"

/// Payloads that are JSON, by Boost.JSON, for those who use it.
namespace oncebox::boost_json {

/// To derive the codec of a type from:
///
///     struct OrderPaid {
///       std::string order;
///       int cents = 0;
///     };
///     BOOST_DESCRIBE_STRUCT(OrderPaid, (), (order, cents))
///
///     template <>
///     struct oncebox::PayloadCodec<OrderPaid> : oncebox::boost_json::Codec<OrderPaid> {};
///
/// `boost::json::value_from` and `value_to` do the work, so whatever they know can be sent and
/// handled: described types, containers, and types with a `tag_invoke` of their own. Payloads are
/// read to a depth of 32. A described type refuses fields that it does not have, or lacks.
template <class T>
struct Codec {
  static constexpr std::string_view kContentType = "application/json";

  static T decode(const Payload& payload) {
    return boost::json::value_to<T>(boost::json::parse(payload.bytes()));
  }
  static Payload encode(const T& value) {
    return boost::json::serialize(boost::json::value_from(value));
  }
};

}  // namespace oncebox::boost_json

/// Any JSON.
template <>
struct oncebox::PayloadCodec<boost::json::value> {
  static constexpr std::string_view kContentType = "application/json";

  static boost::json::value decode(const Payload& payload) {
    return boost::json::parse(payload.bytes());
  }
  static Payload encode(const boost::json::value& value) { return boost::json::serialize(value); }
};
