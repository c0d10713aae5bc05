#include "oncebox/publish/endpoint_publishers.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "expect_error.hpp"
#include "oncebox/dispatch/async_handler.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/webhook/webhook_delivery.hpp"
#include "oncebox/wire/queue_json.hpp"
#include "watched.hpp"

namespace oncebox::publish {
namespace {

using namespace std::chrono_literals;
using testing::Reaction;
using testing::ReceivedRequest;

constexpr const char* kEndpointSecret = "whsec_Zmlyc3Qtc2VjcmV0";

/// Waits for what a publisher says of a message.
class Outcome final : public detail::AsyncCall {
 public:
  explicit Outcome(const ClaimedMessage& message) : context_(message) {}
  [[nodiscard]] const HandlerContext& context() const noexcept override { return context_; }
  void complete(std::exception_ptr failure) noexcept override {
    said_.change([&](auto& said) { said = failure; });
  }
  void drop() noexcept override {}
  void rethrow() const {
    ASSERT_TRUE(said_.wait([](const auto& said) { return said.has_value(); }));
    if (const std::exception_ptr failure = *said_.get()) std::rethrow_exception(failure);
  }

 private:
  const HandlerContext context_;
  Watched<std::optional<std::exception_ptr>> said_;
};

class EndpointPublishersTest : public ::testing::Test {
 protected:
  [[nodiscard]] Endpoint webhook() const {
    return {.name = "crm",
            .url = server_.url() + "/hook",
            .headers = {{"X-Team", "sales"}},
            .allow_private = true};
  }
  [[nodiscard]] Endpoint other() const {
    return {.name = "other", .url = "oncebox+" + server_.url() + "/v1", .allow_private = true};
  }
  void publish(const Endpoint& endpoint, std::vector<std::string> secrets) {
    const EndpointPublishers publishers = standard_publishers({}, clock_);
    const auto publisher = publishers.make({endpoint, std::move(secrets), "main/crm"});
    const auto outcome = std::make_shared<Outcome>(message_);
    publisher->start(message_, Completion(outcome));
    outcome->rethrow();
  }
  void answer_with(Reaction reaction) {
    reaction_.change([&](Reaction& current) { current = std::move(reaction); });
  }
  void answer_enqueued(EnqueueStatus status) {
    const EnqueueOutcome outcome{.status = status};
    answer_with({.body = wire::write_enqueued({&message_.message, 1}, {&outcome, 1})});
  }

