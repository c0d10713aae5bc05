// What one dispatcher over 50 databases of one PostgreSQL server costs while nothing happens in any
// of them, measured for a minute: here, and in connections of the server.

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "bench_postgresql.hpp"
#include "figure.hpp"
#include "many_stores.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "process_usage.hpp"

namespace oncebox::bench {
namespace {

void run(Report& report, std::size_t count) {
  BenchPostgresql server;
  std::vector<StoreLocation> locations;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("tenant_{:02}", i);
    server.execute("CREATE DATABASE " + name);
    locations.push_back({name, server.url(name)});
  }
  NullLogger logger;
  StoreSet stores(
      std::move(locations),
      [](const StoreLocation& location) -> std::unique_ptr<Store> {
        return std::make_unique<postgresql::PostgresqlStore>(postgresql::Options{
            .connection = location.url, .schema_deployment = postgresql::SchemaDeployment::on});
      },
      {.open_wait = std::chrono::minutes{10}}, {.logger = logger});
  const std::string name = fmt::format("postgresql/{}-idle-databases", count);
  measure_idle(report, name, stores, std::chrono::seconds{60});
  const std::string connections =
      server.execute("SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'tenant%'");
  report.add_count(name + "/connections", std::strtod(connections.c_str(), nullptr), "connections");
}

}  // namespace
}  // namespace oncebox::bench

// Argument: databases (50).
int main(int argc, char** argv) {
  oncebox::bench::Report report;
  oncebox::bench::run(report, argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 50);
  report.print_json();
}
