// What a cleanup of a large backlog costs those who use the store meanwhile: the times of single
// enqueues, and of a claim with its settlement, under a steady load, with and without housekeeping,
// by turns in one run.
//
// Conditions: SQLite with synchronous = FULL, payloads of about 200 bytes; 50 enqueues a second,
// and a claim of up to 10 messages every 20 ms; a million messages are past their retention, and
// housekeeping has the default batch and pauses. A call counts from when it was due, so that calls
// held up by an earlier one count too.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench_folder.hpp"
#include "bench_messages.hpp"
#include "figure.hpp"
#include "oncebox/operate/housekeeping.hpp"
#include "oncebox/operate/watchdog.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/fake_clock.hpp"

namespace oncebox::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kBacklog = 1'000'000;
constexpr std::size_t kBatch = 5'000;
constexpr int kRounds = 25;
constexpr std::chrono::seconds kTurn{1};
constexpr std::chrono::milliseconds kEnqueueEvery{20};
constexpr std::chrono::milliseconds kClaimEvery{20};
constexpr std::size_t kClaimed = 10;
constexpr std::size_t kIdleStores = 1'000;
constexpr std::chrono::seconds kIdleTime{60};
constexpr const char* kCentiPercent = "hundredths of a percent of a core";

/// In microseconds.
using Times = std::vector<double>;

double percentile(Times times, double share) {
  std::ranges::sort(times);
  return times.at(static_cast<std::size_t>(share * static_cast<double>(times.size() - 1)));
}

void make_backlog(QueueStore& queue) {
  for (std::size_t first = 0; first < kBacklog; first += kBatch) {
    const std::vector<Message> messages = make_messages(kBatch, first);
    std::vector<Mark> marks;
    for (const Message& message : messages) marks.push_back({.key = message.key});
    queue.enqueue(messages);
    queue.mark(marks);
  }
}

/// Calls at fixed times, until the turn is over.
void call_steadily(std::chrono::milliseconds every, Times& times,
                   const std::function<void()>& call) {
  const auto began = steady_clock::now();
  for (auto due = began; due < began + kTurn; due += every) {
    std::this_thread::sleep_until(due);
    call();
    times.push_back(std::chrono::duration<double, std::micro>(steady_clock::now() - due).count());
  }
}

struct Measured {
  Times enqueue = {};
  Times work = {};
};

class SteadyLoad {
 public:
  explicit SteadyLoad(QueueStore& queue) : queue_(queue) {}

  void run_turn(Measured& measured) {
    const std::jthread worker([&] {
      call_steadily(kClaimEvery, measured.work,
                    [&] { claim_and_acknowledge(queue_, owner_, kClaimed); });
    });
    call_steadily(kEnqueueEvery, measured.enqueue,
                  [&] { queue_.enqueue(make_messages(1, next_++).front()); });
  }

 private:
  QueueStore& queue_;
  const OwnerToken owner_ = OwnerToken::generate();
  std::size_t next_ = kBacklog;
};

void report_times(Report& report, const std::string& what, const Times& alone,
                  const Times& during) {
  for (const auto& [name, share] : {std::pair("p50", 0.5), std::pair("p99", 0.99)}) {
    const double before = percentile(alone, share);
    const double with_cleanup = percentile(during, share);
    report.add_time(fmt::format("retention/{}-{}-alone", what, name), before);
    report.add_time(fmt::format("retention/{}-{}-during-cleanup", what, name), with_cleanup);
    report.add_count(fmt::format("retention/{}-{}-ratio", what, name), 100 * with_cleanup / before,
                     "%");
  }
}

