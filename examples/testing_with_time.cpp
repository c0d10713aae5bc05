// Testing what waits: a clock that moves by hand wakes whoever waits for it, so a test of retries
// and of a watchdog takes no time.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <vector>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/operate/watchdog.hpp"
#include "oncebox/testing/handler_record.hpp"
#include "oncebox/testing/manual_clock.hpp"

namespace {

using namespace oncebox;
using namespace std::chrono_literals;

const Message kOrder{.key = {"shop", "1"}, .topic = "order.paid"};

void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
  std::cout << what << '\n';
}

void test_a_retry() {
  testing::ManualClock clock;
  memory::MemoryStore store(clock);
  store.inbox().enqueue(kOrder);
  Handlers handlers;
  handlers.on("order.*", [](const ClaimedMessage& claimed, HandlerContext&) {
    if (claimed.history.attempt == 0) throw RetryAfter(1h, "the warehouse is closed");
  });
  testing::HandlerRecord record;
  Dispatcher dispatcher(store.inbox(), handlers, {}, {.observer = record, .clock = clock});
  dispatcher.start();
  expect(dispatcher.wait_until_idle({.timeout = 30s}), "the first attempt fails");

  clock.advance(59min);
  expect(dispatcher.wait_until_idle({.timeout = 30s}) && record.calls().size() == 1,
         "nothing happens for 59 minutes");
  clock.advance(1min);
  expect(record.wait_for(2) && record.calls().at(1).succeeded(), "after an hour it succeeds");
}

/// What a program shows of its queues: how many messages wait for a worker.
class Backlog final : public LookListener {
 public:
  void on_look(const QueueLook& look) override {
    if (look.queue == "inbox") {
      ready_ = look.stats.total().ready;
      looked_.release();
    }
  }
  void on_removed(const std::string&) noexcept override {}

  /// Moves time from look to look until one has counted so many.
  bool reaches(std::size_t ready, testing::ManualClock& clock) {
    for (int looks = 0; looks < 3'000; ++looks) {
      clock.advance(30s);
      if (looked_.try_acquire_for(10ms) && ready_ == ready) return true;
    }
    return false;
  }

 private:
  std::atomic<std::size_t> ready_ = 0;
  std::counting_semaphore<> looked_{0};
};

void test_a_watchdog() {
  testing::ManualClock clock;
  memory::MemoryStore store(clock);
  Backlog backlog;
  const WatchdogOptions options{.interval = 30s, .ready_after = 15min};
  Watchdog watchdog(options, {&backlog}, {.clock = clock});
  watchdog.add({.name = "shop", .store = store});
  expect(backlog.reaches(0, clock), "nothing is there at the first look");

  store.inbox().enqueue(kOrder);
  expect(backlog.reaches(1, clock), "a later look finds the order");
  clock.advance(15min);
  const WatchdogReport report = look_once("shop", store, options, clock);
  expect(report.findings.at(0).code == FindingCode::ready_late, "nobody has taken it for too long");
}

}  // namespace

int main() {
  test_a_retry();
  test_a_watchdog();
}
