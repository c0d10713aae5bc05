// A test that kills a worker in the middle of its work: nothing is lost, and somebody else does it.
//
// usage: example_killed_worker                 runs the test
//        example_killed_worker FILE            is the worker that it kills

#include <chrono>
#include <iostream>
#include <semaphore>
#include <stdexcept>
#include <string>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/child_process.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/temporary_folder.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

const MessageKey kOrder{"shop", "order-1"};

/// Takes the order, and never gets to the end of it.
void work(const std::string& path) {
  sqlite::SqliteStore store({.path = path});
  Handlers handlers;
  handlers.on("order.paid", [](const ClaimedMessage&, HandlerContext&) {
    std::binary_semaphore never(0);
    (void)never.try_acquire_for(60s);
  });
  Dispatcher dispatcher(store.inbox(), handlers);
  dispatcher.start();
  (void)dispatcher.wait_until_idle();
}

void test_a_killed_worker(const std::string& program) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("shop.db");
  testing::FakeClock clock(SystemClock::current());  // so that the test need not wait for the lease
  sqlite::SqliteStore store({.path = path}, clock);
  store.inbox().enqueue({.key = kOrder, .topic = "order.paid"});

  testing::ChildProcess worker({program, path});
  while (store.inbox().find(kOrder)->state != State::leased) {
    // Looks again in a moment, unless the worker has ended before it was killed.
    if (worker.wait_for(5ms)) throw std::runtime_error("the worker has ended");
  }
  std::cout << "killed: " << std::boolalpha << testing::was_killed(worker.kill()) << '\n';

  Handlers handlers;
  handlers.on("order.paid", [](const ClaimedMessage& claimed, HandlerContext&) {
    std::cout << "delivery " << claimed.history.deliveries << " of " << claimed.message.key << '\n';
  });
  Dispatcher dispatcher(store.inbox(), handlers, {}, {.clock = clock});
  clock.advance(1h);  // Its lease has ended long ago.
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = 30s})) throw std::runtime_error("nobody handles it");
  std::cout << "the order is " << to_string(store.inbox().find(kOrder)->state) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    work(argv[1]);
  } else {
    test_a_killed_worker(argv[0]);
  }
}
