// How to test code that uses the library: without a file, without waiting, and with a store that
// fails.

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"
#include "oncebox/testing/handler_record.hpp"

namespace {

using namespace oncebox;
using namespace std::chrono_literals;
using oncebox::testing::FakeClock, oncebox::testing::Fault;

void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
  std::cout << what << '\n';
}

const Message kOrder{.key = {"shop", "1"}, .topic = "order", .payload = "book"};

// The code under test.
void ship(const ClaimedMessage& claimed, HandlerContext&) {
  if (claimed.message.payload.bytes().empty()) throw PermanentFailure("an empty order");
}

// A handler is a function: call it. A message that a store handed out is as easily made.
void test_the_handler_alone() {
  ClaimedMessage claimed{.message = kOrder, .history = {}, .owner = OwnerToken::generate()};
  HandlerContext context(claimed, {});
  ship(claimed, context);
  claimed.message.payload = "";
  try {
    ship(claimed, context);
  } catch (const PermanentFailure&) {
    expect(true, "an empty order fails for good");
  }
}

// The clock stands still until the test moves it, so no test waits for a lease.
void test_a_worker_that_died() {
  FakeClock clock;
  memory::MemoryStore store(clock);
  QueueStore& queue = store.inbox();
  queue.enqueue(kOrder);
  const auto dead_worker = queue.claim({.owner = OwnerToken::generate(), .lease = 30s});
  clock.advance(29s);
  expect(queue.claim({.owner = OwnerToken::generate()}).empty(), "nobody else gets it for 30 s");
  clock.advance(1s);
  expect(queue.claim({.owner = OwnerToken::generate()}).size() == 1, "then somebody else does");
  expect(queue.settle({.delivery = delivery_of(dead_worker.front())}) == SettleStatus::lease_lost,
         "and the first one comes too late");
}

// `after` is the case that is hard to meet by chance: stored, but the answer was lost.
void test_a_lost_answer() {
  memory::MemoryStore store;
  Fault fault = Fault::after;
  testing::FaultInjectingQueueStore queue(store.inbox(), [&](std::string_view) { return fault; });
  try {
    queue.enqueue(kOrder);
  } catch (const Error& error) {
    expect(error.code() == ErrorCode::outcome_unknown, "nobody knows whether it was stored");
  }
  fault = Fault::none;
  expect(queue.enqueue(kOrder).status == EnqueueStatus::duplicate, "sending it again is safe");
}

// An observer that remembers what came to the handlers, and how each call ended.
void test_what_handlers_saw() {
  memory::MemoryStore store;
  store.inbox().enqueue(kOrder);
  store.inbox().enqueue({.key = {"shop", "2"}, .topic = "order"});
  Handlers handlers;
  handlers.on("order", ship);
  testing::HandlerRecord record;
  Dispatcher dispatcher(store.inbox(), handlers, {.workers = 1}, {.observer = record});
  dispatcher.start();
  expect(record.wait_for(2), "a dispatcher calls the handler for both");
  const auto calls = record.calls();
  expect(calls[0].succeeded() && calls[0].claimed.message == kOrder, "the first order is shipped");
  expect(calls[1].error() == "an empty order", "the second one is not");
}

}  // namespace

int main() {
  test_the_handler_alone();
  test_a_worker_that_died();
  test_a_lost_answer();
  test_what_handlers_saw();
}
