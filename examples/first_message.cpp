// Takes in a message twice, handles it once. This is the example of the README.

#include <iostream>

#include "oncebox/open_store.hpp"

int main() {
  using oncebox::Ack, oncebox::ClaimedMessage, oncebox::Message, oncebox::OwnerToken;
  using oncebox::open_store, oncebox::QueueStore;

  const auto store = open_store("memory:");
  QueueStore& inbox = store->inbox();

  const Message payment{.key = {.source = "stripe", .message_id = "evt_1"},
                        .topic = "payment.received",
                        .payload = R"({"amount": 4200})"};
  std::cout << "first delivery:  " << to_string(inbox.enqueue(payment).status) << '\n';
  std::cout << "second delivery: " << to_string(inbox.enqueue(payment).status) << '\n';

  for (const ClaimedMessage& claimed : inbox.claim({.owner = OwnerToken::generate()})) {
    std::cout << "handling         " << claimed.message.payload.bytes() << '\n';
    inbox.settle({.delivery = delivery_of(claimed), .verdict = Ack{}});
  }
  std::cout << "after handling:  " << to_string(inbox.enqueue(payment).status) << '\n';
}
