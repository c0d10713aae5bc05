// Whether the PostgreSQL store slows down with what it has done: the same work beside ten thousand
// and beside a million finished messages.
//
// Conditions: one private server on this machine with fsync and synchronous_commit on; payloads of
// about 200 bytes, random ids, one topic, batches of 500. Rounds alternate between the two schemas;
// the figures are medians. Another number of finished messages can be given as an argument; ten
// million take about 6 GB and ten minutes.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench_messages.hpp"
#include "bench_postgresql.hpp"
#include "figure.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"

namespace oncebox::bench {
namespace {

constexpr std::size_t kBatch = 500;
constexpr std::size_t kMessagesPerRound = 20'000;
constexpr int kRounds = 7;

// Puts finished messages straight into the tables. They finish in the future, so that a clean-up of
// what the rounds add leaves them. Their numbers are those of calls with 500 messages each; the
// messages of every tenth call have rows of their own, as if something had happened to each of
// them.
void make_finished(BenchPostgresql& server, const postgresql::Options& options, std::size_t count) {
  constexpr std::size_t kCall = 500;
  constexpr std::size_t kStep = 500 * kCall;  // so that no statement takes long
  const std::size_t calls = count / kCall;
  const auto execute = [&](const std::string& sql, std::size_t first = 0, std::size_t last = 0) {
    server.execute(fmt::format(fmt::runtime(sql), fmt::arg("s", options.schema),
                               fmt::arg("count", count), fmt::arg("calls", calls),
                               fmt::arg("first", first), fmt::arg("last", last)));
  };
  execute("DROP INDEX {s}.oncebox_inbox_message_key");
  for (std::size_t first = 0; first < count; first += kStep) {
    const std::size_t last = std::min(first + kStep, count) - 1;
    execute(R"sql(
INSERT INTO {s}.oncebox_inbox_message (id, key, source, message_id, first_seen_at, topic, payload)
SELECT (1 + i / 500) * 16384 + i % 500, md5(i::text)::uuid, 'StripeWebhook', 'old-' || md5(i::text),
       now(), 'payment.received', decode(repeat('00', 200), 'hex')
  FROM generate_series({first}::bigint, {last}) i)sql",
            first, last);
    execute(R"sql(
INSERT INTO {s}.oncebox_inbox_done (id, finished_at, last_seen_at, enqueue_order, attempt,
                                    deliveries, lapses, content_version, duplicates, revivals)
SELECT n * 16384 + p, now() + interval '1 day' + n * interval '16 milliseconds', now(),
       n * 16384 + p, 0, 2, 1, 1, 0, 0
  FROM generate_series(1 + {first}::bigint / 500, 1 + {last}::bigint / 500) n
 CROSS JOIN generate_series(0, 499) p
 WHERE n % 10 = 0)sql",
            first, last);
  }
  execute(R"sql(
INSERT INTO {s}.oncebox_inbox_done_run (first_id, last_id, seen_at, finished_at, topic)
SELECT n * 16384 + p, n * 16384 + least(p + 63, 499), now(),
       now() + interval '1 day' + n * interval '16 milliseconds', 'payment.received'
  FROM generate_series(1::bigint, {calls}) n CROSS JOIN generate_series(0, 499, 64) p
 WHERE n % 10 <> 0)sql");
  execute("INSERT INTO {s}.oncebox_inbox_done_count VALUES ('payment.received', {count})");
  execute("CREATE UNIQUE INDEX oncebox_inbox_message_key ON {s}.oncebox_inbox_message (key)");
  execute("SELECT setval('{s}.oncebox_inbox_numbers', {calls} + 2)");
}

// One schema, and a round of work on it.
class Bench {
 public:
  Bench(BenchPostgresql& server, std::size_t finished)
      : server_(server), options_(server.new_store()) {
    store_ = std::make_unique<postgresql::PostgresqlStore>(options_);
    make_finished(server, options_, finished);
  }

  void run_round() {
    std::vector<std::vector<Message>> batches;
    for (std::size_t first = 0; first < kMessagesPerRound; first += kBatch) {
      batches.push_back(make_messages(kBatch, round_ * kMessagesPerRound + first));
    }
    ++round_;
    server_.settle_down();
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

  BenchPostgresql& server_;
  const postgresql::Options options_;
  std::unique_ptr<postgresql::PostgresqlStore> store_;
  const OwnerToken owner_ = OwnerToken::generate();
  std::size_t round_ = 0;
};

void run(Report& report, std::size_t many) {
  constexpr std::size_t kFew = 10'000;
  BenchPostgresql server;
  Bench small(server, kFew);
  Bench large(server, many);
  for (int round = 0; round < kRounds; ++round) {
    small.run_round();
    large.run_round();
  }
  const auto compare = [&](const std::string& what, const std::vector<double>& few,
                           const std::vector<double>& lots) {
    const std::string base = fmt::format("postgresql/{}/done={}", what, kFew);
    report.add(base, median(few));
    report.add(fmt::format("postgresql/{}/done={}", what, many), median(lots), base);
  };
  compare("claim+settle", small.claim_and_settle, large.claim_and_settle);
  compare("enqueue", small.enqueue, large.enqueue);
  compare("cycle", small.cycle, large.cycle);
}

}  // namespace
}  // namespace oncebox::bench

int main(int argc, char** argv) {
  oncebox::bench::Report report;
  oncebox::bench::run(report, argc > 1 ? std::stoul(argv[1]) : 1'000'000);
  report.print_json();
}
