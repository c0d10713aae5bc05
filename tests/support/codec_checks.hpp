#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/outbox.hpp"

/// What every codec of JSON has to do, for a type of the test's own.
namespace oncebox::testing {

/// Takes the next message of a queue and gives it to the handlers, as a dispatcher does.
inline void handle_next(QueueStore& queue, const Handlers& handlers) {
  const ClaimResult claimed = queue.claim({.owner = OwnerToken::generate(), .limit = 1});
  HandlerContext context(claimed.front(), {});
  handlers.registrations().front().handler->handle(claimed.front(), context);
}

/// A value that is sent comes to the handler as it was, with its content type and as JSON.
template <class T>
void expect_to_be_handled_as_sent(const T& value, const std::string& json) {
  memory::MemoryStore store;
  Inbox inbox(store);
  inbox.enqueue(value, {.key = {"shop", "1"}, .topic = "order"});
  const Message stored = store.inbox().find({"shop", "1"})->message.value();
  EXPECT_EQ(stored.payload, Payload(json)) << stored.payload.bytes();
  EXPECT_EQ(stored.headers.content_type(), "application/json");

  Outbox outbox(store);
  std::optional<T> handled;
  Handlers handlers;
  handlers.on<T>("order", [&](const T& order, HandlerContext& context) {
    handled = order;
    outbox.enqueue(order, {.topic = "order.passed_on"}, context);
  });
  handle_next(store.inbox(), handlers);
  EXPECT_EQ(handled, value);
  handled.reset();
  handle_next(store.outbox(), handlers);
  EXPECT_EQ(handled, value);
}

/// What cannot be decoded fails for good, and no text quotes it.
template <class T>
void expect_to_be_refused(const std::string& payload) {
  memory::MemoryStore store;
  store.inbox().enqueue({.key = {"shop", "1"}, .topic = "order", .payload = payload});
  Handlers handlers;
  handlers.on<T>("order", [&](const T&, HandlerContext&) { ADD_FAILURE() << "it was decoded"; });
  try {
    handle_next(store.inbox(), handlers);
    ADD_FAILURE() << "it did not fail: " << payload;
  } catch (const PermanentFailure& failure) {
    EXPECT_EQ(std::string(failure.what()).find("secret"), std::string::npos) << failure.what();
  }
}

}  // namespace oncebox::testing
