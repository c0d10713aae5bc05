// A task that a schedule starts, such as cron: it handles what is pending, once, on its own thread,
// and ends.
//
// usage: example_dispatch_pending [STORE-URL]

#include <iostream>

#include "example_store.hpp"
#include "oncebox/dispatch/dispatch_pending.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/outbox.hpp"

int main(int argc, char** argv) {
  using namespace oncebox;
  using namespace std::chrono_literals;

  const ExampleStore store(argc, argv);
  Inbox inbox(*store);
  Outbox outbox(*store, {.source = "shop"});
  for (const char* order : {"order-1", "order-2", "order-3"}) {
    inbox.enqueue({.key = {"web", order}, .topic = "order.placed", .payload = order});
  }

  Handlers handlers;
  handlers.on("order.placed", [&](const ClaimedMessage& order, HandlerContext& context) {
    const MessageId& id = order.message.key.message_id;
    if (id == "order-2") throw RetryAfter(1h, "the shop is closed");
    outbox.enqueue({.topic = "receipt.send", .payload = id.str()}, context);
  });
  const DispatchedPending orders = dispatch_pending(store->inbox(), handlers, 100);
  std::cout << "orders: handled " << orders.handled << ", to be retried " << orders.retried << '\n';

  Publishers publishers;
  publishers.on("receipt.*", [](const ClaimedMessage& receipt, HandlerContext&) {
    std::cout << "receipt of " << receipt.message.payload.bytes() << '\n';
  });
  const DispatchedPending receipts = dispatch_pending(store->outbox(), publishers, 100);
  std::cout << "receipts: published " << receipts.handled << '\n';
}
