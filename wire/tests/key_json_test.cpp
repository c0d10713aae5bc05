// The bodies of the calls about idempotency keys: each as an example, written and read.
#include "oncebox/wire/key_json.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "noon.hpp"

namespace oncebox {

bool operator==(const BeginRequest& a, const BeginRequest& b) {
  return a.key == b.key && a.owner == b.owner && a.lease == b.lease && a.retention == b.retention &&
         a.on_failed == b.on_failed;
}
bool operator==(const BeginOutcome& a, const BeginOutcome& b) {
  return a.status == b.status && a.lease_id == b.lease_id && a.lease_until == b.lease_until &&
         a.attempts == b.attempts && a.result == b.result &&
         a.result_left_out == b.result_left_out && a.error == b.error;
}
bool operator==(const CompleteRequest& a, const CompleteRequest& b) {
  return a.key == b.key && a.lease_id == b.lease_id && a.result == b.result &&
         a.retention == b.retention;
}
bool operator==(const FailRequest& a, const FailRequest& b) {
  return a.key == b.key && a.lease_id == b.lease_id && a.error == b.error;
}
bool operator==(const ReleaseRequest& a, const ReleaseRequest& b) {
  return a.key == b.key && a.lease_id == b.lease_id;
}
bool operator==(const KeyExtension& a, const KeyExtension& b) {
  return a.key == b.key && a.lease_id == b.lease_id && a.lease == b.lease;
}

namespace wire {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

const LeaseId kLease = LeaseId::parse("0190a0b0-0000-7000-8000-000000000002");
constexpr std::string_view kLeaseJson = R"("0190a0b0-0000-7000-8000-000000000002")";
constexpr Duration kWeek = std::chrono::days{7};

TEST(InboxContractJson, TryBegin) {
  RecordProperty("requirement", "KIN-03");
  EXPECT_EQ(read_try_begin(R"({"key": "bus:group/a b é"})", kWeek),
            (BeginRequest{.key = "bus:group/a b é", .lease = 60s, .retention = kWeek}));
  EXPECT_EQ(read_try_begin(R"({"key": "k", "owner": "w1", "leaseSeconds": 300})", kWeek),
            (BeginRequest{.key = "k", .owner = "w1", .lease = 300s, .retention = kWeek}));
  for (const std::string seconds : {"0", "0.999", "300.001", "-1", "1e300"}) {
    expect_error(ErrorCode::out_of_range, [&] {
      (void)read_try_begin(R"({"key": "k", "leaseSeconds": )" + seconds + "}", kWeek);
    });
  }

  EXPECT_EQ(write_try_begin({.lease_id = kLease, .lease_until = kNoon, .attempts = 1}),
            R"({"status":"Acquired","leaseId":"0190a0b0-0000-7000-8000-000000000002",)"
            R"("expiresAt":"2026-01-31T12:00:00.000Z","leaseUntil":"2026-01-31T12:00:00.000Z"})");
  EXPECT_EQ(write_try_begin({.status = BeginStatus::processed, .result = "secret"}),
            R"({"status":"Processed"})");
  EXPECT_EQ(write_try_begin({.status = BeginStatus::busy, .lease_until = kNoon}),
            R"({"status":"Busy","expiresAt":"2026-01-31T12:00:00.000Z",)"
            R"("leaseUntil":"2026-01-31T12:00:00.000Z"})");
}

TEST(InboxContractJson, MarkProcessed) {
  RecordProperty("requirement", "KIN-04");
  const std::string with_lease = R"({"key":"k","leaseId":)"s + std::string(kLeaseJson) + "}";
  const std::string without = R"({"key":"k"})";
  for (const LeaseRule rule : {LeaseRule::optional, LeaseRule::required}) {
    EXPECT_EQ(read_mark_processed(with_lease, rule, kWeek),
              (CompleteRequest{.key = "k", .lease_id = kLease, .retention = kWeek}));
  }
  EXPECT_EQ(read_mark_processed(without, LeaseRule::optional, kWeek),
            (CompleteRequest{.key = "k", .retention = kWeek}));
  EXPECT_EQ(expect_error(ErrorCode::invalid_argument,
                         [&] { (void)read_mark_processed(without, LeaseRule::required, kWeek); }),
            "leaseId: this server marks a key only under its lease");
  EXPECT_EQ(write_mark_processed(CompleteOutcome::processed), R"({"status":"Processed"})");
  EXPECT_EQ(write_mark_processed(CompleteOutcome::lease_lost), R"({"status":"LeaseLost"})");
}

TEST(InboxContractJson, Release) {
  RecordProperty("requirement", "KIN-05");
  EXPECT_EQ(read_release(R"({"key":"k","leaseId":)"s + std::string(kLeaseJson) + "}"),
            (ReleaseRequest{.key = "k", .lease_id = kLease}));
  EXPECT_EQ(write_release(ReleaseOutcome::released), R"({"status":"Released"})");
  EXPECT_EQ(write_release(ReleaseOutcome::lease_lost), R"({"status":"LeaseLost"})");
  EXPECT_EQ(write_release(ReleaseOutcome::processed), R"({"status":"Processed"})");
  EXPECT_EQ(write_release(ReleaseOutcome::unknown), R"({"status":"Unknown"})");
}

TEST(InboxContractJson, KeyStatus) {
  RecordProperty("requirement", "KIN-06");
  EXPECT_EQ(write_key_status({}), R"({"status":"Unknown","attempts":0})");
  EXPECT_EQ(write_key_status(KeyRecord{.key = "k",
                                       .attempts = 2,
                                       .first_seen_at = kNoon,
                                       .last_seen_at = kNoon + 1s,
                                       .lease_until = kNoon + 60s}),
            R"({"status":"InProgress","attempts":2,"firstSeen":"2026-01-31T12:00:00.000Z",)"
            R"("lastSeen":"2026-01-31T12:00:01.000Z","leaseUntil":"2026-01-31T12:01:00.000Z"})");
}

TEST(KeyJson, BeginsAreWrittenAndRead) {
  const std::vector<BeginRequest> requests = {{.key = "a"},
                                              {.key = "b",
                                               .owner = "w",
                                               .lease = 1500ms,
                                               .retention = kWeek,
                                               .on_failed = FailedKeyPolicy::suppress}};
  EXPECT_EQ(write_begins(requests),
            R"({"items":[{"key":"a","leaseSeconds":60,"onFailed":"Retry"},)"
            R"({"key":"b","owner":"w","leaseSeconds":1.5,"retentionSeconds":604800,)"
            R"("onFailed":"Suppress"}]})");
  const std::vector<BeginRequest> read = read_begins(write_begins(requests), 24h);
  EXPECT_EQ(read.front(), (BeginRequest{.key = "a", .retention = 24h})) << "the reader's own";
  EXPECT_EQ(read.back(), requests.back());

  const std::vector<BeginOutcome> outcomes = {
      {.lease_id = kLease, .lease_until = kNoon, .attempts = 1},
      {.status = BeginStatus::processed, .attempts = 2, .result = "\xff\0"s},
      {.status = BeginStatus::processed, .attempts = 2, .result = ""},
      {.status = BeginStatus::processed, .attempts = 2, .result_left_out = true},
      {.status = BeginStatus::busy, .lease_until = kNoon, .attempts = 3},
      {.status = BeginStatus::failed, .attempts = 4, .error = "no"}};
  EXPECT_EQ(read_begun(write_begun(outcomes)), outcomes);
  EXPECT_EQ(write_begun(std::span(outcomes).subspan(2, 2)),
            R"({"results":[{"status":"Processed","attempts":2,"resultBase64":""},)"
            R"({"status":"Processed","attempts":2,"resultLeftOut":true}]})");
}

TEST(KeyJson, CompletionsAreWrittenAndRead) {
  const std::vector<CompleteRequest> requests = {
      {.key = "a"}, {.key = "b", .lease_id = kLease, .result = "\xff\0"s, .retention = kWeek}};
  EXPECT_EQ(write_completions(requests),
            R"({"items":[{"key":"a"},{"key":"b",)"
            R"("leaseId":"0190a0b0-0000-7000-8000-000000000002","resultBase64":"/wA=",)"
            R"("retentionSeconds":604800}]})");
  const std::vector<CompleteRequest> read = read_completions(write_completions(requests), 24h);
  EXPECT_EQ(read.front(), (CompleteRequest{.key = "a", .retention = 24h})) << "the reader's own";
  EXPECT_EQ(read.back(), requests.back());

  const std::vector<CompleteOutcome> outcomes = {CompleteOutcome::processed,
                                                 CompleteOutcome::lease_lost};
  EXPECT_EQ(write_completed(outcomes),
            R"({"results":[{"status":"Processed"},{"status":"LeaseLost"}]})");
  EXPECT_EQ(read_completed(write_completed(outcomes)), outcomes);
}

TEST(KeyJson, FailuresAreWrittenAndRead) {
  const std::vector<FailRequest> requests = {{"a", kLease, "no"}, {"b", kLease, ""}};
  EXPECT_EQ(read_key_failures(write_key_failures(requests)), requests);
  const std::vector<FailOutcome> outcomes = {FailOutcome::failed, FailOutcome::lease_lost};
  EXPECT_EQ(write_keys_failed(outcomes),
            R"({"results":[{"status":"Failed"},{"status":"LeaseLost"}]})");
  EXPECT_EQ(read_keys_failed(write_keys_failed(outcomes)), outcomes);
}

TEST(KeyJson, ReleasesAreWrittenAndRead) {
  const std::vector<ReleaseRequest> requests = {{"a", kLease}};
  EXPECT_EQ(read_key_releases(write_key_releases(requests)), requests);
  const std::vector<ReleaseOutcome> outcomes = {ReleaseOutcome::released,
                                                ReleaseOutcome::lease_lost,
                                                ReleaseOutcome::processed, ReleaseOutcome::unknown};
  EXPECT_EQ(read_keys_released(write_keys_released(outcomes)), outcomes);
}

TEST(KeyJson, ExtensionsAreWrittenAndRead) {
  const std::vector<KeyExtension> items = {{"a", kLease, 90s}};
  EXPECT_EQ(read_key_extensions(write_key_extensions(items)), items);
  const std::vector<KeyExtendOutcome> outcomes = {{kNoon}, {}};
  EXPECT_EQ(write_keys_extended(outcomes),
            R"({"results":[{"status":"Extended","leaseUntil":"2026-01-31T12:00:00.000Z"},)"
            R"({"status":"LeaseLost"}]})");
  EXPECT_EQ(read_keys_extended(write_keys_extended(outcomes)), outcomes);
}

TEST(KeyJson, RecordsAreWrittenAndRead) {
  const std::vector<IdempotencyKey> keys = {"a", "ü/:"};
  EXPECT_EQ(write_key_names(keys), R"({"keys":["a","ü/:"]})");
  EXPECT_EQ(read_key_names(write_key_names(keys)), keys);

  const std::vector<std::optional<KeyRecord>> records = {std::nullopt,
                                                         KeyRecord{.key = "a",
                                                                   .status = KeyStatus::processed,
                                                                   .attempts = 1,
                                                                   .first_seen_at = kNoon,
                                                                   .last_seen_at = kNoon + 1s,
                                                                   .owner = "w",
                                                                   .lease_until = kNoon + 2s,
                                                                   .keep_until = kNoon + 3s,
                                                                   .result = "\xff"},
                                                         KeyRecord{.key = "b",
                                                                   .status = KeyStatus::failed,
                                                                   .first_seen_at = kNoon,
                                                                   .last_seen_at = kNoon,
                                                                   .keep_until = kNoon,
                                                                   .error = "no"}};
  const std::string json = write_key_records({.records = records});
  EXPECT_TRUE(json.starts_with(
      R"({"results":[{"status":"Unknown","attempts":0},)"
      R"({"key":"a","status":"Processed","attempts":1,)"
      R"("firstSeen":"2026-01-31T12:00:00.000Z","lastSeen":"2026-01-31T12:00:01.000Z","owner":"w",)"
      R"("leaseUntil":"2026-01-31T12:00:02.000Z","keepUntil":"2026-01-31T12:00:03.000Z",)"
      R"("resultBase64":"/w=="},)"))
      << json;
  EXPECT_EQ(read_key_records(json).records, records);
  EXPECT_FALSE(read_key_records(json).truncated);
  EXPECT_TRUE(
      read_key_records(write_key_records({.records = records, .truncated = true})).truncated);
}

TEST(KeyJson, ALimitIsWrittenAndRead) {
  EXPECT_EQ(write_limit(5), R"({"limit":5})");
  EXPECT_EQ(read_limit(write_limit(5)), 5U);
  EXPECT_EQ(read_limit("{}"), 1'000U);
}

}  // namespace
}  // namespace wire
}  // namespace oncebox
