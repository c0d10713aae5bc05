// JSON by nlohmann/json: a value of a type, and messages of which nobody has declared the shape.

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/nlohmann_json/codec.hpp"

struct OrderPaid {
  std::string order;
  int cents = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OrderPaid, order, cents)

template <>
struct oncebox::PayloadCodec<OrderPaid> : oncebox::nlohmann_json::Codec<OrderPaid> {};

int main() {
  using namespace oncebox;

  memory::MemoryStore store;
  Inbox inbox(store);
  inbox.enqueue(OrderPaid{"A-1", 4200}, {.key = {"shop", "A-1"}, .topic = "order.paid"});
  inbox.enqueue({.key = {"web", "click-1"},
                 .topic = "tracking",
                 .payload = R"({"page":"/shoes","tags":["sale","red"]})"});

  Handlers handlers;
  handlers.on<OrderPaid>("order.paid", [](const OrderPaid& paid, HandlerContext&) {
    std::cout << paid.order << ": " << paid.cents << " cents\n";
  });
  handlers.on<nlohmann::json>("*", [](const nlohmann::json& any, HandlerContext&) {
    std::cout << any.at("page") << " with " << any.at("tags").size() << " tags\n";
  });
  Dispatcher dispatcher(store.inbox(), handlers, {.workers = 1});
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = std::chrono::seconds{30}})) return 1;
}
