#include "oncebox/open_store.hpp"

#include <gtest/gtest.h>

#include "oncebox/error.hpp"

namespace oncebox {
namespace {

ErrorCode error_code_of(std::string_view url) {
  try {
    (void)open_store(url);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "expected an oncebox::Error for " << url;
  return ErrorCode::internal;
}

TEST(OpenStore, MemoryOpensAnEmptyStoreOnTheMachinesClock) {
  const auto store = open_store("memory:");
  const auto before = SystemClock::current();
  store->inbox().enqueue({.key = {"shop", "1"}, .topic = "order.created"});
  const auto record = store->inbox().find({"shop", "1"});
  ASSERT_TRUE(record);
  EXPECT_GE(record->history.first_seen_at, before);
  EXPECT_LE(record->history.first_seen_at, SystemClock::current());
}

TEST(OpenStore, ParametersOfAMemoryUrlSetItsBounds) {
  const auto store = open_store("memory:?max_messages=1&max_payload_bytes=3");
  EXPECT_EQ(store->capabilities().max_payload_bytes, 3U);
  store->inbox().enqueue({.key = {"shop", "1"}, .topic = "order.created"});
  EXPECT_THROW(store->inbox().enqueue({.key = {"shop", "2"}, .topic = "order.created"}), Error);
}

TEST(OpenStore, AnUnknownSchemeIsUnsupportedAndTheErrorNamesWhatThereIs) {
  try {
    (void)open_store("tape:/dev/st0");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("memory"), std::string::npos);
  }
}

TEST(OpenStore, BadUrlsAreInvalid) {
  for (const auto* url :
       {"", "memory", ":", "Memory:", "memory:name", "memory:?max_messages=x", "memory:?nonsense=1",
        "memory:?max_keys=1&max_keys=2", "memory:?max_keys", "memory:?max_keys=%zz"}) {
    EXPECT_EQ(error_code_of(url), ErrorCode::invalid_argument) << url;
  }
}

}  // namespace
}  // namespace oncebox
