// An endpoint in operation: its receiver goes away, it is disabled, an operator hears of it, and
// what it missed is sent again when it is back.
//
// usage: example_endpoints [STORE-URL]

#include <atomic>
#include <chrono>
#include <iostream>
#include <semaphore>
#include <stdexcept>
#include <string>

#include "example_store.hpp"
#include "oncebox/endpoint_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/publish/delivery.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/publish/publishing.hpp"
#include "oncebox/publish/resend.hpp"
#include "oncebox/webhook/webhook_delivery.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

void wait_for(std::counting_semaphore<>& event) {
  if (!event.try_acquire_for(30s)) throw std::runtime_error("nothing happens");
}

void print(EndpointStore& endpoints) {
  for (const EndpointRecord& record : endpoints.list().endpoints) {
    std::cout << record.endpoint.name << ": " << (record.status.disabled ? "disabled" : "enabled")
              << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  EndpointStore& endpoints = store->endpoints();
  const EndpointName crm("crm");
  publish::save_endpoint(*store, {.name = crm, .url = "print://crm", .topics = {"order.*"}});
  print(endpoints);

  std::atomic<bool> is_gone = true;
  std::counting_semaphore<> accepted(0);
  publish::EndpointPublishers publishers;
  publishers.on("print", [&](const publish::EndpointTarget&) {
    return callable_publisher([&](const ClaimedMessage& message, HandlerContext&) {
      // As a webhook that is answered with 410.
      if (is_gone) throw webhook::ReceiverGone("the receiver is gone");
      std::cout << "accepted: " << message.message.key << '\n';
      accepted.release();
    });
  });
  std::counting_semaphore<> disabled(0);
  const auto tell = [&](const publish::EndpointNotice& notice) {
    std::cout << "disabled: " << notice.endpoint << '\n';
    disabled.release();
  };

  Outbox outbox(*store, {.source = "shop"});
  outbox.enqueue({.topic = "order.placed", .id = "order-1"});
  {
    publish::Publishing publishing(*store, publishers, {.on_disabled = tell});
    publishing.start();
    wait_for(disabled);
    if (!publishing.stop().complete()) throw std::runtime_error("it did not stop");
  }
  print(endpoints);
  // For the outbox the message is done: it has become a delivery, which is dead.
  const MessageKey order{"shop", "order-1"};
  const MessageKey delivery = publish::delivery_key(order, crm);
  std::cout << order << " is " << to_string(store->outbox().find(order)->status) << ", " << delivery
            << " is " << to_string(store->deliveries().find(delivery)->status) << '\n';

  is_gone = false;
  const EndpointEvent back{.kind = EndpointEvent::Kind::enabled,
                           .at = SystemClock::shared().now(),
                           .reason = "they are back"};
  endpoints.note(crm, back);
  const publish::ResendRequest request{.endpoint = crm, .reason = back.reason};
  std::cout << publish::resend_failed(*store, request).resent << " is sent again\n";
  publish::Publishing publishing(*store, publishers);
  publishing.start();
  wait_for(accepted);
  print(endpoints);
}
