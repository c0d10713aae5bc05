#include "oncebox/webhook/webhook_publisher.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <chrono>
#include <optional>
#include <sstream>
#include <string>

#include "expect_error.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "watched.hpp"

namespace oncebox::webhook {
namespace {

using namespace std::chrono_literals;
using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;

// printf first-secret | base64, and so on.
constexpr const char* kPublisherSecret = "whsec_Zmlyc3Qtc2VjcmV0";
constexpr const char* kNextPublisherSecret = "whsec_c2Vjb25kLXNlY3JldA==";

/// The signature, made with nothing of ours: by OpenSSL's one-shot functions.
std::string expected_signature(const std::string& key, const ReceivedRequest& request) {
  const std::string content = request.fields.at("webhook-id") + "." +
                              request.fields.at("webhook-timestamp") + "." + request.body;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(content.data()), content.size(), digest, &size);
  std::string base64(4 * ((size + 2) / 3) + 1, '\0');
  base64.resize(static_cast<std::size_t>(EVP_EncodeBlock(
      reinterpret_cast<unsigned char*>(base64.data()), digest, static_cast<int>(size))));
  return "v1," + base64;
}

class WebhookPublisherTest : public ::testing::Test {
 protected:
  [[nodiscard]] ClaimedMessage message(const std::string& topic = "order.paid") const {
    return {.message = {.key = {"shop", "order.1"}, .topic = topic, .payload = "s3cret payload"},
            .history = {.attempt = 2},
            .owner = OwnerToken::generate()};
  }
  [[nodiscard]] WebhookPublisherOptions options() const {
    return {.endpoints = {{.url = server_.url() + "/hook",
                           .secrets = {kPublisherSecret},
                           .allow_private = true}},
            .client = {.connect_timeout = 60s, .timeout = 60s}};
  }
  void publish(const ClaimedMessage& message, const WebhookPublisherOptions& options) {
    WebhookPublisher publisher(options, clock_);
    HandlerContext context(message, {});
    publisher.publish(message, context);
  }
  void publish(const ClaimedMessage& message) { publish(message, options()); }
  void answer_with(Reaction reaction) {
    reaction_.change([&](Reaction& current) { current = std::move(reaction); });
  }

