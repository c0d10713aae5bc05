#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "commands/commands.hpp"
#include "json_output.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/limits.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "record_view.hpp"
#include "store_options.hpp"
#include "table.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

struct BenchOptions {
  StoreOptions store = {};
  std::size_t messages = 10'000;
  std::size_t batch = 500;
  std::size_t threads = 1;
  std::size_t payload_bytes = 200;
};

struct Phase {
  std::string name;
  std::size_t messages = 0;
  double seconds = 0;
  std::vector<double> call_ms = {};  ///< sorted

  [[nodiscard]] double per_second() const {
    return seconds > 0 ? static_cast<double>(messages) / seconds : 0;
  }
  [[nodiscard]] double percentile_ms(double share) const {
    if (call_ms.empty()) return 0;
    const auto place = static_cast<std::size_t>(share * static_cast<double>(call_ms.size() - 1));
    return call_ms[place];
  }
};

/// One call of the store by one thread; answers how many messages it was about, 0 when this thread
/// has nothing left to do.
using Call = std::function<std::size_t(std::size_t thread)>;

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Lets every thread call until it has nothing left. Throws what a call throws.
Phase measure(std::string name, std::size_t threads, const Call& call) {
  Phase phase{.name = std::move(name)};
  detail::Mutex mutex;
  std::exception_ptr failure;
  const auto start = std::chrono::steady_clock::now();
  const auto work = [&](std::size_t thread) {
    std::vector<double> times;
    std::size_t messages = 0;
    std::exception_ptr thrown;
    try {
      for (;;) {
        const auto begin = std::chrono::steady_clock::now();
        const std::size_t count = call(thread);
        if (count == 0) break;
        times.push_back(ms_since(begin));
        messages += count;
      }
    } catch (...) {
      thrown = std::current_exception();
    }
    const detail::Lock lock(mutex);
    phase.call_ms.insert(phase.call_ms.end(), times.begin(), times.end());
    phase.messages += messages;
    if (thrown) failure = thrown;
  };
  {
    std::vector<std::jthread> workers;
    for (std::size_t i = 0; i < threads; ++i) workers.emplace_back(work, i);
  }
  phase.seconds = ms_since(start) / 1'000;
  if (failure) std::rethrow_exception(failure);
  std::sort(phase.call_ms.begin(), phase.call_ms.end());
  return phase;
}

/// Messages of a topic and source of their own, from enqueue to done.
class Bench {
 public:
  Bench(const BenchOptions& options, QueueStore& queue)
      : options_(options), queue_(queue), lanes_(options.threads) {
    const std::size_t share = options.messages / options.threads;
    for (std::size_t i = 0; i < options.threads; ++i) {
      lanes_[i].to_send = share + (i < options.messages % options.threads ? 1 : 0);
    }
  }

  std::vector<Phase> run() {
    std::vector<Phase> phases;
    phases.push_back(measure("enqueue", options_.threads, [&](std::size_t i) { return send(i); }));
    phases.push_back(measure("claim", options_.threads, [&](std::size_t i) { return claim(i); }));
    phases.push_back(measure("settle", options_.threads, [&](std::size_t i) { return settle(i); }));
    return phases;
  }

 private:
  /// What one thread has in its hands.
  struct Lane {
    std::size_t to_send = 0;
    std::size_t sent = 0;
    OwnerToken owner = OwnerToken::generate();
    std::vector<Settlement> to_settle = {};
  };

  std::size_t send(std::size_t thread) {
    Lane& lane = lanes_[thread];
    std::vector<Message> batch;
    while (batch.size() < options_.batch && lane.sent < lane.to_send) {
      batch.push_back({.key = {name_, fmt::format("{}-{}", thread, lane.sent++)},
                       .topic = name_,
                       .payload = std::string(options_.payload_bytes, 'x')});
    }
    return queue_.enqueue(batch).size();
  }

