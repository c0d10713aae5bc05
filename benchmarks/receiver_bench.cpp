// What a receiver costs over the memory store: a duplicate of what is completed, suppressed and
// replayed, and a message that is handled. The handler does nothing.
//
// Conditions: keys of 36 characters in the header; one thread, and four; a thousand and a million
// keys known, met in random order. The figures are medians of rounds. A duplicate has to take at
// most 100 ns beside a thousand keys, and to allocate nothing.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "figure.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/receive/idempotent_receiver.hpp"

namespace {

thread_local std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace oncebox::bench {
namespace {

// Short rounds, and many: on a busy machine most of them are not interrupted.
constexpr int kRounds = 101;
constexpr std::size_t kCalls = 10'000;

struct Order {
  int amount = 42;
};

using Receiver = IdempotentReceiver<Order, std::int64_t>;

std::vector<Headers> make_headers(std::size_t count, std::mt19937_64& random) {
  std::vector<Headers> headers(count);
  for (Headers& each : headers) {
    Uuid::Bytes bytes{};
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });
    each.set(header_names::kIdempotencyKey, Uuid(bytes).to_string());
  }
  return headers;
}

struct Cost {
  double nanoseconds = 0;
  double allocations = 0;
};

// Of one call by each of several threads at once.
template <class Call>
Cost cost_of(std::size_t calls, int threads, Call call) {
  std::vector<double> rates;
  std::atomic<std::size_t> allocated = 0;
  for (int round = 0; round < kRounds; ++round) {
    allocated = 0;
    rates.push_back(measure([&] {
      std::vector<std::jthread> pool;
      for (int thread = 1; thread < threads; ++thread) {
        pool.emplace_back([&, thread] {
          for (std::size_t i = 0; i < calls; ++i) call(i + static_cast<std::size_t>(thread) * 7919);
        });
      }
      const std::size_t before = allocations;
      for (std::size_t i = 0; i < calls; ++i) call(i);
      allocated = allocations - before;
      return calls;
    }));
  }
  return {.nanoseconds = 1e9 / median(rates),
          .allocations = static_cast<double>(allocated) / static_cast<double>(calls)};
}

void add(Report& report, const std::string& name, const Cost& cost) {
  report.add_count(name, cost.nanoseconds, "ns");
  report.add_count(name + "/allocations", cost.allocations, "allocations");
}

void run_duplicates(Report& report, std::size_t keys, std::string_view label) {
  std::mt19937_64 random(7);
  memory::MemoryStore store;
  const std::vector<Headers> headers = make_headers(keys, random);
  const auto handler = [](const Order& order) { return order.amount; };
  Receiver suppressing = Receiver::over(store.keys(), handler).build();
  Receiver replaying =
      Receiver::over(store.keys(), handler).on_duplicate(DuplicatePolicy::replay_completed).build();
  const Order order;
  for (const Headers& each : headers) suppressing.receive({each, order});
  for (const int threads : {1, 4}) {
    const std::string conditions = fmt::format("threads={}/keys={}", threads, label);
    add(report, "receiver/duplicate-suppressed/" + conditions,
        cost_of(kCalls, threads,
                [&](std::size_t i) { suppressing.receive({headers[i % keys], order}); }));
    add(report, "receiver/duplicate-replayed/" + conditions,
        cost_of(kCalls, threads,
                [&](std::size_t i) { replaying.receive({headers[i % keys], order}); }));
  }
}

void run_first(Report& report) {
  constexpr std::size_t kMessages = 2'000;
  std::mt19937_64 random(11);
  const Order order;
  std::vector<double> rates;
  double allocated = 0;
  for (int round = 0; round < kRounds; ++round) {
    memory::MemoryStore store;
    Receiver receiver =
        Receiver::over(store.keys(), [](const Order& each) { return each.amount; }).build();
    const std::vector<Headers> headers = make_headers(kMessages, random);
    const std::size_t before = allocations;
    rates.push_back(measure([&] {
      for (const Headers& each : headers) receiver.receive({each, order});
      return headers.size();
    }));
    allocated = static_cast<double>(allocations - before) / kMessages;
  }
  add(report, "receiver/first/threads=1",
      {.nanoseconds = 1e9 / median(rates), .allocations = allocated});
}

}  // namespace
}  // namespace oncebox::bench

int main() {
  oncebox::bench::Report report;
  oncebox::bench::run_duplicates(report, 1'000, "1k");
  oncebox::bench::run_duplicates(report, 1'000'000, "1M");
  oncebox::bench::run_first(report);
  report.print_json();
}