  testing::FakeClock clock_;
  Watched<Reaction> reaction_;
  ScriptedServer server_{[this](const ReceivedRequest&) { return reaction_.get(); }};
};

TEST_F(WebhookPublisherTest, ReceiverGetsThePayloadSigned) {
  RecordProperty("requirement", "PKT-08");
  publish(message());
  ASSERT_EQ(server_.requests().size(), 1U);
  const ReceivedRequest request = server_.requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/hook");
  EXPECT_EQ(request.body, "s3cret payload");
  EXPECT_EQ(request.fields.at("webhook-id"), "shop:order%2E1");
  EXPECT_EQ(request.fields.at("webhook-timestamp"), "1767225600");
  EXPECT_EQ(request.fields.at("webhook-signature"), expected_signature("first-secret", request));
  EXPECT_EQ(request.fields.at("content-type"), "application/json");
  EXPECT_EQ(request.fields.at("oncebox-topic"), "order.paid");
  EXPECT_EQ(request.fields.at("oncebox-source"), "shop");
  EXPECT_EQ(request.fields.at("oncebox-message-id"), "order.1");
  EXPECT_EQ(request.fields.at("oncebox-attempt"), "3");
}

TEST_F(WebhookPublisherTest, RequestIsSignedWithTheOldAndTheNewSecret) {
  WebhookPublisherOptions both = options();
  both.endpoints[0].secrets = {kNextPublisherSecret, kPublisherSecret};
  publish(message(), both);
  const ReceivedRequest request = server_.requests().at(0);
  EXPECT_EQ(request.fields.at("webhook-signature"),
            expected_signature("second-secret", request) + " " +
                expected_signature("first-secret", request));
}

TEST_F(WebhookPublisherTest, HeadersAreCarriedOn) {
  RecordProperty("requirement", "MSG-04");
  ClaimedMessage sent = message();
  sent.message.headers = {{"contentType", "text/plain; charset=utf-8"},
                          {"correlationId", "session-7"},
                          {"causationId", "gr\u00fcn 100%"},
                          {"idempotencyKey", "k1"},
                          {"partitionKey", "customer-7"},
                          {"timestamp", "2026-01-01T00:00:00.000Z"},
                          {"traceparent", "00-a-b-01"},
                          {"tracestate", "a=1"},
                          {"internal", "stays here"}};
  publish(sent);
  const auto fields = server_.requests().at(0).fields;
  EXPECT_EQ(fields.at("content-type"), "text/plain; charset=utf-8");
  EXPECT_EQ(fields.at("oncebox-correlation-id"), "session-7");
  EXPECT_EQ(fields.at("oncebox-causation-id"), "gr%C3%BCn 100%25");
  EXPECT_EQ(fields.at("idempotency-key"), "k1");
  EXPECT_EQ(fields.at("oncebox-partition-key"), "customer-7");
  EXPECT_EQ(fields.at("oncebox-timestamp"), "2026-01-01T00:00:00.000Z");
  EXPECT_EQ(fields.at("traceparent"), "00-a-b-01");
  EXPECT_EQ(fields.at("tracestate"), "a=1");
  for (const auto& [name, value] : fields) EXPECT_NE(value, "stays here") << name;
}

TEST_F(WebhookPublisherTest, HeaderCannotForgeAField) {
  ClaimedMessage sent = message();
  sent.message.headers = {{"contentType", "a/b\r\nX-Forged: 1"},
                          {"correlationId", "a\r\nX-Forged: 2"},
                          {"traceparent", "a\r\nX-Forged: 3"}};
  publish(sent);
  const auto fields = server_.requests().at(0).fields;
  EXPECT_FALSE(fields.contains("x-forged"));
  EXPECT_EQ(fields.at("content-type"), "application/json");
  EXPECT_EQ(fields.at("oncebox-correlation-id"), "a%0D%0AX-Forged: 2");
  EXPECT_FALSE(fields.contains("traceparent"));
}

TEST_F(WebhookPublisherTest, TopicsHaveAddressesOfTheirOwn) {
  WebhookPublisherOptions two = options();
  two.endpoints.push_back({.url = server_.url() + "/mail",
                           .secrets = {kPublisherSecret},
                           .topics = "mail.*",
                           .allow_private = true});
  publish(message("mail.send"), two);
  publish(message("order.paid"), two);
  EXPECT_EQ(server_.requests().at(0).target, "/mail");
  EXPECT_EQ(server_.requests().at(1).target, "/hook");
  two.endpoints.erase(two.endpoints.begin());
  expect_error(ErrorCode::not_found, [&] { publish(message("order.paid"), two); });
}

TEST_F(WebhookPublisherTest, RefusalIsAPermanentFailureThatTellsOnlyTheStatus) {
  for (const int status : {400, 401, 403, 410, 422}) {
    answer_with({.status = status, .body = "s3cret answer"});
    try {
      publish(message());
      ADD_FAILURE() << status << " was taken";
    } catch (const PermanentFailure& failure) {
      EXPECT_EQ(failure.what(), "the receiver answered " + std::to_string(status));
    }
  }
}

TEST_F(WebhookPublisherTest, StatusThatMayPassIsTriedAgain) {
  for (const int status : {302, 404, 405, 408, 409, 425, 429, 500, 503}) {
    answer_with({.status = status});
    const std::string text = expect_error(ErrorCode::unavailable, [&] { publish(message()); });
    EXPECT_EQ(text, "the receiver answered " + std::to_string(status));
  }
}

TEST_F(WebhookPublisherTest, ReceiverSaysWhenToComeAgain) {
  RecordProperty("requirement", "MSG-05");
  const auto delay_for = [&](const std::string& seconds) {
    answer_with({.status = 503, .fields = {{"Retry-After", seconds}}});
    try {
      publish(message());
    } catch (const RetryAfter& retry) {
      return retry.delay();
    }
    return Duration{0};
  };
  EXPECT_EQ(delay_for("90"), 90s);
  EXPECT_EQ(delay_for("999999999"), 1h);  // no longer than max_retry_after
}

TEST_F(WebhookPublisherTest, OptionsMustMakeSense) {
  const auto refused = [&](auto change) {
    WebhookPublisherOptions bad = options();
    change(bad);
    try {
      WebhookPublisher publisher(bad);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused([](auto&) {}), "nothing");
  EXPECT_EQ(refused([](auto& bad) { bad.endpoints.clear(); }), "endpoints: there is none");
  EXPECT_EQ(refused([](auto& bad) { bad.endpoints[0].url = "ftp://s3cret"; }),
            "url: it begins with https:// or http://");
  for (const char* url : {"https://host:65536/s3cret", "https://host:0", "https://:443x/",
                          "https://", "http://user:s3cret@/", "http://[::1]:99999/"}) {
    EXPECT_EQ(refused([url](auto& bad) { bad.endpoints[0].url = url; }),
              "url: it names a host, and perhaps a port from 1 to 65535")
        << url;
  }
  EXPECT_EQ(refused([](auto& bad) { bad.endpoints[0].secrets.clear(); }),
            "secrets: there is none to sign with");
  EXPECT_NE(refused([](auto& bad) { bad.content_type = "a\nb"; }), "nothing");
  EXPECT_NE(refused([](auto& bad) { bad.max_retry_after = 0ms; }), "nothing");
  EXPECT_NE(refused([](auto& bad) { bad.client.timeout = 0ms; }), "nothing");
  EXPECT_NE(refused([](auto& bad) { bad.endpoints[0].limits.max_concurrency = 0; }), "nothing");
}

TEST_F(WebhookPublisherTest, TopicsHaveOneEndpoint) {
  WebhookPublisherOptions twice = options();
  twice.endpoints.push_back(twice.endpoints.front());
  expect_error(ErrorCode::conflict, [&] { (void)webhook_publishers(twice); });
}

// The whole way ---------------------------------------------------------------------------------

TEST_F(WebhookPublisherTest, OutboxGoesOutAndAReceiverThatComesBackGetsItUnderTheSameId) {
  RecordProperty("requirement", "PKT-08");
  memory::MemoryStore store(clock_);
  std::ostringstream log;
  TextLogger logger(log, clock_, LogLevel::debug);
  Observer observer;
  Outbox outbox(store, {.source = "shop"}, {logger, observer, clock_});
  answer_with({.status = 503, .fields = {{"Retry-After", "5"}}});
  outbox.enqueue({.topic = "order.paid", .payload = "s3cret payload", .id = "paid-1"});
  {
    OutboxDispatcher dispatcher(store, webhook_publishers(options(), clock_), {},
                                {logger, observer, clock_});
    dispatcher.start();
    ASSERT_TRUE(eventually([&] { return outbox.find("paid-1")->last_error.has_value(); }));
    EXPECT_EQ(outbox.find("paid-1")->status, Status::processing);
    answer_with({.status = 204, .body = ""});
    clock_.advance(5s);
    dispatcher.wake();
    ASSERT_TRUE(eventually([&] { return outbox.find("paid-1")->status == Status::done; }));
  }
  const auto requests = server_.requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].fields.at("webhook-id"), "shop:paid-1");
  EXPECT_EQ(requests[1].fields.at("webhook-id"), "shop:paid-1");
  EXPECT_EQ(log.str().find("s3cret"), std::string::npos);
  EXPECT_EQ(log.str().find("whsec"), std::string::npos);
}

