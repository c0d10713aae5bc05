// Takes in a message twice, handles it once. This is the example of the README.
//
// usage: example_first_message [STORE-URL]; with sqlite:first.db it remembers from run to run.

#include <iostream>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/open_store.hpp"

int main(int argc, char** argv) {
  using namespace oncebox;
  using namespace std::chrono_literals;

  const auto store = open_store(argc > 1 ? argv[1] : "memory:");
  Inbox inbox(*store);

  const Message payment{.key = {.source = "stripe", .message_id = "evt_1"},
                        .topic = "payment.received",
                        .payload = R"({"amount": 4200})"};
  std::cout << "first delivery:  " << to_string(inbox.enqueue(payment).status) << '\n';
  std::cout << "second delivery: " << to_string(inbox.enqueue(payment).status) << '\n';

  Handlers handlers;
  handlers.on("payment.*", [](const ClaimedMessage& claimed, HandlerContext&) {
    std::cout << "handling         " << claimed.message.payload.bytes() << '\n';
  });
  Dispatcher dispatcher(store->inbox(), handlers);
  dispatcher.start();
  // A service would run on. This one ends when nothing is left to do, and that is recorded.
  if (!dispatcher.wait_until_idle({.timeout = 30s})) return 1;
  std::cout << "after handling:  " << to_string(inbox.enqueue(payment).status) << '\n';
}
