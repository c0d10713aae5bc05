// A handler behind an idempotency key: what comes again is recognised, answered with the first
// result, and never handled twice.
//
// usage: example_idempotent_receiver [STORE-URL]

#include <iostream>
#include <stdexcept>
#include <string>

#include "example_store.hpp"
#include "oncebox/receive/idempotent_receiver.hpp"
#include "oncebox/receive/inbox_processor.hpp"

namespace {

using namespace oncebox;

struct AcceptOrder {
  std::string order_id;
  int amount = 0;
};

void print(const Received<std::string>& answer) {
  std::cout << to_string(answer.status);
  if (!answer.key.blank()) std::cout << ", key " << answer.key.text();
  if (answer.result) std::cout << ", result \"" << *answer.result << '"';
  if (answer.original) std::cout << ", original " << to_string(*answer.original);
  std::cout << '\n';
}

}  // namespace

// Stored messages are decoded by this.
template <>
struct oncebox::PayloadCodec<AcceptOrder> {
  static AcceptOrder decode(const Payload& payload) { return {payload.bytes(), 1}; }
};

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  int accepted = 0;
  const auto accept = [&](const AcceptOrder& order, ReceiveContext& context) {
    if (order.amount == 0 && context.attempt() == 1) throw std::runtime_error("nothing to pay");
    return order.order_id + " is number " + std::to_string(++accepted);
  };
  auto receiver = IdempotentReceiver<AcceptOrder, std::string>::over(store->keys(), accept)
                      .on_duplicate(DuplicatePolicy::replay_completed)
                      .build();

  const Headers headers{{"idempotencyKey", "accept-42"}};
  const AcceptOrder order{"order-42", 7};
  print(receiver.receive({.headers = headers, .payload = order}));
  print(receiver.receive({.headers = headers, .payload = order}));

  // A failure is recorded and thrown on; by default the next message may try again.
  const Headers free_headers{{"idempotencyKey", "accept-43"}};
  const AcceptOrder free_order{"order-43", 0};
  try {
    receiver.receive({.headers = free_headers, .payload = free_order});
  } catch (const std::runtime_error& error) {
    std::cout << "failed: " << error.what() << '\n';
  }
  print(receiver.receive({.headers = free_headers, .payload = free_order}));

  // Without a key it is refused, unless the policy says otherwise or the key is somewhere else.
  const Headers none;
  print(receiver.receive({.headers = none, .payload = order}));
  auto by_order = IdempotentReceiver<AcceptOrder, std::string>::over(store->keys(), accept)
                      .key_by(&AcceptOrder::order_id)
                      .key_prefix("order:")
                      .build();
  print(by_order.receive({.headers = none, .payload = order}));
  print(by_order.receive({.headers = none, .payload = order}));

  // In front of stored messages, by hand or as the handler of a dispatcher.
  InboxProcessor<AcceptOrder, std::string> processor(std::move(receiver));
  const Message message{.key = {"shop", "m-1"}, .topic = "order.accept", .payload = "order-44"};
  print(processor.process(message));
  print(processor.process(message));
}
