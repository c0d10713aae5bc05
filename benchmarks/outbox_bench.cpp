// What publishing costs beside handling, on SQLite: draining an outbox through publishers against
// draining the same outbox through a plain dispatcher with an empty handler.
//
// Conditions: payloads of about 200 bytes, one topic, batches of 500, two workers; WAL,
// synchronous = FULL. Rates are medians of rounds that alternate between them. The first sink takes
// each payload's bytes and counts; the second is an inbox in memory, which recognises repetitions.

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench_dispatcher.hpp"
#include "bench_folder.hpp"
#include "bench_messages.hpp"
#include "figure.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/dispatch/publisher.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"

namespace oncebox::bench {
namespace {

constexpr std::size_t kMessages = 100'000;
constexpr std::size_t kRounds = 6;  // each begins equally often

/// Until every acceptance is recorded, not until the last message was accepted.
double publish_through(Store& store, const Draining& draining,
                       const std::shared_ptr<Publisher>& transport) {
  Countdown published(kMessages);
  const auto counted =
      callable_publisher([&](const ClaimedMessage& message, HandlerContext& context) {
        transport->publish(message, context);
        published.count();
      });
  OutboxDispatcher dispatcher(store, counted,
                              {.workers = draining.workers, .batch_size = draining.batch_size});
  return measure([&] {
    dispatcher.start();
    published.wait();
    if (!dispatcher.stop().complete()) throw std::runtime_error("the dispatcher did not stop");
    return kMessages;
  });
}

/// An outbox in a file of its own, full.
class FullOutbox {
 public:
  FullOutbox() { enqueue_all(store_.outbox(), kMessages); }
  [[nodiscard]] Store& store() { return store_; }

 private:
  BenchFolder folder_;
  sqlite::SqliteStore store_{{.path = folder_.new_file()}};
};

double drain_plainly() {
  FullOutbox outbox;
  return drain_through_dispatcher(outbox.store().outbox(), kMessages, Draining{});
}

double publish_to_sink() {
  FullOutbox outbox;
  std::atomic<std::size_t> bytes = 0;
  const auto sink = callable_publisher([&](const ClaimedMessage& message, HandlerContext&) {
    const std::string taken = message.message.payload.bytes();
    bytes.fetch_add(taken.size(), std::memory_order_relaxed);
  });
  const double rate = publish_through(outbox.store(), Draining{}, sink);
  if (bytes < kMessages) throw std::runtime_error("the sink did not get everything");
  return rate;
}

double publish_to_inbox() {
  FullOutbox outbox;
  memory::MemoryStore receiver;
  return publish_through(outbox.store(), Draining{},
                         std::make_shared<InboxPublisher>(receiver.inbox()));
}

struct Contender {
  std::string name;
  double (*run)();
  std::vector<double> rates = {};
};

void run(Report& report) {
  const std::string base = "dispatcher/drain/sqlite-outbox/batch=500";
  std::vector<Contender> contenders{
      {base, drain_plainly},
      {"outbox/publish/sqlite/batch=500", publish_to_sink},
      {"outbox/publish-to-memory-inbox/sqlite/batch=500", publish_to_inbox}};
  for (std::size_t round = 0; round < kRounds; ++round) {
    // Another one begins each time, so that what a round does to the disk favours nobody.
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      Contender& contender = contenders[(round + turn) % contenders.size()];
      contender.rates.push_back(contender.run());
    }
  }
  report.add(base, median(contenders[0].rates));
  for (std::size_t i = 1; i < contenders.size(); ++i) {
    report.add(contenders[i].name, median(contenders[i].rates), base);
  }
}

}  // namespace
}  // namespace oncebox::bench

int main() {
  using namespace oncebox::bench;
  Report report;
  run(report);
  report.print_json();
}