  std::size_t claim(std::size_t thread) {
    Lane& lane = lanes_[thread];
    const auto claimed = queue_.claim({.owner = lane.owner,
                                       .lease = std::chrono::hours{1},
                                       .limit = options_.batch,
                                       .topics = {.only = {TopicPattern(Topic(name_))}}});
    for (const ClaimedMessage& message : claimed) {
      lane.to_settle.push_back({.delivery = delivery_of(message)});
    }
    return claimed.size();
  }

  std::size_t settle(std::size_t thread) {
    std::vector<Settlement>& rest = lanes_[thread].to_settle;
    const std::size_t count = std::min(options_.batch, rest.size());
    const std::span<const Settlement> batch(rest.data() + (rest.size() - count), count);
    (void)queue_.settle(batch);
    rest.erase(rest.end() - static_cast<std::ptrdiff_t>(count), rest.end());
    return count;
  }

  const BenchOptions& options_;
  QueueStore& queue_;
  const std::string name_ =
      "oncebox.bench." + Uuid::generate_v7(SystemClock::current()).to_string();
  std::vector<Lane> lanes_;
};

void print_phases(Console& console, const BenchOptions& options, const std::vector<Phase>& phases) {
  if (options.store.json) {
    for (const Phase& phase : phases) {
      console.out.line(json_object({{"phase", phase.name},
                                    {"messages", phase.messages},
                                    {"seconds", phase.seconds},
                                    {"perSecond", phase.per_second()},
                                    {"calls", phase.call_ms.size()},
                                    {"p50Ms", phase.percentile_ms(0.5)},
                                    {"p99Ms", phase.percentile_ms(0.99)}}));
    }
    return;
  }
  Table table({{.title = "PHASE"},
               {.title = "MESSAGES", .align = Align::right},
               {.title = "SECONDS", .align = Align::right},
               {.title = "PER SECOND", .align = Align::right},
               {.title = "CALLS", .align = Align::right},
               {.title = "P50 MS", .align = Align::right},
               {.title = "P99 MS", .align = Align::right}});
  for (const Phase& phase : phases) {
    table.add({{phase.name},
               {grouped(phase.messages)},
               {fmt::format("{:.3f}", phase.seconds)},
               {grouped(static_cast<std::size_t>(phase.per_second()))},
               {grouped(phase.call_ms.size())},
               {fmt::format("{:.2f}", phase.percentile_ms(0.5))},
               {fmt::format("{:.2f}", phase.percentile_ms(0.99))}});
  }
  table.print(console.out);
}

TakeValue bounded(std::size_t& target, std::string what, std::size_t min, std::size_t max) {
  return [&target, what = std::move(what), min, max](const std::string& text) {
    target = parse_count(text);
    require_in_range(what, target, min, max);
  };
}

}  // namespace

Command bench_command() {
  const auto options = std::make_shared<BenchOptions>();
  return {
      .name = "bench",
      .summary = "Measure how many messages a store enqueues, claims and settles in a second",
      .text =
          "Uses a source and topic of its own, so that nobody else is disturbed. Its "
          "messages stay behind as done until their retention is over.",
      .options = joined({{.names = "-n,--messages",
                          .value = "N",
                          .text = "how many messages",
                          .take = bounded(options->messages, "the messages", 1, 10'000'000),
                          .initial = "10000"},
                         {.names = "--batch",
                          .value = "N",
                          .text = "messages in one call",
                          .take = bounded(options->batch, "the batch", 1, limits::kMaxBatchItems),
                          .initial = "500"},
                         {.names = "--threads",
                          .value = "N",
                          .text = "threads that call at the same time",
                          .take = bounded(options->threads, "the threads", 1, 256),
                          .initial = "1"},
                         {.names = "--payload-bytes",
                          .value = "N",
                          .text = "the size of each payload",
                          .take = bounded(options->payload_bytes, "the payload", 0, 1 << 20),
                          .initial = "200"}},
                        queue_options(options->store)),
      .examples = {{"oncebox bench --url sqlite:bench.db --threads 4", "A SQLite file"}},
      .run = [options](Console& console) {
        const OpenStore store(options->store);
        print_phases(console, *options, Bench(*options, store.queue()).run());
        return ExitCode::ok;
      }};
}

}  // namespace oncebox::app
