#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codec_checks.hpp"
#include "oncebox/nlohmann_json/codec.hpp"

namespace oncebox {

struct NlohmannOrder {
  std::string customer;
  std::vector<int> cents;
  friend bool operator==(const NlohmannOrder&, const NlohmannOrder&) = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NlohmannOrder, customer, cents)

template <>
struct PayloadCodec<NlohmannOrder> : nlohmann_json::Codec<NlohmannOrder> {};

namespace {

TEST(NlohmannJsonCodec, AValueIsHandledAsItWasSent) {
  testing::expect_to_be_handled_as_sent(NlohmannOrder{"Zoë", {1, 2}},
                                        R"({"cents":[1,2],"customer":"Zoë"})");
}

TEST(NlohmannJsonCodec, AnyJsonIsHandledAsItWasSent) {
  testing::expect_to_be_handled_as_sent(nlohmann::json{{"a", {true, nullptr, 0.5}}},
                                        R"({"a":[true,null,0.5]})");
}

TEST(NlohmannJsonCodec, WhatIsNoSuchValueFailsForGood) {
  for (const char* payload : {"", "secret", R"({"customer":"secret"})",
                              R"({"customer":1,"cents":["secret"]})", "[\"secret"}) {
    testing::expect_to_be_refused<NlohmannOrder>(payload);
  }
}

TEST(NlohmannJsonCodec, TextThatIsNotUtf8IsNotStored) {
  memory::MemoryStore store;
  Inbox inbox(store);
  const NlohmannOrder order{"\xff", {}};
  EXPECT_THROW(inbox.enqueue(order, {.key = {"shop", "1"}, .topic = "order"}),
               nlohmann::json::exception);
  EXPECT_FALSE(store.inbox().find({"shop", "1"}));
}

}  // namespace
}  // namespace oncebox
