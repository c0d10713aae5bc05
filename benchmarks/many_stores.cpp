#include "many_stores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "bench_messages.hpp"
#include "oncebox/dispatch/set_dispatcher.hpp"
#include "process_usage.hpp"

namespace oncebox::bench {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kHandlerTime{1};

/// Where nothing is logged or observed.
struct Silence {
  NullLogger logger;
  Observer observer;
  SystemClock clock;

  [[nodiscard]] ObserverOfStore observers() {
    return [this](const std::string&) -> Observer& { return observer; };
  }
};

double quantile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// Enqueues one message after the other at a rate, and remembers when.
class Producer {
 public:
  using Began = std::function<void(const std::string& id, SteadyClock::time_point at)>;

  Producer(std::string tenant, QueueStore& queue, std::size_t rate, Began began)
      : thread_([=, &queue](const std::stop_token& stop) {
          const auto between = std::chrono::nanoseconds(std::chrono::seconds{1}) / rate;
          // Not all tenants at the same moment.
          auto next = SteadyClock::now() +
                      std::chrono::microseconds{std::hash<std::string>{}(tenant) % 100'000};
          for (std::size_t i = 0; !stop.stop_requested(); ++i) {
            std::this_thread::sleep_until(next);
            next += between;
            const std::string id =
                fmt::format("{}-{}-{}", tenant, i, SteadyClock::now().time_since_epoch().count());
            if (began) began(id, SteadyClock::now());
            queue.enqueue(
                {.key = {"bench", id}, .topic = "work", .payload = std::string(200, 'x')});
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

void measure_idle(Report& report, const std::string& name, StoreSet& stores,
                  std::chrono::seconds during) {
  Silence silence;
  Handlers handlers;
  handlers.on("*", [](const ClaimedMessage&, HandlerContext&) {});
  SetDispatcher dispatcher(stores, handlers, weighted_fair(), {},
                           {silence.logger, silence.observers(), silence.clock});
  dispatcher.start();
  // Until every store has been found empty often enough to be left alone.
  std::this_thread::sleep_for(std::chrono::seconds{75});
  const ProcessUsage before = ProcessUsage::now();
  std::this_thread::sleep_for(during);
  const ProcessUsage after = ProcessUsage::now();
  const auto seconds = static_cast<double>(during.count());
  const double busy =
      std::chrono::duration<double>(after.processor - before.processor).count() / seconds;
  report.add_count(name + "/processor", 100 * busy, "% of a core");
  report.add_count(name + "/wake-ups",
                   static_cast<double>(after.wake_ups - before.wake_ups) / seconds, "a second");
  report.add_memory(name + "/memory", after.resident_mebibytes);
  report.add_count(name + "/threads", static_cast<double>(after.threads), "threads");
  report.add_count(name + "/files", static_cast<double>(after.open_files), "open files");
}

Waits measure_waits(StoreSet& stores, const MakeSelection& selection, const Neighbours& neighbours,
                    std::chrono::seconds during) {
  Silence silence;
  std::mutex mutex;
  std::map<std::string, SteadyClock::time_point> begun;
  std::vector<double> waits;
  Handlers handlers;
  handlers.on("*", [&](const ClaimedMessage& claimed, HandlerContext&) {
    const auto now = SteadyClock::now();
    {
      const std::lock_guard lock(mutex);
      const auto found = begun.find(claimed.message.key.message_id.str());
      if (found != begun.end()) {
        waits.push_back(std::chrono::duration<double, std::micro>(now - found->second).count());
        begun.erase(found);
      }
    }
    std::this_thread::sleep_for(kHandlerTime);
  });
  const std::vector<MemberStorePtr> members = stores.members();
  QueueStore& large = members.front()->store().inbox();
  for (std::size_t first = 0; first < neighbours.large_backlog; first += 1'000) {
    large.enqueue(make_messages(1'000, first));
  }
  SetDispatcher dispatcher(stores, handlers, selection(),
                           {.dispatcher = {.workers = 8, .max_buffered = 200}},
                           {silence.logger, silence.observers(), silence.clock});
  dispatcher.start();
  {
    std::vector<std::unique_ptr<Producer>> producers;
    if (neighbours.large_rate > 0) {
      producers.push_back(
          std::make_unique<Producer>("large", large, neighbours.large_rate, Producer::Began{}));
    }
    for (std::size_t i = 1; i < members.size(); ++i) {
      producers.push_back(std::make_unique<Producer>(
          members[i]->name(), members[i]->store().inbox(), neighbours.small_rate,
          [&](const std::string& id, SteadyClock::time_point at) {
            const std::lock_guard lock(mutex);
            begun.emplace(id, at);
          }));
    }
    std::this_thread::sleep_for(during);
  }
  dispatcher.stop_now();
  const std::lock_guard lock(mutex);
  // What was never handled has waited to the end.
  for (const auto& [id, at] : begun) {
    waits.push_back(std::chrono::duration<double, std::micro>(SteadyClock::now() - at).count());
  }
  return {.p50_us = quantile(waits, 0.5), .p99_us = quantile(waits, 0.99)};
}

}  // namespace oncebox::bench
