// Receivers that do what no good one does: whatever it is, it ends, and says what it was.

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/webhook/webhook_client.hpp"
#include "watched.hpp"

namespace oncebox::webhook {
namespace {

using namespace std::chrono_literals;
using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;
using Kind = Reaction::Kind;

const std::string kGoodAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

class HostileReceiver : public ::testing::Test {
 protected:
  [[nodiscard]] WebhookAnswer post(const Reaction& reaction, Duration timeout = 60s) {
    reaction_.change([&](Reaction& current) { current = reaction; });
    return client_.post({.url = server_.url(),
                         .body = "{}",
                         .allow_private = true,
                         .timeout = timeout,
                         .keep_answer = true});
  }
  [[nodiscard]] WebhookAnswer post_raw(const std::string& answer, Duration timeout = 60s) {
    return post({.kind = Kind::raw, .body = answer}, timeout);
  }
  [[nodiscard]] std::optional<Duration> retry_after(const std::string& value) {
    return post({.status = 503, .fields = {{"Retry-After", value}}}).retry_after;
  }

  testing::FakeClock clock_;
  Watched<Reaction> reaction_;
  ScriptedServer server_{[this](const ReceivedRequest&) { return reaction_.get(); }};
  WebhookClient client_{{.connect_timeout = 60s, .max_answer_bytes = 1'000}, clock_};
};

TEST_F(HostileReceiver, ConnectionThatIsResetIsAFailure) {
  for (const Kind kind : {Kind::reset, Kind::hang_up, Kind::cut_off}) {
    const WebhookAnswer answer = post({.kind = kind});
    EXPECT_EQ(answer.status, 0);
    EXPECT_NE(answer.failure, "");
    EXPECT_EQ(answer.acceptance(), WebhookAcceptance::may_pass);
  }
}

TEST_F(HostileReceiver, AnswerByteByByteDoesNotOutlastTheTimeout) {
  // It would take ten minutes, and something comes all the time.
  const std::string endless = kGoodAnswer.substr(0, 17) + "X: " + std::string(60'000, 'x');
  const auto begin = std::chrono::steady_clock::now();
  const WebhookAnswer answer = post({.kind = Kind::drip, .body = endless, .pause = 10ms}, 200ms);
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.failure, "Timeout was reached");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
  EXPECT_TRUE(server_.wait_for_ends(1));
}

TEST_F(HostileReceiver, SlowAnswerThatComesInTimeIsTaken) {
  EXPECT_EQ(post({.kind = Kind::drip, .body = kGoodAnswer, .pause = 1ms}).status, 200);
}

TEST_F(HostileReceiver, LengthThatPromisesMoreEndsWithTheTimeout) {
  const std::string lie = "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{}";
  EXPECT_EQ(post_raw(lie, 100ms).failure, "Timeout was reached");
}

TEST_F(HostileReceiver, LengthBeyondAllNumbersIsAFailure) {
  EXPECT_EQ(
      post_raw("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}", 100ms).status,
      0);
}

TEST_F(HostileReceiver, WhatComesBehindAnAnswerIsNotTheNextOne) {
  EXPECT_EQ(post_raw(kGoodAnswer + "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n").status, 200);
  EXPECT_EQ(post({.status = 202}).status, 202);
}

TEST_F(HostileReceiver, HeadThatIsTooLongIsAFailure) {
  std::string head = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 100; ++i) head += "X: " + std::string(1'000, 'x') + "\r\n";
  EXPECT_EQ(post_raw(head + "\r\n{}").failure, "the head of the answer is too long");
}

TEST_F(HostileReceiver, WhatIsNotHttpIsAFailure) {
  for (const char* const answer :
       {"SSH-2.0-OpenSSH_9.2\r\n", "{}\r\n\r\n", "HTTP/9.9 200\r\n\r\n"}) {
    const WebhookAnswer got = post_raw(answer, 200ms);
    EXPECT_EQ(got.status, 0) << answer;
    EXPECT_NE(got.failure, "") << answer;
  }
}

TEST_F(HostileReceiver, EndlessBodyIsCutAtTheBound) {
  const WebhookAnswer answer = post({.kind = Kind::stream, .body = std::string(10'000, 'x')});
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.is_cut);
  EXPECT_EQ(answer.body, std::string(1'000, 'x'));
}

TEST_F(HostileReceiver, AnswersOnTheWayDoNotCount) {
  const WebhookAnswer answer = post_raw(
      "HTTP/1.1 103 Early Hints\r\nRetry-After: 5\r\n\r\n"
      "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(answer.status, 503);
  EXPECT_FALSE(answer.retry_after);
}

TEST_F(HostileReceiver, RetryAfterIsReadAsSeconds) {
  EXPECT_EQ(retry_after("120"), 120s);
  EXPECT_EQ(retry_after("99999999999999999999999"), std::chrono::days{365});
  for (const char* const nothing : {"0", "-5", "soon", "1.5", "12 monkeys"}) {
    EXPECT_EQ(retry_after(nothing), std::nullopt) << nothing;
  }
}

TEST_F(HostileReceiver, RetryAfterIsReadAsADate) {
  // The three forms of RFC 9110. It is the year 2026 by the clock, whatever the machine says.
  EXPECT_EQ(retry_after("Thu, 01 Jan 2026 00:02:00 GMT"), 120s);
  EXPECT_EQ(retry_after("Thursday, 01-Jan-26 00:02:00 GMT"), 120s);
  EXPECT_EQ(retry_after("Thu Jan  1 00:02:00 2026"), 120s);
  EXPECT_EQ(retry_after("Wed, 01 Jan 2036 00:00:00 GMT"), std::chrono::days{365});
  for (const char* const nothing :
       {"Wed, 31 Dec 2025 23:59:59 GMT", "Thu, 01 Jan 2026 00:00:00 GMT", "Thu, 99 Foo 2026"}) {
    EXPECT_EQ(retry_after(nothing), std::nullopt) << nothing;
  }
}

}  // namespace
}  // namespace oncebox::webhook
