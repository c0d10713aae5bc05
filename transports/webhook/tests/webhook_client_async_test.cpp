// Many requests at once, on the one thread of a client.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "answers.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/webhook/webhook_client.hpp"
#include "oncebox/webhook/webhook_delivery.hpp"

namespace oncebox::webhook {
namespace {

using namespace std::chrono_literals;
using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;
using Kind = Reaction::Kind;

class AsyncWebhookClient : public ::testing::Test {
 protected:
  /// Timeouts that no test reaches unless it means to.
  [[nodiscard]] static WebhookClientOptions many(std::size_t per_host = 16) {
    return {.connect_timeout = 1h, .timeout = 1h, .max_connections_per_host = per_host};
  }
  [[nodiscard]] static WebhookRequest to(const ScriptedServer& server) {
    return {.url = server.url(), .body = "{}", .allow_private = true};
  }

  Answers answers_;  // what the clients below tell when they are destroyed
  testing::ManualClock clock_;
  ScriptedServer quick_{[](const ReceivedRequest&) { return Reaction{}; }};
  ScriptedServer hangs_{[](const ReceivedRequest&) { return Reaction{.kind = Kind::hang}; }};
};

TEST_F(AsyncWebhookClient, ReceiverThatHangsHoldsUpNoOther) {
  constexpr std::size_t kEach = 500;
  {
    WebhookClient client(many(), clock_);
    for (std::size_t i = 0; i < kEach; ++i) {
      client.send(to(hangs_), answers_.record("slow"));
      client.send(to(quick_), answers_.record("quick"));
    }
    ASSERT_TRUE(answers_.wait_for(kEach, "quick"));
    EXPECT_EQ(answers_.count("slow"), 0U);
    EXPECT_LE(quick_.connections(), 16U);
    EXPECT_TRUE(hangs_.wait_for_requests(16));
    EXPECT_EQ(hangs_.connections(), 16U);
  }
  // Each has an answer, and one alone, from the one thread.
  ASSERT_EQ(answers_.all().size(), 2 * kEach);
  EXPECT_EQ(answers_.count("slow"), kEach);
  for (const auto& [name, answer] : answers_.all()) {
    EXPECT_EQ(answer.status, name == "quick" ? 200 : 0);
    EXPECT_EQ(answer.stopped, name == "slow");
    EXPECT_EQ(answer.failure, name == "slow" ? "stopped" : "");
  }
  EXPECT_EQ(answers_.threads(), 1U);
}

TEST_F(AsyncWebhookClient, HostsThatHangLeaveHalfOfTheConnectionsToOthers) {
  WebhookClientOptions few = many(4);
  few.max_connections = 4;
  WebhookClient client(few, clock_);
  for (int i = 0; i < 10; ++i) client.send(to(hangs_), answers_.record("slow"));
  ASSERT_TRUE(hangs_.wait_for_requests(2));
  for (int i = 0; i < 10; ++i) client.send(to(quick_), answers_.record("quick"));
  EXPECT_TRUE(answers_.wait_for(10, "quick"));
  EXPECT_EQ(hangs_.connections(), 2U);
}

TEST_F(AsyncWebhookClient, AGroupThatHangsLeavesConnectionsToOthers) {
  RecordProperty("requirement", "R-37");
  WebhookClientOptions few = many(4);
  few.max_connections = 4;
  WebhookClient client(few, clock_);
  WebhookRequest request = to(hangs_);
  request.group = "tenant one";
  for (int i = 0; i < 10; ++i) {
    request.lane = "endpoint " + std::to_string(i);
    client.send(request, answers_.record("slow"));
  }
  ASSERT_TRUE(hangs_.wait_for_requests(3));
  WebhookRequest other = to(quick_);
  other.group = "tenant two";
  for (int i = 0; i < 10; ++i) client.send(other, answers_.record("quick"));
  EXPECT_TRUE(answers_.wait_for(10, "quick"));
  EXPECT_EQ(hangs_.connections(), 3U);
}

TEST_F(AsyncWebhookClient, LanesOfOneHostHoldUpNoneOfEachOther) {
  ScriptedServer shared([](const ReceivedRequest& request) {
    return Reaction{.kind = request.target == "/hangs" ? Kind::hang : Kind::answer};
  });
  WebhookClient client(many(1), clock_);
  WebhookRequest slow = to(shared);
  slow.url += "/hangs";
  slow.lane = "tenant one";
  client.send(slow, answers_.record("slow"));
  ASSERT_TRUE(shared.wait_for_requests(1));
  WebhookRequest quick = to(shared);
  quick.lane = "tenant two";
  client.send(quick, answers_.record("quick"));
  EXPECT_EQ(answers_.of("quick").status, 200);
}

TEST_F(AsyncWebhookClient, RequestUnderWayCanBeCancelled) {
  WebhookClient client(many(), clock_);
  std::stop_source stop;
  client.send(to(hangs_), answers_.record("cancelled"), stop.get_token());
  client.send(to(hangs_), answers_.record("other"));
  ASSERT_TRUE(hangs_.wait_for_requests(2));
  stop.request_stop();
  EXPECT_TRUE(answers_.of("cancelled").stopped);
  EXPECT_TRUE(hangs_.wait_for_ends(1));
  EXPECT_EQ(answers_.count("other"), 0U);
}

TEST_F(AsyncWebhookClient, RequestThatWaitsCanBeCancelled) {
  WebhookClient client(many(1), clock_);
  client.send(to(hangs_), answers_.record("first"));
  ASSERT_TRUE(hangs_.wait_for_requests(1));
  std::stop_source stop;
  client.send(to(hangs_), answers_.record("second"), stop.get_token());
  stop.request_stop();
  EXPECT_TRUE(answers_.of("second").stopped);
  EXPECT_EQ(hangs_.connections(), 1U);
}

TEST_F(AsyncWebhookClient, RequestThatWasCancelledBeforeIsNotSent) {
  WebhookClient client(many(), clock_);
  std::stop_source stop;
  stop.request_stop();
  client.send(to(quick_), answers_.record("cancelled"), stop.get_token());
  EXPECT_TRUE(answers_.of("cancelled").stopped);
  EXPECT_TRUE(quick_.requests().empty());
}

TEST_F(AsyncWebhookClient, ManyCanBeCancelledWhileTheyEnd) {
  constexpr std::size_t kRequests = 200;
  std::vector<std::stop_source> stops(kRequests);
  {
    WebhookClient client(many(), clock_);
    for (const std::stop_source& stop : stops) {
      client.send(to(quick_), answers_.record("one"), stop.get_token());
    }
    for (std::stop_source& stop : stops) stop.request_stop();
    EXPECT_TRUE(answers_.wait_for(kRequests, "one"));
  }
  EXPECT_EQ(answers_.count("one"), kRequests);
}

TEST_F(AsyncWebhookClient, WaitForAConnectionEndsWithTheTimeout) {
  WebhookClient client(many(1), clock_);
  client.send(to(hangs_), answers_.record("first"));
  ASSERT_TRUE(hangs_.wait_for_requests(1));
  WebhookRequest second = to(hangs_);
  second.timeout = 30s;
  client.send(second, answers_.record("second"));
  client.send(to(quick_), answers_.record("quick"));  // then the second one waits, too
  ASSERT_EQ(answers_.of("quick").status, 200);
  clock_.advance(29s);
  EXPECT_EQ(answers_.count("second"), 0U);
  clock_.advance(2s);
  const WebhookAnswer answer = answers_.of("second");
  EXPECT_EQ(answer.status, 0);
  EXPECT_FALSE(answer.stopped);
  EXPECT_EQ(answer.failure, "no connection was free before the timeout");
  EXPECT_TRUE(answer.never_sent);
  EXPECT_THROW(require_accepted(answer, 1h), NotNow) << "it is no attempt";
  EXPECT_EQ(answers_.count("first"), 0U);
}

TEST_F(AsyncWebhookClient, RequestHasATimeoutOfItsOwn) {
  WebhookClient client(many(), clock_);
  WebhookRequest request = to(hangs_);
  request.timeout = 50ms;
  EXPECT_EQ(client.post(request).failure, "Timeout was reached");
}

TEST_F(AsyncWebhookClient, ConnectionsOfABurstAreKept) {
  WebhookClient client(many(8), clock_);
  const auto send_burst = [&](const std::string& name) {
    for (int i = 0; i < 100; ++i) client.send(to(quick_), answers_.record(name));
    EXPECT_TRUE(answers_.wait_for(100, name));
  };
  send_burst("first");
  send_burst("second");
  EXPECT_LE(quick_.connections(), 8U);  // those of the first burst, or less
}

TEST_F(AsyncWebhookClient, IdleConnectionsAreClosed) {
  WebhookClient client(many(), clock_);
  EXPECT_EQ(client.post(to(quick_)).status, 200);
  clock_.advance(44s);
  EXPECT_EQ(client.post(to(quick_)).status, 200);
  EXPECT_EQ(quick_.connections(), 1U);
  clock_.advance(46s);
  EXPECT_TRUE(quick_.wait_for_ends(1));
  EXPECT_EQ(client.post(to(quick_)).status, 200);
  EXPECT_EQ(quick_.connections(), 2U);
}

TEST_F(AsyncWebhookClient, AnswerMaySendTheNext) {
  WebhookClient client(many(), clock_);
  client.send(to(quick_),
              [&](const WebhookAnswer&) { client.send(to(quick_), answers_.record("next")); });
  EXPECT_EQ(answers_.of("next").status, 200);
  EXPECT_EQ(quick_.connections(), 1U);
}

TEST_F(AsyncWebhookClient, WhatCannotBeSentIsAnsweredToo) {
  WebhookClient client(many(), clock_);
  for (const char* const url : {"", "no address s3cret", "ftp://s3cret", "file:///etc/s3cret"}) {
    const WebhookAnswer answer = client.post({.url = url, .allow_private = true});
    EXPECT_EQ(answer.status, 0) << url;
    EXPECT_NE(answer.failure, "") << url;
    EXPECT_EQ(answer.failure.find("s3cret"), std::string::npos);
  }
}

TEST_F(AsyncWebhookClient, LargeBodyIsSentWhole) {
  const std::string body(3'000'000, 'x');
  WebhookClient client(many(), clock_);
  EXPECT_EQ(client.post({.url = quick_.url(), .body = body, .allow_private = true}).status, 200);
  EXPECT_EQ(quick_.requests().at(0).body, body);
}

TEST_F(AsyncWebhookClient, AnswerIsKeptForThoseWhoAsk) {
  ScriptedServer server([](const ReceivedRequest&) { return Reaction{.body = R"({"a": 1})"}; });
  WebhookClientOptions little = many();
  little.max_answer_bytes = 8;
  WebhookClient client(little, clock_);
  EXPECT_EQ(client.post(to(server)).body, "");
  WebhookRequest kept = to(server);
  kept.keep_answer = true;
  EXPECT_EQ(client.post(kept).body, R"({"a": 1})");
  EXPECT_FALSE(client.post(kept).is_cut);

  ScriptedServer longer([](const ReceivedRequest&) { return Reaction{.body = "0123456789"}; });
  kept.url = longer.url();
  const WebhookAnswer cut = client.post(kept);
  EXPECT_EQ(cut.status, 200);
  EXPECT_EQ(cut.body, "01234567");
  EXPECT_TRUE(cut.is_cut);
}

TEST_F(AsyncWebhookClient, FieldsOfTheConnectionAreNotTheCallers) {
  WebhookClient client(many(), clock_);
  WebhookRequest request = to(quick_);
  request.fields = {{"Host", "elsewhere"},
                    {"content-length", "1"},
                    {"Transfer-Encoding", "chunked"},
                    {"Connection", "close"},
                    {"Content-Type", "text/plain"},
                    {"X Bad", "1"},
                    {"X-Bad:", "1"},
                    {"", "1"},
                    {"Authorization", "Bearer abc"}};
  EXPECT_EQ(client.post(request).status, 200);
  const ReceivedRequest got = quick_.requests().at(0);
  EXPECT_EQ("http://" + got.fields.at("host"), quick_.url());
  EXPECT_EQ(got.fields.at("content-type"), "application/json");
  EXPECT_EQ(got.fields.at("content-length"), "2");
  EXPECT_EQ(got.fields.at("authorization"), "Bearer abc");
  EXPECT_EQ(got.body, "{}");
  for (const char* const name : {"transfer-encoding", "connection", "x bad", "x-bad", ""}) {
    EXPECT_FALSE(got.fields.contains(name)) << name;
  }
}

}  // namespace
}  // namespace oncebox::webhook
