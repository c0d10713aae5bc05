// Values in, values out: a message is sent as a value of a type, as JSON, and handled as one.
//
// usage: example_typed_messages [STORE-URL]

#include <boost/describe.hpp>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>

#include "example_store.hpp"
#include "oncebox/boost_json/codec.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/outbox.hpp"

struct OrderPaid {
  std::string order;
  int cents = 0;
};
BOOST_DESCRIBE_STRUCT(OrderPaid, (), (order, cents))

template <>
struct oncebox::PayloadCodec<OrderPaid> : oncebox::boost_json::Codec<OrderPaid> {};

struct ReceiptDue {
  std::string order;
  std::string amount;
};
BOOST_DESCRIBE_STRUCT(ReceiptDue, (), (order, amount))

template <>
struct oncebox::PayloadCodec<ReceiptDue> : oncebox::boost_json::Codec<ReceiptDue> {};

namespace {

using namespace oncebox;
using namespace std::chrono_literals;

void print(const Message& message) {
  std::cout << message.topic << ": " << message.payload.bytes() << " ("
            << message.headers.content_type().value_or("-") << ")\n";
}

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  Inbox inbox(*store);
  inbox.enqueue(OrderPaid{"A-1", 4200}, {.key = {"shop", "A-1"}, .topic = "order.paid"});
  print(store->inbox().find({"shop", "A-1"})->message.value());

  Outbox outbox(*store, {.source = "billing"});
  Handlers handlers;
  handlers.on<OrderPaid>("order.paid", [&](const OrderPaid& paid, HandlerContext& context) {
    const ReceiptDue receipt{paid.order, std::to_string(paid.cents / 100) + " EUR"};
    outbox.enqueue(receipt, {.topic = "receipt.due", .id = MessageId("receipt-" + paid.order)},
                   context);
  });
  Dispatcher dispatcher(store->inbox(), handlers);
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = 30s})) throw std::runtime_error("too slow");
  print(store->outbox().find({"billing", "receipt-A-1"})->message.value());
}
