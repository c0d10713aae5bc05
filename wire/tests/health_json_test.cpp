// How it goes, on the wire.
#include "oncebox/wire/health_json.hpp"

#include <gtest/gtest.h>

namespace oncebox::wire {
namespace {

TEST(HealthJson, TellsTheStoresAndWhatWasFound) {
  EXPECT_EQ(write_health({}), R"({"status":"Healthy","stores":[],"findings":[]})");
  const TimePoint noon = parse_rfc3339("2026-01-31T12:00:00Z");
  const WatchdogReport report{
      .status = HealthStatus::degraded,
      .stores = {{"a", {}}, {"b", {HealthStatus::unavailable, "gone"}}},
      .findings = {{FindingCode::ready_late, "a", "inbox", Topic("mail"), noon, "late"},
                   {FindingCode::store_lagging, "b", {}, {}, noon, "slow"}}};
  EXPECT_EQ(write_health(report),
            R"({"status":"Degraded","detail":"store b: gone; a/inbox: late; b: slow",)"
            R"("stores":[{"name":"a","health":"Healthy"},)"
            R"({"name":"b","health":"Unavailable","detail":"gone"}],)"
            R"("findings":[{"code":"ReadyLate","store":"a","queue":"inbox","topic":"mail",)"
            R"("since":"2026-01-31T12:00:00.000Z","detail":"late"},)"
            R"({"code":"StoreLagging","store":"b","since":"2026-01-31T12:00:00.000Z",)"
            R"("detail":"slow"}]})");
}

TEST(HealthJson, ReadsWhatItWrote) {
  const TimePoint noon = parse_rfc3339("2026-01-31T12:00:00Z");
  const WatchdogReport report{
      .status = HealthStatus::degraded,
      .stores = {{"b", {HealthStatus::unavailable, "gone"}}},
      .findings = {{FindingCode::ready_late, "a", "inbox", Topic("mail"), noon, "late"}}};
  const ServiceHealth read = read_health(write_health(report, {HealthStatus::degraded, "no list"}));
  EXPECT_EQ(read.report.status, HealthStatus::degraded);
  ASSERT_EQ(read.report.stores.size(), 1U);
  EXPECT_EQ(read.report.stores.front().store, "b");
  EXPECT_EQ(read.report.stores.front().health.detail, "gone");
  EXPECT_EQ(read.report.findings, report.findings);
  EXPECT_EQ(read.discovery.detail, "no list");
  EXPECT_EQ(read_health(write_health({})).discovery.status, HealthStatus::healthy);
}

}  // namespace
}  // namespace oncebox::wire
