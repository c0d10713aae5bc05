// What follows from a message: a handler puts it into the outbox, and a dispatcher publishes it,
// here to a function. Retries, order, and what becomes of what nobody takes.
//
// usage: example_outbox [STORE-URL]

#include <chrono>
#include <iostream>
#include <stdexcept>

#include "example_store.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/outbox.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

void print(Outbox& outbox, const MessageId& id) {
  const OutboxRecord record = outbox.find(id).value();
  std::cout << "  " << to_string(record.status) << ", attempts " << record.attempts
            << (record.dispatched_at ? ", dispatched" : ", not dispatched")
            << ", last error: " << record.last_error.value_or("-") << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  Inbox inbox(*store);
  Outbox outbox(*store, {.source = "shop"});
  inbox.enqueue({.key = {"web", "order-1"},
                 .topic = "order.placed",
                 .payload = "ann 4200",
                 .headers = {{"correlationId", "session-7"}}});

  // The handler may run again after a crash. The ids that it derives from the order stay the same,
  // so that whatever it had sent already is a duplicate.
  Handlers handlers;
  handlers.on("order.placed", [&](const ClaimedMessage& order, HandlerContext& context) {
    for (const char* topic : {"stock.take", "receipt.send", "fax.send"}) {
      outbox.enqueue({.topic = topic,
                      .payload = order.message.payload,
                      .id = derived_id(context, topic),
                      .partition_key = "ann"},
                     context);
    }
  });
  Dispatcher dispatcher(store->inbox(), handlers);
  dispatcher.start();
  const bool handled = dispatcher.wait_until_idle({.timeout = 30s});
  dispatcher.stop();

  // What returns has accepted the message: only then is it marked as dispatched.
  Publishers publishers;
  publishers.on("*", [](const ClaimedMessage& claimed, HandlerContext&) {
    const Message& message = claimed.message;
    if (message.topic == "stock.take" && claimed.history.attempt == 0) {
      throw RetryAfter(1s, "the broker is busy");
    }
    std::cout << "published " << message.topic << ": " << message.payload.bytes() << " (of "
              << message.headers.causation_id().value_or("-") << ", in "
              << message.headers.correlation_id().value_or("-") << ")\n";
  });
  publishers.on("fax.*", [](const ClaimedMessage&, HandlerContext&) {
    throw PermanentFailure("nobody has a fax any more");
  });
  // What cannot be published now is tried again for a week, instead of three days.
  RetryPolicy a_week = outbox_retry_policy();
  a_week.give_up_after = std::chrono::days{7};
  OutboxDispatcher sending(*store, publishers, {.retries = RetryPolicies(a_week)});
  sending.start();
  const bool sent = sending.wait_until_idle({.timeout = 30s, .due_within = 1min});
  sending.stop();
  if (!handled || !sent) throw std::runtime_error("this takes too long");

  const MessageKey order{"web", "order-1"};
  for (const char* topic : {"stock.take", "receipt.send", "fax.send"}) {
    std::cout << topic << ' ' << derived_id(order, topic) << '\n';
    print(outbox, derived_id(order, topic));
  }
}