TEST_F(WebhookPublisherTest, ReceiverThatAlwaysSaysInASecondKillsNothing) {
  RecordProperty("requirement", "MSG-05");
  memory::MemoryStore store(clock_);
  NullLogger logger;
  Observer observer;
  Outbox outbox(store, {.source = "shop"}, {logger, observer, clock_});
  answer_with({.status = 429, .fields = {{"Retry-After", "1"}}});
  outbox.enqueue({.topic = "order.paid", .id = "1"});
  const TimePoint enqueued_at = clock_.now();
  OutboxDispatcher dispatcher(store, webhook_publishers(options(), clock_), {},
                              {logger, observer, clock_});
  dispatcher.start();
  const MessageKey key{"shop", "1"};
  for (int failures = 1; failures <= 30; ++failures) {
    std::optional<MessageRecord> record;
    ASSERT_TRUE(eventually([&] {
      record = store.outbox().find(key);
      return record->history.attempt == failures && !record->lease;
    })) << failures;
    if (failures == 30) answer_with({.status = 204, .body = ""});
    clock_.set(record->eligible_at.value());
    dispatcher.wake();
  }
  EXPECT_TRUE(eventually([&] { return outbox.find("1")->status == Status::done; }));
  EXPECT_GT(clock_.now() - enqueued_at, 30min);
}

TEST_F(WebhookPublisherTest, EndpointThatHangsDoesNotKeepOthersFromGettingTheirs) {
  RecordProperty("requirement", "PKT-08");
  constexpr std::size_t kEach = 10;
  Watched<Reaction> slow_reaction(Reaction{.kind = Reaction::Kind::hang});
  ScriptedServer slow([&](const ReceivedRequest&) { return slow_reaction.get(); });
  WebhookPublisherOptions two = options();
  two.client.timeout = 1h;
  two.endpoints = {
      {.url = slow.url(), .secrets = {kPublisherSecret}, .topics = "slow.*", .allow_private = true},
      {.url = server_.url(),
       .secrets = {kPublisherSecret},
       .topics = "quick.*",
       .allow_private = true}};
  memory::MemoryStore store(clock_);
  NullLogger logger;
  Observer observer;
  Outbox outbox(store, {.source = "shop"}, {logger, observer, clock_});
  for (const std::string kind : {"slow", "quick"}) {
    for (std::size_t i = 0; i < kEach; ++i) {
      outbox.enqueue({.topic = Topic(kind + ".one"), .id = MessageId(kind + std::to_string(i))});
    }
  }
  OutboxDispatcher dispatcher(store, webhook_publishers(two, clock_), {.workers = 4},
                              {logger, observer, clock_});
  dispatcher.start();
  EXPECT_TRUE(server_.wait_for_requests(kEach));
  EXPECT_TRUE(slow.wait_for_requests(2));
  EXPECT_EQ(slow.requests().size(), 2U);

  slow_reaction.change([](Reaction& reaction) { reaction = {}; });
  slow.cut_all();
  EXPECT_TRUE(eventually([&] { return dispatcher.stats().handled == 2 * kEach - 2; }));
  EXPECT_TRUE(eventually([&] { return dispatcher.stats().retried == 2; }));
  clock_.advance(2s);
  dispatcher.wake();
  EXPECT_TRUE(eventually([&] { return dispatcher.stats().handled == 2 * kEach; }));
}

}  // namespace
}  // namespace oncebox::webhook
