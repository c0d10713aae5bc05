// What follows from a message knows it: one helper that says so, whatever the cause is, and headers
// that go on with the payload.

#include <iostream>
#include <stdexcept>
#include <string>

#include "oncebox/causation.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/outbox.hpp"

namespace {

using namespace oncebox;

/// Used by handlers, by requests, and by jobs that nothing has caused.
void announce(Outbox& outbox, const char* topic, const char* id, const Cause& cause = {}) {
  outbox.enqueue({.topic = topic, .id = MessageId(id), .headers = caused_by(cause)});
}

void print(QueueStore& queue, const MessageKey& key) {
  const Headers headers = queue.find(key).value().message.value().headers;
  std::cout << key << ": caused by " << headers.causation_id().value_or("nothing")
            << ", belongs to " << headers.correlation_id().value_or("nothing") << ", tenant "
            << headers.get("tenant").value_or("unknown") << '\n';
}

}  // namespace

int main() {
  memory::MemoryStore store;
  Inbox inbox(store);
  Outbox outbox(store, {.source = "shop"});
  inbox.enqueue({.key = {"web", "order-1"},
                 .topic = "order.paid",
                 .headers = {{"correlationId", "session-7"}, {"tenant", "acme"}}});

  Handlers handlers;
  handlers.on("order.paid", [&](const ClaimedMessage& order, HandlerContext& context) {
    announce(outbox, "receipt.send", "receipt-1", context);
    // To another handler of ours, with whatever else the headers of the order say.
    inbox.enqueue({.key = {"shop", derived_id(order, "stock").str()},
                   .topic = "stock.take",
                   .headers = caused_by(order, forwarded(order.message.headers))});
  });
  handlers.on("stock.take", [&](const ClaimedMessage& stock, HandlerContext&) {
    print(store.inbox(), stock.message.key);
  });
  Dispatcher dispatcher(store.inbox(), handlers);
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = std::chrono::seconds{30}})) return 1;
  announce(outbox, "day.ended", "day-1");
  for (const char* id : {"receipt-1", "day-1"}) print(store.outbox(), {"shop", id});
}
