// Takes in a message twice, handles it once. This is the example of the README.
//
// usage: example_first_message [STORE-URL]; with sqlite:first.db it remembers from run to run.

#include <iostream>
#include <semaphore>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/open_store.hpp"

int main(int argc, char** argv) {
  using namespace oncebox;

  const auto store = open_store(argc > 1 ? argv[1] : "memory:");
  Inbox inbox(*store);

  const Message payment{.key = {.source = "stripe", .message_id = "evt_1"},
                        .topic = "payment.received",
                        .payload = R"({"amount": 4200})"};
  const EnqueueOutcome first = inbox.enqueue(payment);
  std::cout << "first delivery:  " << to_string(first.status) << '\n';
  std::cout << "second delivery: " << to_string(inbox.enqueue(payment).status) << '\n';

  std::counting_semaphore<> handled(0);
  Handlers handlers;
  handlers.on("payment.*", [&](const ClaimedMessage& claimed, HandlerContext&) {
    std::cout << "handling         " << claimed.message.payload.bytes() << '\n';
    handled.release();
  });
  Dispatcher dispatcher(store->inbox(), handlers);
  dispatcher.start();
  if (brings_work(first)) handled.acquire();  // else it was done in an earlier run
  dispatcher.stop();                          // what was handled is recorded when this returns
  std::cout << "after handling:  " << to_string(inbox.enqueue(payment).status) << '\n';
}