  const ClaimedMessage message_{
      .message = {.key = {"shop", "order-1"}, .topic = "order.paid", .payload = "s3cret payload"},
      .owner = OwnerToken::generate()};
  testing::FakeClock clock_;
  Watched<Reaction> reaction_;
  testing::ScriptedServer server_{[this](const ReceivedRequest&) { return reaction_.get(); }};
};

TEST_F(EndpointPublishersTest, AWebhookIsSignedAndHasTheHeadersOfItsEndpoint) {
  publish(webhook(), {kEndpointSecret});
  const ReceivedRequest request = server_.requests().at(0);
  EXPECT_EQ(request.target, "/hook");
  EXPECT_EQ(request.body, "s3cret payload");
  EXPECT_EQ(request.fields.at("webhook-id"), "shop:order-1");
  EXPECT_TRUE(request.fields.at("webhook-signature").starts_with("v1,"));
  EXPECT_EQ(request.fields.at("x-team"), "sales");
  EXPECT_EQ(request.fields.at("oncebox-topic"), "order.paid");
}

TEST_F(EndpointPublishersTest, GoneIsToldApartAndARetryAfterIsHeeded) {
  answer_with({.status = 410});
  EXPECT_THROW(publish(webhook(), {kEndpointSecret}), webhook::ReceiverGone);
  answer_with({.status = 429, .fields = {{"Retry-After", "120"}}});
  try {
    publish(webhook(), {kEndpointSecret});
    FAIL();
  } catch (const RetryAfter& later) {
    EXPECT_EQ(later.delay(), 120s);
  }
}

TEST_F(EndpointPublishersTest, AnotherOnceboxGetsTheMessageUnderItsKeyWithTheToken) {
  answer_enqueued(EnqueueStatus::accepted);
  publish(other(), {"t0ken"});
  const ReceivedRequest request = server_.requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/v1/messages");
  EXPECT_EQ(request.fields.at("authorization"), "Bearer t0ken");
  EXPECT_NE(request.body.find("\"messageId\":\"order-1\""), std::string::npos) << request.body;
  answer_enqueued(EnqueueStatus::duplicate_done);
  EXPECT_NO_THROW(publish(other(), {"t0ken"})) << "it knows the message";
}

TEST_F(EndpointPublishersTest, WhatAnotherOnceboxRejectsIsAPermanentFailure) {
  answer_enqueued(EnqueueStatus::rejected);
  EXPECT_THROW(publish(other(), {}), PermanentFailure);
  answer_with({.body = "<html>"});
  EXPECT_THROW(publish(other(), {}), Error) << "no Oncebox";
}

TEST_F(EndpointPublishersTest, APrivateAddressIsRefusedUnlessTheEndpointAllowsIt) {
  Endpoint careful = webhook();
  careful.allow_private = false;
  EXPECT_THROW(publish(careful, {kEndpointSecret}), Error);
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(EndpointPublishersTest, AWebhookWithoutASecretIsRefusedAndNoneIsShown) {
  Endpoint unsigned_one = webhook();
  unsigned_one.secrets.emplace();
  expect_error(ErrorCode::invalid_argument, [&] { require_deliverable(unsigned_one); });
  unsigned_one.secrets = {"literal:s3cret!"};
  const std::string text =
      expect_error(ErrorCode::invalid_argument, [&] { require_deliverable(unsigned_one); });
  EXPECT_EQ(text.find("s3cret"), std::string::npos);
  unsigned_one.secrets = {std::string("literal:") + kEndpointSecret};
  EXPECT_NO_THROW(require_deliverable(unsigned_one));
}

TEST_F(EndpointPublishersTest, AnotherOnceboxMayHaveASlashBehindItsPath) {
  answer_enqueued(EnqueueStatus::accepted);
  Endpoint with_slash = other();
  with_slash.url += '/';
  publish(with_slash, {});
  EXPECT_EQ(server_.requests().at(0).target, "/v1/messages");
}

TEST_F(EndpointPublishersTest, AHeaderThatEveryRequestHasIsRefused) {
  for (const char* const name : {"Webhook-Id", "webhook-signature", "CONTENT-TYPE", "Host",
                                 "Oncebox-Topic", "traceparent", "Idempotency-Key"}) {
    Endpoint twice = webhook();
    twice.headers = {{name, "x"}};
    const std::string text =
        expect_error(ErrorCode::invalid_argument, [&] { require_deliverable(twice); });
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
  Endpoint endpoint = webhook();
  endpoint.headers = {{"Authorization", "Basic abc"}, {"X-Webhook", "1"}};
  EXPECT_NO_THROW(require_deliverable(endpoint));
  endpoint.url = other().url;
  expect_error(ErrorCode::invalid_argument, [&] { require_deliverable(endpoint); });
}

TEST_F(EndpointPublishersTest, StandardEndpointsAreThoseThatTheStandardPublishersKnow) {
  const EndpointPublishers publishers = standard_publishers({}, clock_);
  for (const std::string_view scheme : kStandardSchemes) {
    const std::string url = std::string(scheme) + "://crm.example/v1";
    EXPECT_TRUE(publishers.knows(url)) << url;
    EXPECT_NO_THROW(require_standard({.name = "crm", .url = url}));
  }
  for (const char* const url : {"amqp://crm.example", "HTTPS://crm.example", "oncebox://x",
                                "oncebox+https://crm.example/v1?store=a"}) {
    expect_error(ErrorCode::invalid_argument,
                 [&] { require_standard({.name = "crm", .url = url}); });
  }
  EXPECT_FALSE(publishers.knows("amqp://crm.example"));
  EXPECT_NO_THROW(require_deliverable({.name = "crm", .url = "amqp://crm.example"}))
      << "a publisher of the user's own may take it";
}

}  // namespace
}  // namespace oncebox::publish
