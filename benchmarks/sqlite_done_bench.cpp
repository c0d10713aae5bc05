// Whether the SQLite store slows down with what it has done: the same work beside ten thousand and
// beside ten million finished messages.
//
// Conditions: payloads of about 200 bytes, random ids, one topic, batches of 500; WAL, synchronous
// = FULL. Rounds alternate between the two files; the figures are medians. The large file takes
// about 4 GB and a few minutes to make; another number of finished messages can be given as an
// argument.

#include <fmt/format.h>
#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench_folder.hpp"
#include "bench_messages.hpp"
#include "figure.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"

namespace oncebox::bench {
namespace {

constexpr std::size_t kBatch = 500;
constexpr std::size_t kMessagesPerRound = 20'000;
constexpr int kRounds = 7;

void execute(sqlite3* database, const std::string& sql) {
  if (sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return;
  throw std::runtime_error(sqlite3_errmsg(database));
}

// Puts finished messages straight into the tables; they finish in the future, so that a clean-up of
// what the rounds add leaves them.
void make_finished(const std::string& path, std::size_t count) {
  {
    const sqlite::SqliteStore store({.path = path});
  }
  sqlite3* opened = nullptr;
  const int code = sqlite3_open(path.c_str(), &opened);
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> database(opened, sqlite3_close);
  if (code != SQLITE_OK) throw std::runtime_error("cannot open " + path);
  const std::int64_t now = SystemClock::current().time_since_epoch().count();
  execute(opened, "PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000");
  execute(opened, fmt::format(R"sql(
BEGIN;
DROP INDEX oncebox_inbox_message_key;
INSERT INTO oncebox_topic (id, name) VALUES (1, 'payment.received');
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
INSERT INTO oncebox_inbox_message (
  id, segment, key, source, message_id, first_seen_at, payload)
SELECT i, i >> 16, randomblob(16), 'StripeWebhook', 'old-' || i, {now}, zeroblob(200) FROM n;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
INSERT INTO oncebox_inbox_state (
  id, stage, topic, rank, eligible_at, enqueue_order, attempt, deliveries, lapses,
  content_version, claimed_version, duplicates, last_seen_at, finished_at, backoff_until, revivals)
SELECT i, 4, 1, 0, {now}, i, 0, 1, 0, 1, 1, 0, {now}, {now} + 86400000 + i, 0, 0 FROM n;
CREATE UNIQUE INDEX oncebox_inbox_message_key ON oncebox_inbox_message (segment, key);
UPDATE oncebox_counter
   SET last_id = {count}, segment = {count} >> 16, segment_keys = {count} & 65535
 WHERE queue = 'inbox';
INSERT INTO oncebox_done_count (queue, topic, count) VALUES ('inbox', 1, {count});
COMMIT;
PRAGMA wal_checkpoint(TRUNCATE);
)sql",
                              fmt::arg("count", count), fmt::arg("now", now)));
}

// One file, and a round of work on it.
class Bench {
 public:
  Bench(const std::string& path, std::size_t finished) {
    make_finished(path, finished);
    store_ = std::make_unique<sqlite::SqliteStore>(sqlite::Options{.path = path});
  }

  void run_round() {
    std::vector<std::vector<Message>> batches;
    for (std::size_t first = 0; first < kMessagesPerRound; first += kBatch) {
      batches.push_back(make_messages(kBatch, first + round_ * kMessagesPerRound));
    }
    ++round_;
    const auto started = std::chrono::steady_clock::now();
    enqueue.push_back(measure([&] {
      for (const auto& batch : batches) store_->inbox().enqueue(batch);
      return kMessagesPerRound;
    }));
    claim_and_settle.push_back(measure([&] { return drain(); }));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    cycle.push_back(static_cast<double>(kMessagesPerRound) / took.count());
    while (store_->inbox_operator().cleanup({.done_retention = Duration{0}}).total() > 0) {
    }
  }

  std::vector<double> enqueue;
  std::vector<double> claim_and_settle;
  std::vector<double> cycle;

 private:
  std::size_t drain() {
    std::size_t handled = 0;
    while (const std::size_t count = claim_and_acknowledge(store_->inbox(), owner_, kBatch)) {
      handled += count;
    }
    return handled;
  }

  std::unique_ptr<sqlite::SqliteStore> store_;
  const OwnerToken owner_ = OwnerToken::generate();
  std::size_t round_ = 0;
};

void run(Report& report, std::size_t many) {
  constexpr std::size_t kFew = 10'000;
  BenchFolder folder;
  Bench small(folder.new_file(), kFew);
  Bench large(folder.new_file(), many);
  for (int round = 0; round < kRounds; ++round) {
    small.run_round();
    large.run_round();
  }
  const auto compare = [&](const std::string& what, const std::vector<double>& few,
                           const std::vector<double>& lots) {
    const std::string base = fmt::format("sqlite/{}/done={}", what, kFew);
    report.add(base, median(few));
    report.add(fmt::format("sqlite/{}/done={}", what, many), median(lots), base);
  };
  compare("claim+settle", small.claim_and_settle, large.claim_and_settle);
  compare("enqueue", small.enqueue, large.enqueue);
  compare("cycle", small.cycle, large.cycle);
}

}  // namespace
}  // namespace oncebox::bench

int main(int argc, char** argv) {
  oncebox::bench::Report report;
  oncebox::bench::run(report, argc > 1 ? std::stoul(argv[1]) : 10'000'000);
  report.print_json();
}
