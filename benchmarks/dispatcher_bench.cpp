// What a message costs between the store and its handler, on SQLite: draining a backlog through the
// dispatcher against a loop that uses SQLite directly on the same tables, the time from enqueue to
// handler on an idle system, and the memory that draining a million messages takes.
//
// Conditions: payloads of about 200 bytes, one topic, an empty handler, batches of 500; WAL,
// synchronous = FULL. Rates are medians of rounds that alternate between the two.

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench_dispatcher.hpp"
#include "bench_folder.hpp"
#include "bench_messages.hpp"
#include "figure.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "raw_sqlite.hpp"

namespace oncebox::bench {
namespace {

constexpr std::size_t kBatch = 500;
constexpr int kRounds = 5;

void run_drain(Report& report) {
  constexpr std::size_t kMessages = 100'000;
  std::vector<double> raw_rates;
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    BenchFolder folder;
    {
      RawSqlite raw(folder.new_file());
      for (std::size_t first = 0; first < kMessages; first += kBatch) {
        raw.enqueue(make_messages(kBatch, first));
      }
      raw_rates.push_back(measure([&] {
        while (raw.claim_and_acknowledge(kBatch) > 0) {
        }
        return kMessages;
      }));
    }
    sqlite::SqliteStore store({.path = folder.new_file()});
    enqueue_all(store.inbox(), kMessages);
    rates.push_back(drain_through_dispatcher(store.inbox(), kMessages));
  }
  const std::string base = "raw/claim+settle/batch=500";
  report.add(base, median(raw_rates));
  report.add("dispatcher/drain/sqlite/batch=500", median(rates), base);
}

void run_latency(Report& report) {
  constexpr std::size_t kSamples = 1'000;
  BenchFolder folder;
  const std::string path = folder.new_file();
  sqlite::SqliteStore store({.path = path});
  const Quantiles same = quantiles_of(measure_latency(store.inbox(), store.inbox(), kSamples));
  report.add_time("dispatcher/enqueue-to-handler/p50", same.p50_us);
  report.add_time("dispatcher/enqueue-to-handler/p99", same.p99_us);

  sqlite::SqliteStore other({.path = path});
  const Quantiles across = quantiles_of(measure_latency(other.outbox(), store.outbox(), kSamples));
  report.add_time("dispatcher/enqueue-to-handler/other-handle/p50", across.p50_us);
  report.add_time("dispatcher/enqueue-to-handler/other-handle/p99", across.p99_us);
}

double peak_memory_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  throw std::runtime_error("/proc/self/status does not tell the peak memory");
}

// Run by a process of its own, whose peak is that of draining alone.
void drain_and_tell_memory(const std::string& path, std::size_t count) {
  sqlite::SqliteStore store({.path = path});
  const double rate = drain_through_dispatcher(store.inbox(), count);
  fmt::print("{} {}\n", rate, peak_memory_mib());
}

void run_memory(Report& report, const std::string& program) {
  constexpr std::size_t kMessages = 1'000'000;
  BenchFolder folder;
  const std::string path = folder.new_file();
  {
    sqlite::SqliteStore store({.path = path});
    enqueue_all(store.inbox(), kMessages);
  }
  const std::string command = fmt::format("'{}' --drain '{}' {}", program, path, kMessages);
  const auto close = [](FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> child(popen(command.c_str(), "r"), close);
  double rate = 0;
  double mib = 0;
  if (!child || std::fscanf(child.get(), "%lf %lf", &rate, &mib) != 2) {
    throw std::runtime_error("the draining process failed");
  }
  report.add("dispatcher/drain/sqlite/backlog=1M", rate);
  report.add_memory("dispatcher/drain/sqlite/backlog=1M/peak-memory", mib);
}

}  // namespace
}  // namespace oncebox::bench

int main(int argc, char** argv) {
  using namespace oncebox::bench;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[0] == "--drain") {
    drain_and_tell_memory(arguments[1], std::stoul(arguments[2]));
    return 0;
  }
  Report report;
  run_drain(report);
  run_latency(report);
  run_memory(report, argv[0]);
  report.print_json();
}
