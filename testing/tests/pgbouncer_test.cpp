#include "oncebox/testing/pgbouncer.hpp"

#include <gtest/gtest.h>

#include "program_output.hpp"

namespace oncebox::testing {
namespace {

TEST(PgBouncer, PoolsTheConnectionsOfAServerByTransaction) {
  const PostgresqlServer server;
  const PgBouncer bouncer(server, {{"default_pool_size", "1"}});
  const std::string backend = psql(bouncer.url(), "SELECT pg_backend_pid()");
  EXPECT_GT(std::stoi(backend), 0) << bouncer.log();
  EXPECT_EQ(psql(bouncer.url(), "SELECT pg_backend_pid()"), backend);
  EXPECT_EQ(psql(bouncer.url("pgbouncer"), "SHOW LISTS").find("databases"), 0U);
}

}  // namespace
}  // namespace oncebox::testing
