// Messages of an outbox that a program or another server sends as webhooks, to a server that checks
// their signatures.

#include "oncebox/webhook/webhook_publisher.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "environment_variable.hpp"
#include "oncebox/error.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/server/server.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "raw_client.hpp"
#include "watched.hpp"

namespace oncebox::server {
namespace {

constexpr const char* kPublisherSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr const char* kOtherSecret = "whsec_d3Jvbmcgc2VjcmV0IHdyb25nIHNlY3JldA==";

class WebhookPublisherToServer : public ::testing::Test {
 protected:
  void start(const TlsOptions& tls = {}) {
    ServerOptions options = any_port();
    options.tls = tls;
    options.webhooks = {{.name = "shop",
                         .scheme = WebhookScheme::standard_webhooks,
                         .secrets = {kPublisherSecret},
                         .topic = "{header:Oncebox-Topic}"}};
    receiver_.emplace(options, std::vector<NamedStore>{{"main", store_}},
                      Surroundings{.logger = quiet_, .clock = clock_});
    receiver_->start();
  }
  [[nodiscard]] webhook::WebhookPublisherOptions options(const std::string& scheme) const {
    const std::string port = std::to_string(receiver_->port());
    return {.endpoints = {{.url = scheme + "://localhost:" + port + "/v1/webhooks/shop",
                           .secrets = {kPublisherSecret},
                           .allow_private = true}}};
  }
  static void publish(const webhook::WebhookPublisherOptions& options) {
    webhook::WebhookPublisher publisher(options);
    const ClaimedMessage message{
        .message = {.key = {"shop", "paid-1"}, .topic = "order.paid", .payload = R"({"order":1})"},
        .history = {},
        .owner = OwnerToken::generate()};
    HandlerContext context(message, {});
    publisher.publish(message, context);
  }
  /// Lets a server publish a message of this id by these options.
  void publish_by_server(const std::string& id, const PublishOptions& options) {
    sender_.outbox().enqueue(
        Message{.key = {"shop", MessageId(id)}, .topic = "order.paid", .payload = "{}"});
    ServerOptions server = any_port();
    server.publish = options;
    publisher_.emplace(server, std::vector<NamedStore>{{"main", sender_}},
                       Surroundings{.logger = quiet_, .clock = clock_});
    publisher_->start();
  }
  [[nodiscard]] PublishEndpoint endpoint(const std::string& url) const {
    return {.name = "crm", .url = url, .secrets = {std::string("literal:") + kPublisherSecret}};
  }
  /// Whether the delivery of this message fails, for a reason with this text.
  [[nodiscard]] bool fails(const std::string& id, const std::string& reason) {
    return eventually([&] {
      const auto delivery = sender_.deliveries().find(MessageKey{"shop", MessageId(id + "@crm")});
      return delivery && delivery->history.last_error.value_or("").find(reason) != reason.npos;
    });
  }
  [[nodiscard]] std::vector<MessageRecord> received() {
    return store_.inbox_operator().list({.payloads = ListPayloads::include}).records;
  }

  SystemClock clock_;
  NullLogger quiet_;
  memory::MemoryStore store_;
  memory::MemoryStore sender_;
  std::optional<Server> receiver_;
  std::optional<Server> publisher_;

 private:
  static ServerOptions any_port() {
    ServerOptions options;
    options.listen.port = 0;
    options.auth.token_variable = "";
    return options;
  }
};

TEST_F(WebhookPublisherToServer, IsTakenAndARepetitionIsADuplicate) {
  RecordProperty("requirement", "PKT-08");
  start();
  publish(options("http"));
  publish(options("http"));
  const std::vector<MessageRecord> messages = received();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].key, (MessageKey{"shop", "shop:paid-1"}));
  EXPECT_EQ(messages[0].message->topic, Topic("order.paid"));
  EXPECT_EQ(messages[0].message->payload, Payload(R"({"order":1})"));
  EXPECT_EQ(messages[0].history.duplicates, 1);
}

TEST_F(WebhookPublisherToServer, NewSecretCanComeBesideTheOldOne) {
  start();
  webhook::WebhookPublisherOptions both = options("http");
  both.endpoints[0].secrets = {kOtherSecret, kPublisherSecret};
  publish(both);
  EXPECT_EQ(received().size(), 1U);
}

TEST_F(WebhookPublisherToServer, WrongSignatureIsAPermanentFailure) {
  start();
  webhook::WebhookPublisherOptions wrong = options("http");
  wrong.endpoints[0].secrets = {kOtherSecret};
  EXPECT_THROW(publish(wrong), PermanentFailure);
  EXPECT_TRUE(received().empty());
}

TEST_F(WebhookPublisherToServer, CertificateThatNobodyVouchesForIsNotTrusted) {
  const testing::TemporaryFolder folder;
  TestAuthority authority(folder.file(""));
  const TestAuthority::Files files = authority.sign("server", "localhost");
  start({.certificate = files.certificate, .key = files.key});
  EXPECT_THROW(publish(options("https")), Error);
  EXPECT_TRUE(received().empty());
  webhook::WebhookPublisherOptions trusting = options("https");
  trusting.client.ca_file = authority.ca();
  publish(trusting);
  EXPECT_EQ(received().size(), 1U);
}

TEST_F(WebhookPublisherToServer, AServerTrustsTheAuthorityThatItIsTold) {
  RecordProperty("requirement", "R-37");
  const testing::TemporaryFolder folder;
  TestAuthority authority(folder.file(""));
  const TestAuthority::Files files = authority.sign("server", "localhost");
  start({.certificate = files.certificate, .key = files.key});
  PublishEndpoint crm = endpoint(options("https").endpoints[0].url);
  crm.allow_private = true;
  publish_by_server("1", {.ca_file = authority.ca(), .endpoints = {crm}});
  EXPECT_TRUE(eventually([&] { return received().size() == 1; }));
}

TEST_F(WebhookPublisherToServer, AServerUsesTheProxyThatItIsToldToRelyOn) {
  RecordProperty("requirement", "R-37");
  const testing::ScriptedServer proxy(
      [](const testing::ReceivedRequest&) { return testing::Reaction{}; });
  const EnvironmentVariable variable("http_proxy", proxy.url());
  const EnvironmentVariable none("no_proxy", "");
  const PublishEndpoint crm = endpoint("http://receiver.example/hook");
  publish_by_server("1", {.endpoints = {crm}});
  EXPECT_TRUE(fails("1", "publishing.proxy_checks_addresses"));
  EXPECT_EQ(proxy.connections(), 0U);
  publish_by_server("2", {.proxy_checks_addresses = true, .endpoints = {crm}});
  ASSERT_TRUE(proxy.wait_for_requests(1));
  EXPECT_EQ(proxy.requests().at(0).target, "http://receiver.example/hook");
}

}  // namespace
}  // namespace oncebox::server
