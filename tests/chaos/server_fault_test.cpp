// The server goes down, stands still, or is replaced by another one.

#include <fmt/format.h>

#include "chaos_fixture.hpp"

namespace oncebox::chaos {
namespace {

class ServerFault : public ChaosFixture {};

TEST_F(ServerFault, RestartLosesNothingAndWorkGoesOn) {
  RecordProperty("requirement", "IBX-013, IBX-105, IBX-106, R-14, R-15");
  PostgresqlServer server(durable());
  start_workers(server.url());
  const Instant since = instant_now();
  server.stop();
  expect_all_noticed(since);
  server.start();
  expect_work_goes_on();
  expect_nothing_lost(server.url());
}

TEST_F(ServerFault, CrashLosesNothingAndLeavesNoMessageWithTwoHolders) {
  RecordProperty("requirement", "IBX-013, IBX-105, IBX-106, R-14, R-15");
  // Commits wait before they are flushed: so there is always an answer, should one be given too
  // early, that a crash can disprove.
  PostgresqlServer server(durable({{"commit_delay", "5000"}, {"commit_siblings", "0"}}));
  start_workers(server.url());
  constexpr int kCrashes = 3;
  for (int crash = 0; crash < kCrashes; ++crash) {
    const Instant since = instant_now();
    server.kill();
    expect_all_noticed(since);
    server.start();
    expect_work_goes_on();
  }
  expect_nothing_lost(server.url());
}

TEST_F(ServerFault, PauseForLongerThanACallMayTakeLosesNothing) {
  RecordProperty("requirement", "IBX-013, IBX-105, IBX-106, R-14, R-15");
  PostgresqlServer server(durable());
  start_workers(server.url());
  const Instant since = instant_now();
  server.pause();
  expect_all_noticed(since);
  server.resume();
  expect_work_goes_on();
  expect_nothing_lost(server.url());
}

TEST_F(ServerFault, SynchronousStandbyTakesOverAndNothingIsLost) {
  RecordProperty("requirement", "IBX-013, IBX-105, IBX-106, R-14, R-15");
  PostgresqlServer server(durable());
  const std::unique_ptr<PostgresqlServer> standby = server.make_standby();
  start_workers(
      fmt::format("postgresql://postgres@127.0.0.1:{},127.0.0.1:{}/postgres"
                  "?target_session_attrs=read-write",
                  server.port(), standby->port()));
  const Instant since = instant_now();
  server.kill();
  expect_all_noticed(since);
  standby->promote();
  expect_work_goes_on();
  expect_nothing_lost(standby->url());
}

}  // namespace
}  // namespace oncebox::chaos
