// One process, a store for each tenant, and one handler for all: the keys of a tenant live in its
// own store, beside its messages.

#include <atomic>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>

#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/receive/inbox_processor_router.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

struct OrderPaid {
  std::string order_id;
};

}  // namespace

template <>
struct oncebox::PayloadCodec<OrderPaid> {
  static OrderPaid decode(const Payload& payload) { return {payload.bytes()}; }
};

int main() {
  StoreSet stores({{"acme", "memory:"}, {"zenith", "memory:"}},
                  [](const StoreLocation& location) { return open_store(location.url); });

  std::atomic<int> booked = 0;
  const auto book = [&](const OrderPaid& order) {
    return order.order_id + " is booking " + std::to_string(++booked);
  };
  InboxProcessorRouter<OrderPaid, std::string> router(stores, [&](IdempotencyStore& keys) {
    return IdempotentReceiver<OrderPaid, std::string>::over(keys, book)
        .key_by(&OrderPaid::order_id)
        .key_prefix("book:")
        .on_duplicate(DuplicatePolicy::replay_completed)
        .build();
  });

  // Calls, for the tenant that a request names. Each of them has an order of this number.
  const Headers headers;
  const OrderPaid order{"order-1"};
  for (const char* tenant : {"acme", "acme", "zenith"}) {
    const Envelope<OrderPaid> call{.headers = headers, .payload = order};
    const Received<std::string> answer = router.route(tenant)->process(call);
    std::cout << tenant << ": " << to_string(answer.status) << ", " << answer.result.value()
              << '\n';
  }

  // Stored messages, handled with the keys of the store that they come from.
  for (const char* id : {"order-1", "order-2"}) {
    stores.find("acme")->store().inbox().enqueue(
        {.key = {"shop", id}, .topic = "order.paid", .payload = id});
  }
  Handlers handlers;
  handlers.on("order.paid", router.handler());
  SetDispatcher dispatcher(stores, handlers);
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = 30s})) throw std::runtime_error("too slow");
  dispatcher.stop();
  std::cout << "booked in all: " << booked << '\n';
}
