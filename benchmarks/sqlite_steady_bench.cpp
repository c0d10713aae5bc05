// Whether the file stays bounded: a steady load with a retention of 40 batches, run for many times
// the retention. Tells the size of the file and its log.
//
// Conditions: payloads of about 200 bytes, random ids, one topic, batches of 500; WAL, synchronous
// = FULL; finished messages are removed when as many again have been finished.

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "bench_folder.hpp"
#include "bench_messages.hpp"
#include "figure.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/fake_clock.hpp"

namespace oncebox::bench {
namespace {

constexpr std::size_t kBatch = 500;
constexpr std::size_t kBatchesPerRetention = 40;
constexpr std::size_t kRetentions = 50;

void run(Report& report) {
  BenchFolder folder;
  const std::string path = folder.new_file();
  // A batch is worth a second, whatever it takes.
  testing::FakeClock clock;
  sqlite::SqliteStore store({.path = path}, clock);
  const OwnerToken owner = OwnerToken::generate();
  const Duration retention = std::chrono::seconds{kBatchesPerRetention};
  const auto mebibytes = [&] {
    const auto bytes = std::filesystem::file_size(path) + std::filesystem::file_size(path + "-wal");
    return static_cast<double>(bytes) / (1 << 20);
  };
  double after_two = 0;
  std::size_t first = 0;
  const double rate = measure([&] {
    for (std::size_t period = 1; period <= kRetentions; ++period) {
      for (std::size_t batch = 0; batch < kBatchesPerRetention; ++batch) {
        store.inbox().enqueue(make_messages(kBatch, first));
        first += kBatch;
        claim_and_acknowledge(store.inbox(), owner, kBatch);
        clock.advance(std::chrono::seconds{1});
        store.inbox_operator().cleanup({.done_retention = retention, .limit = kBatch});
      }
      if (period == 2) after_two = mebibytes();
    }
    return first;
  });
  report.add("sqlite/steady/cycle+cleanup", rate);
  report.add_memory("sqlite/steady/file-after-2-retentions", after_two);
  report.add_memory(fmt::format("sqlite/steady/file-after-{}-retentions", kRetentions),
                    mebibytes());
}

}  // namespace
}  // namespace oncebox::bench

int main() {
  oncebox::bench::Report report;
  oncebox::bench::run(report);
  report.print_json();
}
