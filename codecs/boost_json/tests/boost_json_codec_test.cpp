#include <gtest/gtest.h>

#include <boost/describe.hpp>
#include <string>
#include <vector>

#include "codec_checks.hpp"
#include "oncebox/boost_json/codec.hpp"

namespace oncebox {

struct BoostOrder {
  std::string customer;
  std::vector<int> cents;
  friend bool operator==(const BoostOrder&, const BoostOrder&) = default;
};
BOOST_DESCRIBE_STRUCT(BoostOrder, (), (customer, cents))

template <>
struct PayloadCodec<BoostOrder> : boost_json::Codec<BoostOrder> {};

namespace {

TEST(BoostJsonCodec, AValueIsHandledAsItWasSent) {
  testing::expect_to_be_handled_as_sent(BoostOrder{"Zoë", {1, 2}},
                                        R"({"customer":"Zoë","cents":[1,2]})");
}

TEST(BoostJsonCodec, AnyJsonIsHandledAsItWasSent) {
  testing::expect_to_be_handled_as_sent(boost::json::value{{"a", {true, nullptr, 0.5}}},
                                        R"({"a":[true,null,5E-1]})");
}

TEST(BoostJsonCodec, WhatIsNoSuchValueFailsForGood) {
  for (const char* payload :
       {"", "secret", R"({"customer":"secret"})", R"({"customer":1,"cents":["secret"]})",
        R"({"customer":"x","cents":[],"secret":1})"}) {
    testing::expect_to_be_refused<BoostOrder>(payload);
  }
  testing::expect_to_be_refused<boost::json::value>(std::string(100'000, '['));
}

}  // namespace
}  // namespace oncebox
