#include <libpq-fe.h>

#include <stdexcept>

#include "idle_spaces.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "oncebox/http/http_store.hpp"
#include "oncebox/log.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/postgresql/transaction.hpp"
#include "oncebox/server/server.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "recovery_fixture.hpp"
#include "test_space.hpp"

namespace oncebox {
namespace {

server::ServerOptions quiet_server() {
  server::ServerOptions options;
  options.listen.port = 0;
  options.auth.token_variable = "";
  // What it does by itself would come between the steps of a test.
  options.retention.interval = std::chrono::days{1};
  options.retention.reap_interval = std::chrono::days{1};
  options.access_log = server::AccessLog::off;
  options.io_threads = 1;
  options.call_threads = 4;
  return options;
}

/// A service in this process.
struct Service {
  explicit Service(const Clock& clock)
      : store(clock),
        server(quiet_server(), {{"main", store}}, {.logger = logger, .clock = clock}) {
    server.start();
  }

  memory::MemoryStore store;
  NullLogger logger;
  server::Server server;
};

// The first base is made before the store and outlives it.
class BehindService final : private Service, public ForwardingStore {
 public:
  explicit BehindService(const Clock& clock)
      : Service(clock),
        ForwardingStore(std::make_unique<http::HttpStore>(
            http::Options{.url = "http://127.0.0.1:" + std::to_string(server.port())})) {}
};

/// In a schema of its own.
class PostgresqlTable final : public OwnTable {
 public:
  PostgresqlTable() {
    space_.run("CREATE SCHEMA {schema}");
    space_.run("CREATE TABLE {schema}.own (id text PRIMARY KEY)");
  }
  bool insert(Transaction& transaction, const std::string& id) override {
    const std::string sql = "INSERT INTO " + space_.schema() + ".own VALUES ('" + id + "')";
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQexec(postgresql::connection_of(transaction), sql.c_str()), &PQclear);
    return PQresultStatus(result.get()) == PGRES_COMMAND_OK;
  }

 private:
  postgresql::TestSpace space_;
};

}  // namespace

std::vector<Backend> backends_under_test() { return {Backend::postgresql, Backend::http}; }

std::unique_ptr<Store> make_backend(Backend backend, const Clock& clock, const std::string& path) {
  switch (backend) {
    case Backend::memory:
      return std::make_unique<memory::MemoryStore>(clock);
    case Backend::sqlite:
      return std::make_unique<sqlite::SqliteStore>(sqlite::Options{.path = path}, clock);
    case Backend::postgresql:
      return postgresql::make_store_in_idle_space(clock);
    case Backend::http:
      return std::make_unique<BehindService>(clock);
  }
  throw std::logic_error("a backend without a store");
}

Backend database_under_test() { return Backend::postgresql; }

std::unique_ptr<OwnTable> make_own_table() { return std::make_unique<PostgresqlTable>(); }

}  // namespace oncebox
