#include "oncebox/testing/handler_record.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/memory/memory_store.hpp"

namespace oncebox::testing {
namespace {

using namespace std::chrono_literals;

TEST(HandlerRecord, TellsWhatHandlersSawAndHowItEnded) {
  memory::MemoryStore store;
  for (const char* id : {"good", "late", "bad"}) {
    store.inbox().enqueue({.key = {"shop", id}, .topic = "order", .payload = id});
  }
  Handlers handlers;
  handlers.on("order", [](const ClaimedMessage& claimed, HandlerContext&) {
    const std::string& text = claimed.message.payload.bytes();
    if (text == "bad") throw PermanentFailure("no such order");
    if (text == "late" && claimed.history.attempt == 0) throw RetryAfter(1ms, "not yet");
  });
  HandlerRecord record;
  EXPECT_FALSE(record.wait_for(1, 0ms));
  Dispatcher dispatcher(store.inbox(), handlers, {.workers = 1}, {.observer = record});
  dispatcher.start();
  ASSERT_TRUE(record.wait_for(4));
  dispatcher.stop();

  EXPECT_EQ(record.calls().size(), 4U);
  const HandlerRecord::Call good = record.calls().front();
  EXPECT_EQ(good.claimed.message.payload, Payload("good"));
  EXPECT_TRUE(good.succeeded());
  EXPECT_EQ(good.error(), "");
  const HandlerRecord::Call bad = record.calls_of({"shop", "bad"}).at(0);
  EXPECT_TRUE(std::holds_alternative<Fail>(bad.verdict));
  EXPECT_EQ(bad.error(), "no such order");
  const auto late = record.calls_of({"shop", "late"});
  ASSERT_EQ(late.size(), 2U);
  EXPECT_EQ(late[0].error(), "not yet");
  EXPECT_FALSE(late[0].succeeded());
  EXPECT_TRUE(late[1].succeeded());
}

}  // namespace
}  // namespace oncebox::testing
