// What ends a call over HTTP at its limit, and what can be said then.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "expect_error.hpp"
#include "oncebox/http/http_store.hpp"
#include "oncebox/testing/scripted_server.hpp"

namespace oncebox::http {
namespace {

using namespace std::chrono_literals;
using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;
using LimitedCall = std::function<void(Store&, const CallOptions&)>;

const OwnerToken kWorker = OwnerToken::parse("0190a0b0-0000-7000-8000-000000000001");

/// A server that reacts to everything alike.
class HttpLimits : public ::testing::Test {
 protected:
  explicit HttpLimits(Reaction reaction = {.kind = Reaction::Kind::hang})
      : server_([reaction](const ReceivedRequest&) { return reaction; }) {}

  [[nodiscard]] Options options() const {
    return {.url = server_.url(), .connect_timeout = 60s, .call_timeout = 60s, .retry_pause = 1ms};
  }

  /// Requests a stop of the call as soon as the server has so many requests.
  void expect_when_stopped(ErrorCode code, const LimitedCall& call, std::size_t requests = 1) {
    HttpStore store(options());
    const std::size_t before = server_.requests().size();
    std::stop_source stop;
    const std::jthread stopper([&] {
      EXPECT_TRUE(server_.wait_for_requests(before + requests));
      stop.request_stop();
    });
    expect_error(code, [&] { call(store, {.stop = stop.get_token()}); });
  }

  ScriptedServer server_;
};

const LimitedCall kFind = [](Store& store, const CallOptions& call) {
  (void)store.inbox().find(MessageKey{"shop", "a"}, call);
};
const LimitedCall kClaim = [](Store& store, const CallOptions& call) {
  (void)store.inbox().claim({.owner = kWorker}, call);
};
const LimitedCall kEnqueue = [](Store& store, const CallOptions& call) {
  store.inbox().enqueue({.key = {"shop", "a"}, .topic = "t"}, {}, call);
};

TEST_F(HttpLimits, AStopEndsAReadThatIsNotAnswered) {
  RecordProperty("requirement", "R-36");
  expect_when_stopped(ErrorCode::cancelled, kFind);
  EXPECT_TRUE(server_.wait_for_ends(1)) << "the connection is closed, so that the server knows";
}

TEST_F(HttpLimits, AChangeThatWasSentAndIsStoppedIsUnknown) {
  RecordProperty("requirement", "R-36");
  expect_when_stopped(ErrorCode::outcome_unknown, kClaim);
  expect_when_stopped(ErrorCode::outcome_unknown, kEnqueue);
}

TEST_F(HttpLimits, TheDeadlineOfACallCountsBeforeTheTimeoutOfTheStore) {
  RecordProperty("requirement", "R-36");
  HttpStore store(options());
  expect_error(ErrorCode::timeout, [&] { kFind(store, CallOptions::within(20ms)); });
  // On a busy machine the time may be over before anything was sent.
  ErrorCode code = ErrorCode::timeout;
  while (code == ErrorCode::timeout) {
    try {
      kClaim(store, CallOptions::within(50ms));
    } catch (const Error& error) {
      code = error.code();
    }
  }
  EXPECT_EQ(code, ErrorCode::outcome_unknown);
}

TEST_F(HttpLimits, AWaitForAConnectionEnds) {
  RecordProperty("requirement", "R-36");
  Options one = options();
  one.max_connections = 1;
  HttpStore store(one);
  std::stop_source stop;
  std::jthread holder([&] {
    expect_error(ErrorCode::cancelled, [&] { kFind(store, {.stop = stop.get_token()}); });
  });
  ASSERT_TRUE(server_.wait_for_requests(1));
  expect_error(ErrorCode::timeout, [&] { kClaim(store, CallOptions::within(5ms)); });
  std::stop_source second_stop;
  std::jthread stopper([&] { second_stop.request_stop(); });
  expect_error(ErrorCode::cancelled, [&] { kClaim(store, {.stop = second_stop.get_token()}); });
  EXPECT_EQ(server_.requests().size(), 1U) << "the claims were never sent";
  stop.request_stop();
}

TEST_F(HttpLimits, ACallerInAHurryIsNotToldToGoOnWithoutTheService) {
  RecordProperty("requirement", "R-36");
  Options open = options();
  open.on_unavailable = OnUnavailable::fail_open;
  HttpStore store(open);
  std::stop_source stop;
  const std::jthread stopper([&] {
    EXPECT_TRUE(server_.wait_for_requests(1));
    stop.request_stop();
  });
  expect_error(ErrorCode::outcome_unknown,
               [&] { store.keys().begin({.key = "a"}, {.stop = stop.get_token()}); });
}

/// A server that always says that it has too much to do.
class HttpRetryLimits : public HttpLimits {
 protected:
  HttpRetryLimits()
      : HttpLimits({.status = 503, .body = R"({"code":"overloaded","detail":"as told"})"}) {}
};

TEST_F(HttpRetryLimits, AStopEndsThePauseBeforeTheNextTry) {
  RecordProperty("requirement", "R-36");
  Options patient = options();
  patient.retry_pause = 500ms;
  patient.max_retries = 10;
  HttpStore store(patient);
  std::stop_source stop;
  const std::jthread stopper([&] {
    EXPECT_TRUE(server_.wait_for_requests(1));
    stop.request_stop();
  });
  // One that reads: the stop may come before the answer has.
  expect_error(ErrorCode::cancelled, [&] { kFind(store, {.stop = stop.get_token()}); });
}

TEST_F(HttpRetryLimits, ThereIsNoTryForWhichTheTimeDoesNotSuffice) {
  RecordProperty("requirement", "R-36");
  Options patient = options();
  patient.retry_pause = 1s;
  patient.max_retries = 10;
  HttpStore store(patient);
  try {
    kClaim(store, CallOptions::within(400ms));
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    // What the server said, unless the machine was too busy to hear it.
    EXPECT_TRUE(error.code() == ErrorCode::overloaded || error.code() == ErrorCode::timeout ||
                error.code() == ErrorCode::outcome_unknown)
        << error.what();
  }
  EXPECT_LE(server_.requests().size(), 1U);
}

}  // namespace
}  // namespace oncebox::http
