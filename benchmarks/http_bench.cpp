// What the server does in a second, each message durable before its answer, against its own empty
// handler, against that handler with SQLite used directly, and against the endpoint that one writes
// with fastify; and the memory that a thousand idle connections take.
//
// Conditions: wrk with 64 connections on the same machine, messages of about 200 bytes with new
// ids; SQLite and PostgreSQL flush every commit; nobody logs requests. All take turns in one run,
// each round on new files and tables; the figures are medians. The first argument sets the number
// of rounds, the second the seconds that each turn takes.
//
// ONCEBOX_BENCH_PEERS is the folder with the scripts of benchmarks/peers and their packages, which
// `./dev bench` installs.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench_folder.hpp"
#include "bench_postgresql.hpp"
#include "figure.hpp"
#include "served_process.hpp"
#include "wrk.hpp"

namespace oncebox::bench {
namespace {

constexpr int kConnections = 64;
constexpr int kIdleConnections = 1'000;

std::string script(const std::string& name) { return ONCEBOX_BENCH_SCRIPTS "/" + name; }

/// What every turn of one kind measured.
struct Series {
  std::vector<double> rates;
  std::vector<double> p99s;

  void add(const Load& load) {
    rates.push_back(load.rate);
    p99s.push_back(load.p99_us);
  }
};

class HttpBench {
 public:
  HttpBench(int rounds, int seconds) : rounds_(rounds), seconds_(seconds) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
    const char* const peers = std::getenv("ONCEBOX_BENCH_PEERS");
    if (peers != nullptr) peers_ = peers;
  }

  void run() {
    for (int round = 0; round < rounds_; ++round) {
      run_messages("empty-handler/post", empty_handler());
      run_messages("raw-sqlite/post", raw_sqlite());
      run_messages("memory/post", oncebox("memory:"));
      run_messages("sqlite/post", oncebox("sqlite:" + folder_.new_file()));
      if (!peers_.empty()) run_messages("fastify+sqlite/post", fastify_sqlite());
      run_messages("postgresql/post", oncebox(new_schema()));
      if (!peers_.empty()) {
        server_.execute("DROP TABLE IF EXISTS inbox");
        run_messages("fastify+pg/post", fastify_postgresql());
      }
      run_pairs("memory/try-begin+mark-processed", oncebox("memory:"));
      run_pairs("sqlite/try-begin+mark-processed", oncebox("sqlite:" + folder_.new_file()));
      run_pairs("postgresql/try-begin+mark-processed", oncebox(new_schema()));
    }
    report();
  }

 private:
  ServedProcess empty_handler() {
    return {{ONCEBOX_EMPTY_SERVER}, folder_.new_file(), ServedProcess::PortFrom::output};
  }

  ServedProcess raw_sqlite() {
    return {{ONCEBOX_EMPTY_SERVER, folder_.new_file()},
            folder_.new_file(),
            ServedProcess::PortFrom::output};
  }

  ServedProcess oncebox(const std::string& store) {
    const std::string port_file = folder_.new_file();
    return {{ONCEBOX_PROGRAM, "serve", "--port", "0", "--port-file", port_file, "--store", store,
             "--log-level", "warning"},
            port_file,
            ServedProcess::PortFrom::file};
  }

  ServedProcess fastify_sqlite() {
    return {{"./node", "fastify_inbox.mjs", "sqlite", folder_.new_file()},
            folder_.new_file(),
            ServedProcess::PortFrom::output,
            peers_};
  }

  ServedProcess fastify_postgresql() {
    return {{"./node", "fastify_inbox.mjs", "postgresql", server_.url()},
            folder_.new_file(),
            ServedProcess::PortFrom::output,
            peers_};
  }

  std::string new_schema() {
    server_.settle_down();
    return fmt::format("{}?schema=http_{}&schema_deployment=on", server_.url(), ++schemas_);
  }

  void run_messages(const std::string& name, const ServedProcess& served) {
    series_[name].add(run_wrk({.script = script("post_messages.lua"),
                               .port = served.port(),
                               .connections = kConnections,
                               .seconds = seconds_}));
  }

  // A thread for each connection, so that a script knows the answer to its last request.
  void run_pairs(const std::string& name, const ServedProcess& served) {
    series_[name].add(run_wrk({.script = script("key_pairs.lua"),
                               .port = served.port(),
                               .connections = kConnections,
                               .threads = kConnections,
                               .seconds = seconds_}));
  }

  /// With connections that have asked for something once, and stay.
  double idle_memory() {
    const ServedProcess served = oncebox("sqlite:" + folder_.new_file());
    std::vector<int> sockets;
    sockets.reserve(kIdleConnections);
    for (int i = 0; i < kIdleConnections; ++i) sockets.push_back(connect_and_ask(served.port()));
    const double mebibytes = served.resident_mib();
    for (const int socket : sockets) close(socket);
    return mebibytes;
  }

  static int connect_and_ask(std::uint16_t port) {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char answer[1024];
    if (client < 0 ||
        connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        send(client, request.data(), request.size(), 0) < 0 ||
        recv(client, answer, sizeof answer, 0) <= 0) {
      throw std::runtime_error("cannot hold the idle connections; see ulimit -n");
    }
    return client;
  }

  void report() {
    Report report;
    const auto rate = [&](const std::string& name) { return median(series_.at(name).rates); };
    const auto p99 = [&](const std::string& name) { return median(series_.at(name).p99s); };
    report.add("empty-handler/post", rate("empty-handler/post"));
    report.add("raw-sqlite/post", rate("raw-sqlite/post"), "empty-handler/post");
    report.add("memory/post", rate("memory/post"), "empty-handler/post");
    report.add("sqlite/post", rate("sqlite/post"), "empty-handler/post");
    report.add("sqlite/post/against-raw", rate("sqlite/post"), "raw-sqlite/post");
    report.add("postgresql/post", rate("postgresql/post"), "empty-handler/post");
    if (!peers_.empty()) {
      report.add("fastify+sqlite/post", rate("fastify+sqlite/post"));
      report.add("sqlite/post/against-fastify", rate("sqlite/post"), "fastify+sqlite/post");
      report.add("fastify+pg/post", rate("fastify+pg/post"));
      report.add("postgresql/post/against-fastify", rate("postgresql/post"), "fastify+pg/post");
    }
    for (const auto& [name, series] : series_) report.add_time(name + "/p99", median(series.p99s));
    if (!peers_.empty()) {
      report.add_count("fastify+sqlite/post/p99-against-ours",
                       p99("fastify+sqlite/post") / p99("sqlite/post"), "times");
      report.add_count("fastify+pg/post/p99-against-ours",
                       p99("fastify+pg/post") / p99("postgresql/post"), "times");
    }
    for (const char* store : {"memory", "sqlite", "postgresql"}) {
      const std::string name = std::string(store) + "/try-begin+mark-processed";
      report.add(name, rate(name));
    }
    report.add_memory("server/1000-idle-connections", idle_memory());
    report.print_json();
  }

  int rounds_;
  int seconds_;
  std::string peers_;
  BenchFolder folder_;
  BenchPostgresql server_;
  int schemas_ = 0;
  std::map<std::string, Series> series_;
};

}  // namespace
}  // namespace oncebox::bench

int main(int argc, char** argv) {
  try {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
    const int seconds = argc > 2 ? std::atoi(argv[2]) : 6;
    oncebox::bench::HttpBench(rounds, seconds).run();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "bench_http: " << error.what() << '\n';
    return 1;
  }
}
