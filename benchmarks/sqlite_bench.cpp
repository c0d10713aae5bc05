// What the SQLite store does in a second, against a loop that uses SQLite directly on the same
// tables, flushing each commit. Both work in the same run by turns, each round on new files; the
// figures are medians.
//
// Conditions: payloads of about 200 bytes, random ids, one topic; WAL, synchronous = FULL.

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench_folder.hpp"
#include "bench_messages.hpp"
#include "figure.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "raw_sqlite.hpp"

namespace oncebox::bench {
namespace {

constexpr int kRounds = 5;

using Rates = std::map<std::string, std::vector<double>>;

template <class Enqueue>
double enqueue_in_batches(std::span<const Message> messages, std::size_t batch, Enqueue enqueue) {
  return measure([&] {
    for (std::size_t first = 0; first < messages.size(); first += batch) {
      enqueue(messages.subspan(first, std::min(batch, messages.size() - first)));
    }
    return messages.size();
  });
}

// Enqueues in batches of one size and drains in the same.
void run_batches(BenchFolder& folder, std::size_t batch, std::size_t count, Rates& rates) {
  const std::vector<Message> messages = make_messages(count);
  const std::string size = fmt::format("/batch={}", batch);
  {
    RawSqlite raw(folder.new_file());
    rates["raw/enqueue" + size].push_back(enqueue_in_batches(
        messages, batch, [&](std::span<const Message> part) { raw.enqueue(part); }));
    rates["raw/claim+settle" + size].push_back(measure([&] {
      while (raw.claim_and_acknowledge(batch) > 0) {
      }
      return count;
    }));
  }
  {
    sqlite::SqliteStore store({.path = folder.new_file()});
    const OwnerToken owner = OwnerToken::generate();
    rates["sqlite/enqueue" + size].push_back(enqueue_in_batches(
        messages, batch, [&](std::span<const Message> part) { store.inbox().enqueue(part); }));
    rates["sqlite/claim+settle" + size].push_back(measure([&] {
      while (claim_and_acknowledge(store.inbox(), owner, batch) > 0) {
      }
      return count;
    }));
  }
}

// Many callers, one message each, through the inbox.
void run_singles(BenchFolder& folder, std::size_t threads, std::size_t count, Rates& rates) {
  const std::vector<Message> messages = make_messages(count);
  sqlite::SqliteStore store({.path = folder.new_file()});
  NullLogger logger;
  Observer observer;
  const SystemClock clock;
  Inbox inbox(store, {.missing_hash = MissingHash::leave}, {logger, observer, clock});
  rates[fmt::format("sqlite/enqueue-single/threads={}", threads)].push_back(measure([&] {
    std::atomic<std::size_t> next = 0;
    {
      std::vector<std::jthread> callers;
      callers.reserve(threads);
      for (std::size_t i = 0; i < threads; ++i) {
        callers.emplace_back([&] {
          for (std::size_t at = next++; at < count; at = next++) inbox.enqueue(messages[at]);
        });
      }
    }
    return count;
  }));
}

void run(Report& report) {
  Rates rates;
  {
    BenchFolder folder;
    for (int round = 0; round < kRounds; ++round) {
      run_batches(folder, 1, 1'000, rates);
      run_batches(folder, 64, 20'000, rates);
      run_batches(folder, 500, 50'000, rates);
      run_singles(folder, 1, 1'000, rates);
      run_singles(folder, 64, 20'000, rates);
    }
  }
  const auto compare = [&](const std::string& ours, const std::string& baseline) {
    report.add(baseline, median(rates.at(baseline)));
    report.add(ours, median(rates.at(ours)), baseline);
  };
  for (const char* what : {"enqueue", "claim+settle"}) {
    for (const int batch : {1, 64, 500}) {
      compare(fmt::format("sqlite/{}/batch={}", what, batch),
              fmt::format("raw/{}/batch={}", what, batch));
    }
  }
  compare("sqlite/enqueue-single/threads=1", "raw/enqueue/batch=1");
  compare("sqlite/enqueue-single/threads=64", "raw/enqueue/batch=64");
}

}  // namespace
}  // namespace oncebox::bench

int main() {
  oncebox::bench::Report report;
  oncebox::bench::run(report);
  report.print_json();
}
