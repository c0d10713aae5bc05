// A service on PostgreSQL: its own row and the message are committed together, on its own
// connection, and its stores share the connections that they may have to the server.
//
// It needs a PostgreSQL server. Without one that the tests have started it starts its own.

#include <libpq-fe.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/postgresql/connection_budget.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/postgresql/transaction.hpp"
#include "oncebox/testing/shared_postgresql.hpp"

namespace {

using namespace oncebox;

constexpr const char* kSchema = "example_postgresql_transaction";

/// The connection of a service, by whatever library it uses.
class Connection {
 public:
  explicit Connection(const std::string& url) : connection_(PQconnectdb(url.c_str()), &PQfinish) {}

  /// The first value of the answer; empty when there is none.
  std::string execute(const std::string& sql) {
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQexec(connection_.get(), sql.c_str()), &PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
      throw std::runtime_error(PQresultErrorMessage(result.get()));
    }
    return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
  }
  [[nodiscard]] PGconn* handle() const { return connection_.get(); }

 private:
  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

}  // namespace

int main() {
  const std::string& url = testing::shared_postgresql_url();
  const auto budget = std::make_shared<postgresql::ConnectionBudget>(10);
  const postgresql::Options options{.connection = url,
                                    .schema = kSchema,
                                    .schema_deployment = postgresql::SchemaDeployment::on,
                                    .budget = budget};
  postgresql::PostgresqlStore store(options);
  Connection service(url);
  service.execute("SET client_min_messages = warning");
  service.execute(std::string("SET search_path = ") + kSchema);
  service.execute("CREATE TABLE orders (id text PRIMARY KEY)");

  Outbox outbox(store, {.source = "shop"});
  postgresql::JoinedTransaction transaction(service.handle(), {.schema = kSchema});
  for (const char* end : {"ROLLBACK", "COMMIT"}) {
    service.execute("BEGIN");
    service.execute("INSERT INTO orders VALUES ('order-1')");
    outbox.enqueue({.topic = "order.placed", .payload = "order-1", .id = "placed-1"}, transaction);
    service.execute(end);
    std::cout << end << ": " << service.execute("SELECT count(*) FROM orders") << " orders, "
              << store.outbox_operator().count({}) << " messages\n";
  }

  Publishers publishers;
  publishers.on("order.*", [](const ClaimedMessage& claimed, HandlerContext&) {
    std::cout << "published " << claimed.message.key << '\n';
  });
  OutboxDispatcher dispatcher(store, publishers);
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = std::chrono::seconds{30}})) return 1;
  dispatcher.stop();
  std::cout << "within the budget: " << std::boolalpha << (budget->open() <= budget->connections())
            << '\n';

  service.execute(std::string("DROP SCHEMA ") + kSchema + " CASCADE");
}
