// Whether somebody who holds an old snapshot, a backup or a long report, slows the PostgreSQL store
// down: vacuum removes nothing that the snapshot might still see. Two databases of one server take
// turns, and a transaction holds a snapshot of one of them all the time.
//
// Conditions: one private server on this machine with fsync and synchronous_commit on, whose
// autovacuum looks around every 5 seconds; payloads of about 200 bytes, random ids, one topic,
// batches of 500. A round enqueues messages and drains them through the dispatcher. The figures are
// medians: of all rounds, and of the last quarter of them, when most has been left behind. Another
// number of messages can be given as an argument.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench_dispatcher.hpp"
#include "bench_messages.hpp"
#include "bench_postgresql.hpp"
#include "figure.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "pg_session.hpp"

namespace oncebox::bench {
namespace {

constexpr std::size_t kMessagesPerRound = 10'000;

// A database, and a round of work in it.
class Bench {
 public:
  Bench(BenchPostgresql& server, const std::string& database)
      : server_(server), database_(database) {
    server.execute("CREATE DATABASE " + database);
    options_ = server.new_store(database);
    store_.emplace(options_);
  }

  void run_round() {
    rates.push_back(measure([&] {
      enqueue_all(store_->inbox(), kMessagesPerRound, rates.size() * kMessagesPerRound);
      static_cast<void>(drain_through_dispatcher(store_->inbox(), kMessagesPerRound));
      return kMessagesPerRound;
    }));
  }

  void tell_dead_rows(Report& report) {
    for (const std::string table : {"message", "run", "work", "done_run", "done", "done_count"}) {
      const std::string dead =
          server_.execute(fmt::format("SELECT n_dead_tup FROM pg_stat_user_tables "
                                      "WHERE schemaname = '{}' AND relname = 'oncebox_inbox_{}'",
                                      options_.schema, table),
                          database_);
      report.add_count(fmt::format("postgresql/dead-rows/{}/{}", database_, table), std::stod(dead),
                       "rows");
    }
  }

  std::vector<double> rates;

 private:
  BenchPostgresql& server_;
  const std::string database_;
  postgresql::Options options_;
  std::optional<postgresql::PostgresqlStore> store_;
};

void run(Report& report, std::size_t messages) {
  const std::size_t rounds = std::max<std::size_t>(messages / kMessagesPerRound, 4);
  BenchPostgresql server({testing::PostgresqlSetting{"autovacuum_naptime", "5s"}});
  Bench free(server, "free");
  Bench held(server, "held");
  PgSession holder(server.url("held"));
  holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
  for (std::size_t round = 0; round < rounds; ++round) {
    free.run_round();
    held.run_round();
  }
  const auto compare = [&](const std::string& what, std::size_t first) {
    const auto from = [&](const Bench& bench) {
      return std::vector<double>(bench.rates.begin() + static_cast<std::ptrdiff_t>(first),
                                 bench.rates.end());
    };
    const std::string base = fmt::format("postgresql/cycle/{}/free", what);
    report.add(base, median(from(free)));
    report.add(fmt::format("postgresql/cycle/{}/snapshot-held", what), median(from(held)), base);
  };
  compare("all-rounds", 0);
  compare("last-quarter", rounds - rounds / 4);
  free.tell_dead_rows(report);
  held.tell_dead_rows(report);
}

}  // namespace
}  // namespace oncebox::bench

int main(int argc, char** argv) {
  oncebox::bench::Report report;
  oncebox::bench::run(report, argc > 1 ? std::stoul(argv[1]) : 400'000);
  report.print_json();
}
