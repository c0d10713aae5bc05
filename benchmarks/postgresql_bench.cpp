// What the PostgreSQL store does in a second, against loops that use libpq directly, with a row for
// the state of each message (raw) and with one for many as the store has it (raw-runs), against
// single statements on one plain table, and against other queues in PostgreSQL; the time from
// enqueue to handler; and the bytes that a message takes.
//
// Conditions: one private server on this machine with fsync and synchronous_commit on; payloads of
// about 200 bytes, random ids, one topic. All take turns in one run, each round on new tables; the
// figures are medians. An argument sets the number of rounds.
//
// ONCEBOX_BENCH_PEERS is the folder with the scripts of benchmarks/peers and their packages, which
// `./dev bench` installs; ONCEBOX_PGMQ_SQL is the file with pgmq's functions.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench_dispatcher.hpp"
#include "bench_messages.hpp"
#include "bench_postgresql.hpp"
#include "figure.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "peer_process.hpp"
#include "raw_postgresql.hpp"

namespace oncebox::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBatch = 500;
constexpr std::size_t kMessages = 50'000;

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

template <class Drain>
double drain_in_batches(std::size_t batch, Drain drain) {
  return measure([&] {
    std::size_t total = 0;
    while (const std::size_t count = drain(batch)) total += count;
    return total;
  });
}

void run_raw(BenchPostgresql& server, RawPostgresql::Layout layout, std::size_t batch,
             Rates& rates) {
  const std::string name = layout == RawPostgresql::Layout::runs ? "raw-runs" : "raw";
  const postgresql::Options options = server.new_store();
  postgresql::migrate(options);
  RawPostgresql raw(server.url(), options.schema, layout);
  const std::vector<Message> messages = make_messages(kMessages);
  server.settle_down();
  rates[fmt::format("{}/enqueue/batch={}", name, batch)].push_back(enqueue_in_batches(
      messages, batch, [&](std::span<const Message> part) { raw.enqueue(part); }));
  if (batch == kBatch) {
    server.settle_down();
    rates[name + "/claim+settle/batch=500"].push_back(
        drain_in_batches(batch, [&](std::size_t size) { return raw.claim_and_acknowledge(size); }));
  }
  server.drop(options);
}

void run_store(BenchPostgresql& server, std::size_t batch, Rates& rates) {
  const postgresql::Options options = server.new_store();
  {
    postgresql::PostgresqlStore store(options);
    const std::vector<Message> messages = make_messages(kMessages);
    server.settle_down();
    rates[fmt::format("postgresql/enqueue/batch={}", batch)].push_back(enqueue_in_batches(
        messages, batch, [&](std::span<const Message> part) { store.inbox().enqueue(part); }));
    if (batch == kBatch) {
      server.settle_down();
      const OwnerToken owner = OwnerToken::generate();
      rates["postgresql/claim+settle/batch=500"].push_back(drain_in_batches(
          batch,
          [&](std::size_t size) { return claim_and_acknowledge(store.inbox(), owner, size); }));
    }
  }
  server.drop(options);
}

void run_dispatcher(BenchPostgresql& server, bool flush_claims, Rates& rates) {
  postgresql::Options options = server.new_store();
  options.flush_claims = flush_claims;
  {
    postgresql::PostgresqlStore store(options);
    enqueue_all(store.inbox(), kMessages);
    server.settle_down();
    rates[flush_claims ? "dispatcher/drain/postgresql" : "dispatcher/drain/postgresql/unflushed"]
        .push_back(drain_through_dispatcher(store.inbox(), kMessages));
  }
  server.drop(options);
}

