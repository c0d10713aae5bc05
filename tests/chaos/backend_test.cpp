// The server lives, but ends the connections of the workers or has none for them.

#include <fmt/format.h>
#include <libpq-fe.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "chaos_fixture.hpp"

namespace oncebox::chaos {
namespace {

class Backend : public ChaosFixture {};

/// Somebody else who takes every connection that the server has, those of the workers, too.
class Hog {
 public:
  explicit Hog(const std::string& url) : url_(url + "?application_name=hog") {}

  /// Whether it has that many now. Needs some tries, until those of the workers are free.
  bool take(std::size_t all) {
    for (;;) {
      Connection connection(PQconnectdb(url_.c_str()), &PQfinish);
      if (PQstatus(connection.get()) != CONNECTION_OK) break;
      taken_.push_back(std::move(connection));
    }
    if (taken_.size() == all) return true;
    PQclear(PQexec(taken_.at(0).get(),
                   "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                   "WHERE backend_type = 'client backend' AND application_name <> 'hog'"));
    return false;
  }

 private:
  using Connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;

  std::string url_;
  std::vector<Connection> taken_;
};

TEST_F(Backend, TerminationLosesNothingAndWorkGoesOn) {
  RecordProperty("requirement", "IBX-013, IBX-102, IBX-105, IBX-106, R-14, R-15");
  PostgresqlServer server(durable());
  start_workers(server.url());
  const Instant since = instant_now();
  constexpr int kTerminations = 20;
  constexpr int kMostTerminations = 200;  // on a busy machine they may strike nobody for a while
  for (int n = 0; n < kTerminations || (failed_calls(since) == 0 && n < kMostTerminations); ++n) {
    server.execute(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
    expect_work_goes_on(5);
  }
  expect_work_goes_on();
  EXPECT_GT(failed_calls(since), 0U) << "nobody noticed";
  expect_nothing_lost(server.url());
}

TEST_F(Backend, ExhaustionLosesNothingAndWorkGoesOnWhenThereAreSomeAgain) {
  RecordProperty("requirement", "IBX-013, IBX-105, IBX-106, R-14, R-15");
  // Most of them are kept for superusers, such as the hog: so the workers do not get back what was
  // taken from them.
  constexpr std::size_t kConnections = 40;
  PostgresqlServer server(
      durable({{"max_connections", "40"}, {"superuser_reserved_connections", "25"}}));
  server.execute("CREATE ROLE app LOGIN; GRANT CREATE ON DATABASE postgres TO app");
  start_workers(fmt::format("postgresql://app@127.0.0.1:{}/postgres", server.port()));
  {
    Hog hog(server.url());
    wait_until("all connections to be taken", [&] { return hog.take(kConnections); });
    expect_all_noticed(instant_now());
  }
  expect_work_goes_on();
  expect_nothing_lost(server.url());
}

}  // namespace
}  // namespace oncebox::chaos
