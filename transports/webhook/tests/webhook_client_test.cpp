#include "oncebox/webhook/webhook_client.hpp"

#include <gtest/gtest.h>

#include <future>

#include "expect_error.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"

namespace oncebox::webhook {
namespace {

using namespace std::chrono_literals;
using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;
using Kind = Reaction::Kind;

class WebhookClientTest : public ::testing::Test {
 protected:
  /// For what a busy machine takes long to do.
  [[nodiscard]] static WebhookClientOptions patient() {
    return {.connect_timeout = 60s, .timeout = 60s};
  }
  [[nodiscard]] WebhookAnswer post(const std::string& url,
                                   const WebhookClientOptions& options = patient(),
                                   const std::stop_token& stop = {}) {
    WebhookClient client(options, clock_);
    return client.post({.url = url, .body = "{}", .allow_private = true}, stop);
  }
  [[nodiscard]] WebhookAnswer answered(const Reaction& reaction,
                                       const WebhookClientOptions& options = patient()) {
    ScriptedServer server([&](const ReceivedRequest&) { return reaction; });
    WebhookAnswer answer = post(server.url(), options);
    requests_ = server.requests();
    return answer;
  }

  testing::FakeClock clock_;
  std::vector<ReceivedRequest> requests_;
};

TEST_F(WebhookClientTest, TellsTheStatusAndWhatItMeans) {
  using enum WebhookAcceptance;
  const std::pair<int, WebhookAcceptance> meanings[] = {
      {200, taken},    {202, taken},    {204, taken},    {302, may_pass}, {307, may_pass},
      {400, refused},  {401, refused},  {403, refused},  {404, may_pass}, {405, may_pass},
      {408, may_pass}, {409, may_pass}, {410, gone},     {413, refused},  {422, refused},
      {425, may_pass}, {429, may_pass}, {500, may_pass}, {502, may_pass}, {503, may_pass},
  };
  for (const auto& [status, meaning] : meanings) {
    EXPECT_EQ(WebhookAnswer{.status = status}.acceptance(), meaning) << status;
  }
  EXPECT_EQ(WebhookAnswer{}.acceptance(), may_pass);
  EXPECT_EQ(answered({.status = 202}).status, 202);
}

TEST_F(WebhookClientTest, RedirectionIsNotFollowed) {
  ScriptedServer other([](const ReceivedRequest&) { return Reaction{}; });
  const WebhookAnswer answer = answered({.status = 307, .fields = {{"Location", other.url()}}});
  EXPECT_EQ(answer.status, 307);
  EXPECT_TRUE(other.requests().empty());
}

TEST_F(WebhookClientTest, RetryAfterIsRead) {
  EXPECT_EQ(answered({.status = 429, .fields = {{"Retry-After", "120"}}}).retry_after, 120s);
  EXPECT_FALSE(answered({.status = 429}).retry_after);
  EXPECT_FALSE(answered({.status = 429, .fields = {{"Retry-After", "soon"}}}).retry_after);
}

TEST_F(WebhookClientTest, LongAnswerIsNotReadToItsEnd) {
  // It has no end: without a limit this would wait for the timeout.
  const Reaction endless{.kind = Kind::stream, .status = 202, .body = std::string(10'000, 'x')};
  EXPECT_EQ(
      answered(endless, {.connect_timeout = 60s, .timeout = 60s, .max_answer_bytes = 1'000}).status,
      202);
}

TEST_F(WebhookClientTest, NobodyThereIsAFailureThatDoesNotNameTheAddress) {
  const std::string url = testing::dead_url() + "/hook-s3cret";
  const WebhookAnswer answer = post(url);
  EXPECT_EQ(answer.status, 0);
  EXPECT_FALSE(answer.failure.empty());
  EXPECT_EQ(answer.failure.find("s3cret"), std::string::npos);
}

TEST_F(WebhookClientTest, ReceiverThatHangsIsGivenUpAfterTheTimeout) {
  const WebhookAnswer answer = answered({.kind = Kind::hang}, {.timeout = 50ms});
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.failure, "Timeout was reached");
}

TEST_F(WebhookClientTest, StopEndsTheWait) {
  ScriptedServer server([](const ReceivedRequest&) { return Reaction{.kind = Kind::hang}; });
  std::stop_source stop;
  auto answer = std::async(std::launch::async, [&] {
    return post(server.url(), {.connect_timeout = 60s, .timeout = 1h}, stop.get_token());
  });
  ASSERT_TRUE(server.wait_for_requests(1));
  stop.request_stop();
  EXPECT_EQ(answer.get().status, 0);
}

TEST_F(WebhookClientTest, ConnectionIsKeptBetweenRequests) {
  ScriptedServer server([](const ReceivedRequest&) { return Reaction{}; });
  WebhookClient client(patient(), clock_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.post({.url = server.url(), .body = "{}", .allow_private = true}).status, 200);
  }
  EXPECT_EQ(server.connections(), 1U);
}

TEST_F(WebhookClientTest, BodyMayBeEmpty) {
  ScriptedServer server([](const ReceivedRequest&) { return Reaction{}; });
  WebhookClient client(patient(), clock_);
  EXPECT_EQ(client.post({.url = server.url(), .allow_private = true}).status, 200);
  EXPECT_EQ(server.requests().at(0).method, "POST");
  EXPECT_EQ(server.requests().at(0).body, "");
  EXPECT_EQ(client.post({.url = server.url(), .content_type = "", .allow_private = true}).status,
            200);
  EXPECT_FALSE(server.requests().at(1).fields.contains("content-type"));
}

TEST_F(WebhookClientTest, FieldCannotForgeAnother) {
  ScriptedServer server([](const ReceivedRequest&) { return Reaction{}; });
  WebhookClient client(patient(), clock_);
  const WebhookRequest request{.url = server.url(),
                               .body = "{}",
                               .fields = {{"X-One", "1\r\nX-Two: 2"}, {"X-Three", "3"}},
                               .allow_private = true};
  EXPECT_EQ(client.post(request).status, 200);
  const auto fields = server.requests().at(0).fields;
  EXPECT_FALSE(fields.contains("x-one"));
  EXPECT_FALSE(fields.contains("x-two"));
  EXPECT_EQ(fields.at("x-three"), "3");
}

TEST_F(WebhookClientTest, OptionsMustMakeSense) {
  const auto refused = [](const WebhookClientOptions& options) {
    return expect_error(ErrorCode::out_of_range, [&] { options.validate(); });
  };
  EXPECT_NE(refused({.connect_timeout = 0ms}).find("connect_timeout"), std::string::npos);
  EXPECT_NE(refused({.timeout = 2h}).find("timeout"), std::string::npos);
  EXPECT_NE(refused({.max_answer_bytes = 0}).find("max_answer_bytes"), std::string::npos);
}

}  // namespace
}  // namespace oncebox::webhook
