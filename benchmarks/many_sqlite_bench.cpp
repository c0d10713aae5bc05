// One dispatcher over many SQLite files.
//
// Idle: what 1,000 stores cost while nothing happens in any of them, measured for a minute.
// Neighbours: nine small tenants of 10 messages a second each, alone, and beside a large one of 100
// times as much, or with a backlog that never ends; the wait is the time from the call of enqueue
// to the handler. Handlers take a millisecond, 8 run at once. Interleaved rounds, medians.

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "bench_folder.hpp"
#include "figure.hpp"
#include "many_stores.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "process_usage.hpp"

namespace oncebox::bench {
namespace {

/// New files, "t000" and so on.
std::vector<StoreLocation> make_locations(BenchFolder& folder, std::size_t count) {
  std::vector<StoreLocation> locations;
  for (std::size_t i = 0; i < count; ++i) {
    locations.push_back({fmt::format("t{:03}", i), folder.new_file()});
  }
  return locations;
}

std::unique_ptr<Store> open(const StoreLocation& location) {
  return std::make_unique<sqlite::SqliteStore>(sqlite::Options{.path = location.url});
}

void measure_idle_stores(Report& report, std::size_t count) {
  BenchFolder folder;
  NullLogger logger;
  StoreSet stores(make_locations(folder, count), open, {.open_wait = std::chrono::minutes{10}},
                  {.logger = logger});
  measure_idle(report, fmt::format("sqlite/{}-idle-stores", count), stores,
               std::chrono::seconds{60});
}

void measure_neighbours(Report& report, std::size_t rounds) {
  struct Case {
    std::string name;
    MakeSelection selection;
    Neighbours neighbours;
  };
  const MakeSelection fair = [] { return weighted_fair(); };
  const MakeSelection in_turn = [] { return round_robin(); };
  const std::vector<Case> cases{
      {"small-alone/weighted-fair", fair, {}},
      {"beside-100-times-the-load/weighted-fair", fair, {.large_rate = 1'000}},
      {"beside-a-backlog/weighted-fair", fair, {.large_backlog = 60'000}},
      {"beside-a-backlog/round-robin", in_turn, {.large_backlog = 60'000}},
  };
  std::map<std::string, std::vector<double>> p50s;
  std::map<std::string, std::vector<double>> p99s;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (const Case& measured : cases) {
      BenchFolder folder;
      NullLogger logger;
      StoreSet stores(make_locations(folder, 10), open, {}, {.logger = logger});
      const Waits waits =
          measure_waits(stores, measured.selection, measured.neighbours, std::chrono::seconds{8});
      p50s[measured.name].push_back(waits.p50_us);
      p99s[measured.name].push_back(waits.p99_us);
    }
  }
  for (const Case& measured : cases) {
    report.add_time("sqlite/wait-p50/" + measured.name, median(p50s[measured.name]));
    report.add_time("sqlite/wait-p99/" + measured.name, median(p99s[measured.name]));
    const double alone = median(p99s[cases.front().name]);
    report.add_count("sqlite/wait-p99-ratio/" + measured.name, median(p99s[measured.name]) / alone,
                     "times alone");
  }
}

}  // namespace
}  // namespace oncebox::bench

// Arguments: idle stores (1000; 0: none), rounds of neighbours (3).
int main(int argc, char** argv) {
  oncebox::bench::allow_many_files();
  const std::size_t stores = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1'000;
  const std::size_t rounds = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 3;
  oncebox::bench::Report report;
  if (stores > 0) oncebox::bench::measure_idle_stores(report, stores);
  if (rounds > 0) oncebox::bench::measure_neighbours(report, rounds);
  report.print_json();
}