void run(Report& report, const HousekeepingOptions& options) {
  BenchFolder folder;
  testing::FakeClock clock;
  sqlite::SqliteStore store({.path = folder.new_file()}, clock);
  make_backlog(store.inbox());
  clock.advance(defaults::kRetention + std::chrono::days{1});
  NullLogger logger;
  SteadyLoad load(store.inbox());
  Measured alone;
  Measured during;
  std::uint64_t removed = 0;
  for (int round = 0; round < kRounds; ++round) {
    load.run_turn(alone);
    Housekeeping housekeeping(options, {.logger = logger, .clock = clock});
    housekeeping.add({.name = "bench",
                      .inbox = {store.inbox(), store.inbox_operator()},
                      .outbox = {store.outbox(), store.outbox_operator()},
                      .deliveries = {store.deliveries(), store.deliveries_operator()},
                      .keys = store.keys(),
                      .audit = store.audit()});
    load.run_turn(during);
    removed += housekeeping.figures().front().inbox.done_removed;
  }
  report_times(report, "enqueue", alone.enqueue, during.enqueue);
  report_times(report, "claim+settle", alone.work, during.work);
  report.add("retention/removed",
             static_cast<double>(removed) / std::chrono::duration<double>(kTurn * kRounds).count());
  if (removed == kBacklog)
    fmt::print("the backlog was gone too early: these figures are too good\n");
}

/// Of this process, so far.
std::chrono::duration<double> cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return std::chrono::duration<double>(static_cast<double>(time.tv_sec) +
                                         static_cast<double>(time.tv_usec) / 1e6);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// What looking after stores costs in which nothing happens.
void run_idle(Report& report) {
  BenchFolder folder;
  const SystemClock clock;
  NullLogger logger;
  std::vector<std::unique_ptr<sqlite::SqliteStore>> stores;
  for (std::size_t i = 0; i < kIdleStores; ++i) {
    stores.push_back(
        std::make_unique<sqlite::SqliteStore>(sqlite::Options{.path = folder.new_file()}, clock));
  }
  const auto percent_of_a_core = [&] {
    const auto before = cpu_time();
    std::this_thread::sleep_for(kIdleTime);
    return 100 * (cpu_time() - before) / std::chrono::duration<double>(kIdleTime);
  };
  report.add_count("retention/idle-1000-stores-nothing", 100 * percent_of_a_core(), kCentiPercent);
  Housekeeping housekeeping({}, {.logger = logger, .clock = clock});
  for (std::size_t i = 0; i < stores.size(); ++i) {
    sqlite::SqliteStore& store = *stores[i];
    housekeeping.add({.name = fmt::format("s{}", i),
                      .inbox = {store.inbox(), store.inbox_operator()},
                      .outbox = {store.outbox(), store.outbox_operator()},
                      .deliveries = {store.deliveries(), store.deliveries_operator()},
                      .keys = store.keys(),
                      .audit = store.audit()});
  }
  report.add_count("retention/idle-1000-stores-first", 100 * percent_of_a_core(), kCentiPercent);
  (void)percent_of_a_core();  // they are asked ever more rarely
  report.add_count("retention/idle-1000-stores-later", 100 * percent_of_a_core(), kCentiPercent);
  Watchdog watchdog({}, {}, {.logger = logger, .clock = clock});
  for (std::size_t i = 0; i < stores.size(); ++i) {
    watchdog.add({.name = fmt::format("s{}", i), .store = *stores[i]});
  }
  (void)percent_of_a_core();
  (void)percent_of_a_core();
  report.add_count("retention/idle-1000-stores-with-watchdog", 100 * percent_of_a_core(),
                   kCentiPercent);
}

}  // namespace
}  // namespace oncebox::bench

/// The batch can be given, `bench_retention 100`; `bench_retention idle` measures 1,000 idle
/// stores.
int main(int argc, char** argv) {
  // It begins at once: the first look is spread over the interval.
  oncebox::HousekeepingOptions options{.cleanup_interval = std::chrono::milliseconds{50}};
  oncebox::bench::Report report;
  if (argc > 1 && std::string(argv[1]) == "idle") {
    oncebox::bench::run_idle(report);
    report.print_json();
    return 0;
  }
  if (argc > 1) options.batch = std::stoul(argv[1]);
  oncebox::bench::run(report, options);
  report.print_json();
}
