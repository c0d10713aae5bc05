// What idempotency keys do while the service is out of reach.
#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "oncebox/http/http_store.hpp"
#include "oncebox/testing/scripted_server.hpp"

namespace oncebox::http {
namespace {

using testing::dead_url;
using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;

using namespace std::chrono_literals;

const LeaseId kGivenLease = LeaseId::parse("0190a0b0-0000-7000-8000-000000000002");

struct OpenStore {
  explicit OpenStore(const std::string& url)
      : store({.url = url,
               .connect_timeout = 60s,
               .call_timeout = 60s,
               .max_retries = 0,
               .on_unavailable = OnUnavailable::fail_open,
               .on_failed_open = [this](const FailedOpen& failed) {
                 calls.emplace_back(failed.call);
                 codes.push_back(failed.error.code());
               }}) {}

  std::vector<std::string> calls;
  std::vector<ErrorCode> codes;
  HttpStore store;
};

TEST(FailOpen, WorkGoesOnWithoutTheService) {
  OpenStore open(dead_url());
  IdempotencyStore& keys = open.store.keys();
  const TimePoint before = SystemClock::current();
  const BeginOutcome begun = keys.begin({.key = "k", .lease = 90s});
  EXPECT_EQ(begun.status, BeginStatus::acquired);
  EXPECT_EQ(begun.attempts, 1);
  ASSERT_TRUE(begun.lease_id);
  EXPECT_GE(begun.lease_until, before + 90s);
  EXPECT_FALSE(keys.is_processed("k"));
  EXPECT_EQ(keys.complete({.key = "k", .lease_id = begun.lease_id}), CompleteOutcome::processed);
  EXPECT_EQ(keys.fail({"k", kGivenLease, "no"}), FailOutcome::failed);
  EXPECT_EQ(keys.release({"k", kGivenLease}), ReleaseOutcome::released);
  EXPECT_GE(keys.extend({"k", kGivenLease, 60s}).lease_until, before + 60s);
  keys.mark_processed("k");
  EXPECT_EQ(open.calls, (std::vector<std::string>{"begin", "find", "complete", "fail", "release",
                                                  "extend", "complete"}))
      << "each is reported";
  EXPECT_EQ(open.codes, std::vector<ErrorCode>(7, ErrorCode::unavailable));
}

TEST(FailOpen, EveryAcquisitionHasALeaseOfItsOwn) {
  OpenStore open(dead_url());
  const std::vector<BeginRequest> requests = {{.key = "a"}, {.key = "a"}};
  const std::vector<BeginOutcome> outcomes = open.store.keys().begin(requests);
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_NE(outcomes[0].lease_id, outcomes[1].lease_id);
}

TEST(FailOpen, WhatTheServiceRefusesIsStillAnError) {
  ScriptedServer server([](const ReceivedRequest&) {
    return Reaction{.status = 400, .body = R"({"code":"invalid_argument","detail":"no"})"};
  });
  OpenStore open(server.url());
  expect_error(ErrorCode::invalid_argument, [&] { open.store.keys().begin({.key = "k"}); });
  EXPECT_TRUE(open.calls.empty());
}

TEST(FailOpen, QueuesAndCleanupsFailClosed) {
  OpenStore open(dead_url());
  expect_error(ErrorCode::unavailable,
               [&] { open.store.inbox().enqueue({.key = {"s", "m"}, .topic = "t"}); });
  expect_error(ErrorCode::unavailable, [&] { open.store.keys().cleanup(1); });
  EXPECT_TRUE(open.calls.empty());
}

TEST(FailOpen, ALeaseOfOurOwnIsCompletedUnconditionallyWhenTheServiceIsBack) {
  const LeaseId own = *OpenStore(dead_url()).store.keys().begin({.key = "k"}).lease_id;
  ScriptedServer server([](const ReceivedRequest& request) {
    const bool completes = request.target.ends_with("complete");
    return Reaction{.body = completes
                                ? R"({"results":[{"status":"Processed"},{"status":"LeaseLost"}]})"
                                : R"({"results":[{"status":"LeaseLost"}]})"};
  });
  HttpStore store({.url = server.url()});
  const std::vector<CompleteRequest> completions = {{.key = "k", .lease_id = own},
                                                    {.key = "l", .lease_id = kGivenLease}};
  EXPECT_EQ(store.keys().complete(completions),
            (std::vector{CompleteOutcome::processed, CompleteOutcome::lease_lost}));
  EXPECT_EQ(server.requests().at(0).body.find(own.to_string()), std::string::npos);
  EXPECT_NE(server.requests().at(0).body.find(kGivenLease.to_string()), std::string::npos);

  const std::vector<ReleaseRequest> releases = {{"k", own}, {"l", kGivenLease}, {"m", own}};
  EXPECT_EQ(store.keys().release(releases),
            (std::vector{ReleaseOutcome::released, ReleaseOutcome::lease_lost,
                         ReleaseOutcome::released}));
  EXPECT_EQ(store.keys().fail({"k", own, "no"}), FailOutcome::failed);
  EXPECT_TRUE(store.keys().extend({"k", own}).lease_until);
  EXPECT_EQ(server.requests().size(), 2U) << "the service does not know that lease";
}

TEST(FailClosed, IsTheDefault) {
  HttpStore store({.url = dead_url(), .max_retries = 0});
  IdempotencyStore& keys = store.keys();
  expect_error(ErrorCode::unavailable, [&] { keys.begin({.key = "k"}); });
  expect_error(ErrorCode::unavailable, [&] { (void)keys.is_processed("k"); });
  expect_error(ErrorCode::unavailable, [&] { keys.mark_processed("k"); });
}

}  // namespace
}  // namespace oncebox::http
