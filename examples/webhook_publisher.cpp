// An outbox that goes out as signed webhooks, to a receiver on this machine that is busy at first.

#include <chrono>
#include <iostream>

#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/webhook/webhook_publisher.hpp"

int main() {
  using namespace oncebox;
  using namespace std::chrono_literals;

  testing::FakeClock clock;  // so that time, and with it the signature, is the same in every run
  bool is_busy = true;
  const testing::ScriptedServer receiver([&](const testing::ReceivedRequest& request) {
    std::cout << request.method << ' ' << request.target << '\n';
    for (const char* name : {"webhook-id", "webhook-timestamp", "webhook-signature",
                             "oncebox-topic", "oncebox-attempt", "content-type"}) {
      std::cout << "  " << name << ": " << request.fields.at(name) << '\n';
    }
    std::cout << "  " << request.body << '\n';
    if (!is_busy) return testing::Reaction{.status = 202};
    is_busy = false;
    return testing::Reaction{.status = 503, .fields = {{"Retry-After", "30"}}};
  });

  memory::MemoryStore store(clock);
  Outbox outbox(store, {.source = "shop"}, {.clock = clock});
  outbox.enqueue({.topic = "order.paid", .payload = R"({"order":1})", .id = "paid-1"});

  const webhook::WebhookPublisherOptions options{
      .endpoints = {{.url = receiver.url() + "/hooks/shop",
                     .secrets = {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
                     .topics = "order.*",
                     .allow_private = true}}};  // it is on this machine
  OutboxDispatcher dispatcher(store, webhook::webhook_publishers(options, clock), {},
                              {.clock = clock});
  dispatcher.start();
  if (!dispatcher.wait_until_idle()) return 1;
  std::cout << "last error: " << outbox.find("paid-1")->last_error.value_or("-") << '\n';

  clock.advance(30s);
  if (!dispatcher.wait_until_idle()) return 1;
  dispatcher.stop();
  const OutboxRecord record = outbox.find("paid-1").value();
  std::cout << to_string(record.status) << " after " << record.attempts << " attempts, "
            << format_rfc3339(record.dispatched_at.value()) << '\n';
}