// Many callers, one message each.
void run_singles(BenchPostgresql& server, Rates& rates) {
  constexpr std::size_t kSingles = 20'000;
  constexpr std::size_t kThreads = 64;
  constexpr std::size_t kConnections = 32;
  const std::vector<Message> messages = make_messages(kSingles);
  const postgresql::Options options = server.new_store();
  {
    postgresql::PostgresqlStore store(options);
    PlainTable plain(server.url(), options.schema, kConnections);
    rates["raw/enqueue-single/connections=32"].push_back(measure([&] {
      plain.enqueue_singly(messages);
      return kSingles;
    }));
    Inbox inbox(store, {.missing_hash = MissingHash::leave});
    rates["postgresql/enqueue-single/threads=64"].push_back(measure([&] {
      std::atomic<std::size_t> next = 0;
      {
        std::vector<std::jthread> callers;
        callers.reserve(kThreads);
        for (std::size_t i = 0; i < kThreads; ++i) {
          callers.emplace_back([&] {
            for (std::size_t at = next++; at < kSingles; at = next++) inbox.enqueue(messages[at]);
          });
        }
      }
      return kSingles;
    }));
  }
  server.drop(options);
}

struct Peer {
  std::string name;
  std::string script;
  std::string schema;
};

const std::vector<Peer>& node_peers() {
  static const std::vector<Peer> peers{
      {"graphile-worker", "graphile_worker.mjs", "graphile_worker"},
      {"pg-boss", "pg_boss.mjs", "pgboss"}};
  return peers;
}

