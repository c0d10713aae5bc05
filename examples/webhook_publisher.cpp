// An outbox that goes out as signed webhooks, to a receiver on this machine that is busy at first.

#include <chrono>
#include <iostream>
#include <semaphore>
#include <stdexcept>
#include <variant>

#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/webhook/webhook_publisher.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

/// Tells when the store has recorded what became of an attempt.
class SettledAttempts final : public Observer {
 public:
  void on_settle(const Settlement& settlement, const SettleOutcome&) noexcept override {
    // A dispatcher gives back a message that it claims while it still records the last attempt.
    if (!std::holds_alternative<Release>(settlement.verdict)) settled_.release();
  }
  void wait_for_one() {
    if (!settled_.try_acquire_for(30s)) throw std::runtime_error("nothing happens");
  }

 private:
  std::counting_semaphore<> settled_{0};
};

}  // namespace

int main() {
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

  NullLogger logger;
  SettledAttempts settled;
  memory::MemoryStore store(clock);
  Outbox outbox(store, {.source = "shop"}, logger, settled, clock);
  outbox.enqueue({.topic = "order.paid", .payload = R"({"order":1})", .id = "paid-1"});

  const webhook::WebhookPublisherOptions options{
      .endpoints = {{.url = receiver.url() + "/hooks/shop",
                     .secrets = {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
                     .topics = "order.*",
                     .allow_private = true}}};  // it is on this machine
  OutboxDispatcher dispatcher(store, webhook::webhook_publishers(options, clock), {}, logger,
                              settled, clock);
  dispatcher.start();
  settled.wait_for_one();
  std::cout << "last error: " << outbox.find("paid-1")->last_error.value_or("-") << '\n';

  clock.advance(30s);
  dispatcher.wake();
  settled.wait_for_one();
  dispatcher.stop();
  const OutboxRecord record = outbox.find("paid-1").value();
  std::cout << to_string(record.status) << " after " << record.attempts << " attempts, "
            << format_rfc3339(record.dispatched_at.value()) << '\n';
}
