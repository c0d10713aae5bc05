// From an order to what follows from it, declared in one place: a handler behind a key, and one
// whose messages are committed together with the end of its delivery.
//
// usage: example_reliability_pipeline [STORE-URL], of a store that has transactions

#include <chrono>
#include <iostream>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <string_view>

#include "example_store.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/receive/reliability_pipeline.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

struct AcceptOrder {
  std::string id;
  std::string customer;
};

struct OrderAccepted {
  std::string order_id;
};

}  // namespace

template <>
struct oncebox::PayloadCodec<AcceptOrder> {
  static AcceptOrder decode(const Payload& payload) { return {payload.bytes(), "ann"}; }
};
template <>
struct oncebox::PayloadCodec<OrderAccepted> {
  static Payload encode(const OrderAccepted& accepted) { return accepted.order_id; }
  static OrderAccepted decode(const Payload& payload) { return {payload.bytes()}; }
};

namespace {

/// Answers calls: who asks again gets the first answer again.
struct AcceptOrders {
  using Payload = AcceptOrder;
  using Result = std::string;
  using OutboxPayload = OrderAccepted;
  static constexpr std::string_view outbox_topic = "order.accepted";

  static ReceiverOptions policies() {
    return {.key_prefix = "accept:", .on_duplicate = DuplicatePolicy::replay_completed};
  }
  static std::string_view key(const Payload& order) { return order.id; }

  Result handle(const Payload& order, ReceiveContext& /*context*/, Sender<OutboxPayload>& sender) {
    sender.send({order.id}, {.partition_key = order.customer});
    return order.id + " is number " + std::to_string(++accepted);
  }

  int accepted = 0;
};

/// Follows from a message: what it sends is sent if and only if the message is done. Its own SQL
/// would go through the transaction, too.
struct PackOrders {
  using Payload = OrderAccepted;
  using OutboxPayload = std::string;
  static constexpr std::string_view outbox_topic = "order.packed";

  static void handle(const Payload& order, Transaction& /*transaction*/,
                     Sender<OutboxPayload>& sender) {
    sender.send("a parcel for " + order.order_id);
  }
};

void print(const Received<std::string>& answer) {
  std::cout << to_string(answer.status) << ": " << answer.result.value_or("-") << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  ReliabilityPipeline<AcceptOrders> accepting(*store, {}, {.source = "shop"});
  auto receiver = accepting.receiver();
  const Headers headers{{"correlationId", "session-7"}};
  const AcceptOrder order{"order-1", "ann"};
  print(receiver.receive({.headers = headers, .payload = order}));
  print(receiver.receive({.headers = headers, .payload = order}));

  // The same pipeline in front of stored messages. The order is known already.
  auto processor = accepting.processor();
  print(processor.process(
      Message{.key = {"web", "m-1"}, .topic = "order.accept", .payload = "order-1"}));

  // What was sent goes on into the inbox, where the second pipeline handles it.
  ReliabilityPipeline<PackOrders> packing(*store, {}, {.source = "stock"});
  Handlers handlers;
  handlers.on("order.accepted", packing.transactional_handler());
  std::binary_semaphore packed{0};
  Publishers publishers(std::make_shared<InboxPublisher>(store->inbox()));
  publishers.on("order.packed", [&](const ClaimedMessage& claimed, HandlerContext&) {
    const Message& message = claimed.message;
    std::cout << message.topic << ": " << message.payload.bytes() << " (in "
              << message.headers.correlation_id().value_or("-") << ")\n";
    packed.release();
  });
  Dispatcher dispatcher(store->inbox(), handlers);
  OutboxDispatcher sending(*store, publishers);
  dispatcher.start();
  sending.start();
  if (!packed.try_acquire_for(30s)) throw std::runtime_error("nothing happens");
}
