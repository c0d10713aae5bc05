// Messages of an outbox that go out as webhooks, to a server that checks their signatures.

#include "oncebox/webhook/webhook_publisher.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "oncebox/error.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/server/server.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "raw_client.hpp"

namespace oncebox::server {
namespace {

constexpr const char* kPublisherSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr const char* kOtherSecret = "whsec_d3Jvbmcgc2VjcmV0IHdyb25nIHNlY3JldA==";

class WebhookPublisherToServer : public ::testing::Test {
 protected:
  void start(const TlsOptions& tls = {}) {
    ServerOptions options;
    options.listen.port = 0;
    options.auth.token_variable = "";
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
  [[nodiscard]] std::vector<MessageRecord> received() {
    return store_.inbox_operator().list({.payloads = ListPayloads::include}).records;
  }

  SystemClock clock_;
  NullLogger quiet_;
  memory::MemoryStore store_;
  std::optional<Server> receiver_;
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

}  // namespace
}  // namespace oncebox::server