std::string environment(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

void run_node_peers(BenchPostgresql& server, const std::string& folder, Rates& rates) {
  constexpr std::size_t kPeerMessages = 20'000;
  for (const Peer& peer : node_peers()) {
    server.settle_down();
    const auto measured = run_peer({.folder = folder,
                                    .script = peer.script,
                                    .url = server.url(),
                                    .count = kPeerMessages,
                                    .batch = 2 * kBatch});
    for (const auto& [figure, rate] : measured) {
      rates[fmt::format("{}/{}", peer.name, figure)].push_back(rate);
    }
    server.execute(fmt::format("DROP SCHEMA {} CASCADE", peer.schema));
  }
}

void run_pgmq(BenchPostgresql& server, const std::string& sql_file, Rates& rates) {
  if (rates["pgmq/enqueue"].empty()) {
    std::stringstream sql;
    sql << std::ifstream(sql_file).rdbuf();
    PgSession(server.url()).run("CREATE SCHEMA IF NOT EXISTS pgmq;" + sql.str());
  }
  PgmqQueue queue(server.url());
  const std::vector<Message> messages = make_messages(kMessages);
  rates["pgmq/enqueue"].push_back(enqueue_in_batches(
      messages, 2 * kBatch, [&](std::span<const Message> part) { queue.enqueue(part); }));
  server.settle_down();
  rates["pgmq/drain"].push_back(
      drain_in_batches(kBatch, [&](std::size_t size) { return queue.read_and_archive(size); }));
}

using Latencies = std::map<std::string, Times>;

/// How long a message is durable through libpq alone, on the tables of the store.
Times measure_raw_enqueue(RawPostgresql& raw, std::size_t samples,
                          std::chrono::milliseconds pause) {
  Times took;
  for (const Message& message : make_messages(samples)) {
    std::this_thread::sleep_for(pause);
    const auto started = std::chrono::steady_clock::now();
    raw.enqueue(std::span(&message, 1));
    const auto ended = std::chrono::steady_clock::now();
    took.push_back(std::chrono::duration<double, std::micro>(ended - started).count());
  }
  return took;
}

// One message at a time on an idle system, by turns with one that is only stored. The longer pause
// lets everything come to rest, the processor too; the shorter one is that of the peers.
void run_latency(BenchPostgresql& server, std::chrono::milliseconds pause, Latencies& latencies) {
  constexpr std::size_t kSamples = 200;
  const auto add = [&](const std::string& name, const Times& times) {
    Times& all = latencies[fmt::format("{}/pause={}ms", name, pause.count())];
    all.insert(all.end(), times.begin(), times.end());
  };
  const postgresql::Options raw_options = server.new_store();
  const postgresql::Options options = server.new_store();
  postgresql::migrate(raw_options);
  {
    RawPostgresql raw(server.url(), raw_options.schema, RawPostgresql::Layout::rows);
    postgresql::PostgresqlStore store(options);
    postgresql::PostgresqlStore other(options);
    Inbox inbox(store);
    add("raw/enqueue-one", measure_raw_enqueue(raw, kSamples, pause));
    add("postgresql/enqueue-to-handler",
        measure_latency([&](const Message& message) { inbox.enqueue(message); }, inbox.queue(),
                        kSamples, pause));
    add("postgresql/enqueue-to-handler/other-handle",
        measure_latency(other.outbox(), store.outbox(), kSamples, pause));
  }
  server.drop(raw_options);
  server.drop(options);
}

void report_latencies(const Latencies& latencies, Report& report) {
  for (const auto& [name, times] : latencies) {
    const Quantiles quantiles = quantiles_of(times);
    report.add_time(name + "/p50", quantiles.p50_us);
    report.add_time(name + "/p99", quantiles.p99_us);
  }
}

// What the tables and indexes of a queue take per message, in each state.
class Sizes {
 public:
  Sizes(BenchPostgresql& server, Report& report) : server_(server), report_(report) {}

  void run() {
    run({}, {"message", "run"}, {"message", "done_run"});
    // What expires, be it in a hundred years, has rows of its own.
    const TimePoint far_away =
        std::chrono::floor<Duration>(std::chrono::system_clock::now()) + std::chrono::years{100};
    run(far_away, {"message", "work"}, {"message", "done"});
  }

 private:
  void run(std::optional<TimePoint> expires_at, const std::vector<std::string>& unfinished,
           const std::vector<std::string>& finished) {
    {
      postgresql::PostgresqlStore store(options_);
      std::vector<Message> messages = make_messages(kMessages);
      for (Message& message : messages) message.expires_at = expires_at;
      enqueue_in_batches(messages, kBatch,
                         [&](std::span<const Message> part) { store.inbox().enqueue(part); });
      tell("ready", unfinished);
      const std::vector<ClaimedMessage> claimed = claim_all(store.inbox(), unfinished.back());
      tell("leased", unfinished);
      acknowledge_all(store.inbox(), claimed);
      tell("done", finished);
    }
    server_.drop(options_);
  }

  std::vector<ClaimedMessage> claim_all(QueueStore& queue, const std::string& state) {
    const OwnerToken owner = OwnerToken::generate();
    std::vector<ClaimedMessage> all;
    for (;;) {
      std::vector<ClaimedMessage> claimed = queue.claim({.owner = owner, .limit = kBatch});
      if (claimed.empty()) return all;
      std::move(claimed.begin(), claimed.end(), std::back_inserter(all));
      server_.execute(fmt::format("VACUUM {}", table(state)));
    }
  }

  static void acknowledge_all(QueueStore& queue, const std::vector<ClaimedMessage>& claimed) {
    for (std::size_t first = 0; first < claimed.size(); first += kBatch) {
      std::vector<Settlement> settlements;
      for (std::size_t i = first; i < std::min(first + kBatch, claimed.size()); ++i) {
        settlements.push_back({.delivery = delivery_of(claimed[i]), .verdict = Ack{}});
      }
      queue.settle(settlements);
    }
  }

  std::string table(const std::string& name) const {
    return fmt::format("{}.oncebox_inbox_{}", options_.schema, name);
  }

  void tell(const std::string& state, const std::vector<std::string>& tables) {
    const auto add = [&](const std::string& what, const std::string& bytes) {
      report_.add_count(fmt::format("postgresql/size/{}/{}", state, what),
                        std::stod(bytes) / kMessages, "bytes/message");
    };
    for (const std::string& name : tables) {
      add(name, server_.execute(fmt::format("SELECT pg_table_size('{}')", table(name))));
      add(name + "-indexes",
          server_.execute(fmt::format("SELECT pg_indexes_size('{}')", table(name))));
    }
  }

  BenchPostgresql& server_;
  Report& report_;
  const postgresql::Options options_ = server_.new_store();
};

void compare_with_peer(const std::string& name, const Rates& rates, Report& report) {
  const auto compare = [&](const std::string& figure, const std::string& ours) {
    const auto theirs = rates.find(fmt::format("{}/{}", name, figure));
    if (theirs == rates.end()) return;
    report.add(theirs->first, median(theirs->second));
    report.add(fmt::format("{}/against/{}", ours, theirs->first), median(rates.at(ours)),
               theirs->first);
  };
  compare("enqueue", "postgresql/enqueue/batch=1000");
  compare("enqueue-dedupe", "postgresql/enqueue/batch=1000");
  compare("drain", "dispatcher/drain/postgresql");
}

void run(Report& report, int rounds) {
  BenchPostgresql server;
  Rates rates;
  Latencies latencies;
  const std::string peers = environment("ONCEBOX_BENCH_PEERS");
  const std::string pgmq = environment("ONCEBOX_PGMQ_SQL");
  if (peers.empty()) {
    fmt::print("graphile-worker and pg-boss are skipped: ONCEBOX_BENCH_PEERS is not set\n");
  }
  if (pgmq.empty()) fmt::print("pgmq is skipped: ONCEBOX_PGMQ_SQL is not set\n");
  for (int round = 0; round < rounds; ++round) {
    for (const std::size_t batch : {kBatch, 2 * kBatch}) {
      run_raw(server, RawPostgresql::Layout::rows, batch, rates);
      run_raw(server, RawPostgresql::Layout::runs, batch, rates);
      run_store(server, batch, rates);
    }
    run_dispatcher(server, true, rates);
    run_dispatcher(server, false, rates);
    run_singles(server, rates);
    for (const auto pause : {3ms, 15ms}) run_latency(server, pause, latencies);
    if (!peers.empty()) run_node_peers(server, peers, rates);
    if (!pgmq.empty()) run_pgmq(server, pgmq, rates);
  }
  const auto compare = [&](const std::string& baseline, const std::vector<std::string>& names) {
    report.add(baseline, median(rates.at(baseline)));
    for (const std::string& name : names) report.add(name, median(rates.at(name)), baseline);
  };
  compare("raw/enqueue/batch=500", {"postgresql/enqueue/batch=500"});
  compare("raw/enqueue/batch=1000", {"postgresql/enqueue/batch=1000"});
  compare("raw/claim+settle/batch=500",
          {"postgresql/claim+settle/batch=500", "dispatcher/drain/postgresql",
           "dispatcher/drain/postgresql/unflushed"});
  compare("raw-runs/enqueue/batch=500", {"postgresql/enqueue/batch=500"});
  compare("raw-runs/enqueue/batch=1000", {"postgresql/enqueue/batch=1000"});
  compare("raw-runs/claim+settle/batch=500",
          {"postgresql/claim+settle/batch=500", "dispatcher/drain/postgresql"});
  compare("raw/enqueue-single/connections=32", {"postgresql/enqueue-single/threads=64"});
  for (const std::string name : {"graphile-worker", "pg-boss", "pgmq"}) {
    compare_with_peer(name, rates, report);
  }
  report_latencies(latencies, report);
  const std::string peer_latency = "graphile-worker/enqueue-to-handler/pause=3ms/p50";
  if (rates.contains(peer_latency)) report.add_time(peer_latency, median(rates.at(peer_latency)));
  Sizes(server, report).run();
}

}  // namespace
}  // namespace oncebox::bench

int main(int argc, char** argv) {
  constexpr int kRounds = 5;
  oncebox::bench::Report report;
  oncebox::bench::run(report, argc > 1 ? std::stoi(argv[1]) : kRounds);
  report.print_json();
}
