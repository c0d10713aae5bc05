// Testing a program on a PostgreSQL server of its own: the server crashes and comes back, and a
// PgBouncer stands between the two.

#include <iostream>
#include <string>

#include "oncebox/error.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/pgbouncer.hpp"
#include "oncebox/testing/postgresql_server.hpp"

namespace {

using namespace oncebox;

/// The code under test: says whether the sender has to come again.
void take_in(QueueStore& queue, const char* id) {
  try {
    const EnqueueOutcome outcome = queue.enqueue(Message{.key = {"shop", id}, .topic = "order"});
    std::cout << id << ": " << to_string(outcome.status) << '\n';
  } catch (const Error& error) {
    std::cout << id << ": " << (error.retryable() ? "come again" : error.what()) << '\n';
  }
}

}  // namespace

int main() {
  testing::PostgresqlServer server({.settings = {{"shared_buffers", "16MB"}}});
  postgresql::PostgresqlStore store(
      {.connection = server.url(), .schema_deployment = postgresql::SchemaDeployment::on});
  take_in(store.inbox(), "order-1");
  server.kill();
  take_in(store.inbox(), "order-2");
  server.start();
  take_in(store.inbox(), "order-2");
  take_in(store.inbox(), "order-1");

  // Two transactions of one client may run on two connections of the server.
  const testing::PgBouncer pooler(server);
  postgresql::PostgresqlStore pooled(
      {.connection = pooler.url(), .pooling = postgresql::Pooling::transaction});
  take_in(pooled.inbox(), "order-3");
  std::cout << store.inbox_operator().count({}) << " messages are there\n";
}
