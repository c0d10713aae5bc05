// What is done around handlers: time each call, try again by a policy of the handler's own, know
// the last attempt, and hear of the dead.

#include <chrono>
#include <iostream>
#include <stdexcept>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"

int main() {
  using namespace oncebox;
  using namespace std::chrono_literals;

  memory::MemoryStore store;
  Inbox inbox(store);
  inbox.enqueue({.key = {"web", "order-1"}, .topic = "order.placed"});
  inbox.enqueue({.key = {"web", "order-2"}, .topic = "order.refused"});

  Handlers handlers;
  // Around every handler; whatever it throws comes out of `next`.
  handlers.around([](const ClaimedMessage& claimed, HandlerContext&, const NextHandler& next) {
    const auto began = std::chrono::steady_clock::now();
    next();
    const bool was_quick = std::chrono::steady_clock::now() - began < 10s;
    std::cout << claimed.message.topic << (was_quick ? " took a moment" : " took long") << '\n';
  });
  handlers.on("order.placed", [](const ClaimedMessage&, HandlerContext&) {});
  const auto refund = [](const ClaimedMessage&, HandlerContext& context) {
    if (context.is_last_attempt()) throw PermanentFailure("refunded, after the last attempt");
    throw std::runtime_error("the bank does not answer");
  };
  handlers.on("order.refused", refund,
              {.retry = RetryPolicy{.backoff = FixedDelay{1ms}, .max_attempts = 3}});
  // Once it is recorded.
  handlers.on_dead("order.*", [](const DeadMessage& dead) {
    std::cout << dead.claimed.message.topic << " is dead: " << dead.error << '\n';
  });

  Dispatcher dispatcher(store.inbox(), handlers, {.workers = 1});
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = 30s, .due_within = 1min})) return 1;
}
