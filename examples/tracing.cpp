// A message is followed through inbox, handler, outbox and publisher: one trace, which begins where
// the request does, and ends up in an OpenTelemetry collector.

#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/otlp/exporter.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/testing/scripted_server.hpp"

namespace {

using namespace oncebox;
using namespace std::chrono_literals;

/// The part of a traceparent that all spans of a trace have in common.
std::string trace_of(const Message& message) {
  return std::string(message.headers.traceparent().value_or("")).substr(3, 32);
}

}  // namespace

int main() {
  // In place of a real collector: takes whatever it gets.
  testing::ScriptedServer collector([](const auto&) { return testing::Reaction{}; });
  otlp::Exporter exporter({.url = collector.url() + "/v1/traces", .service_name = "shop"});

  memory::MemoryStore store;
  Inbox inbox(store, {}, {.tracer = &exporter});
  Outbox outbox(store, {.source = "shop"}, {.tracer = &exporter});

  Handlers handlers;
  handlers.on("order.paid", [&](const ClaimedMessage&, HandlerContext& context) {
    outbox.enqueue({.topic = "receipt.send"}, context);
  });
  std::string published;
  Publishers publishers;
  publishers.on("receipt.send", [&](const ClaimedMessage& claimed, HandlerContext&) {
    published = trace_of(claimed.message);
  });

  Dispatcher worker(store.inbox(), handlers, {}, {.tracer = &exporter});
  OutboxDispatcher publisher(store, publishers, {}, {.tracer = &exporter});
  worker.start();
  publisher.start();
  // As it came with a request. Without one a trace begins here.
  const std::string request = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  inbox.enqueue(
      {.key = {"web", "order-1"}, .topic = "order.paid", .headers = {{"traceparent", request}}});
  const bool handled = worker.wait_until_idle({.timeout = 30s});
  const bool sent = publisher.wait_until_idle({.timeout = 30s});
  if (!handled || !sent) throw std::runtime_error("too slow");

  std::cout << "published in the trace of the request: " << std::boolalpha
            << (published == request.substr(3, 32)) << '\n';
  // Enqueue, claim, handle and settle of the order; enqueue, claim, publish and settle of what
  // followed.
  std::cout << "the collector has them: " << exporter.flush() << '\n'
            << exporter.stats().exported << " spans\n";
}
