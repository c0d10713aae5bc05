#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/postgresql_server.hpp"

namespace oncebox::bench {

/// A server of the benchmark's own, with the memory of a small production server. Every commit is
/// flushed to the disk that is measured: below ONCEBOX_BENCH_DIR, or where temporary files go.
class BenchPostgresql {
 public:
  explicit BenchPostgresql(std::vector<testing::PostgresqlSetting> more_settings = {})
      : server_(options(std::move(more_settings))) {}

  [[nodiscard]] std::string url(const std::string& database = "postgres") const {
    return server_.url(database);
  }

  std::string execute(const std::string& sql, const std::string& database = "postgres") {
    return server_.execute(sql, database);
  }

  /// How to open a store on tables that do not exist yet.
  [[nodiscard]] postgresql::Options new_store(const std::string& database = "postgres") {
    return {.connection = url(database),
            .schema = "bench_" + std::to_string(++schemas_),
            .schema_deployment = postgresql::SchemaDeployment::on};
  }

  void drop(const postgresql::Options& store) {
    execute("DROP SCHEMA " + store.schema + " CASCADE");
  }

  /// Does now what the server would otherwise do while something is measured.
  void settle_down(const std::string& database = "postgres") {
    execute("VACUUM ANALYZE", database);
    execute("CHECKPOINT", database);
  }

 private:
  static testing::PostgresqlServerOptions options(
      std::vector<testing::PostgresqlSetting> more_settings) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
    const char* const folder = std::getenv("ONCEBOX_BENCH_DIR");
    testing::PostgresqlServerOptions options{.durable = true,
                                             .settings = {{"shared_buffers", "1GB"},
                                                          {"max_wal_size", "8GB"},
                                                          {"checkpoint_timeout", "15min"},
                                                          {"jit", "off"},
                                                          {"max_connections", "200"}},
                                             .folder = folder != nullptr ? folder : ""};
    options.settings.insert(options.settings.end(), more_settings.begin(), more_settings.end());
    return options;
  }

  testing::PostgresqlServer server_;
  int schemas_ = 0;
};

}  // namespace oncebox::bench
