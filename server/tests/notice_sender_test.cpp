// Notices of dead messages, sent to a webhook: to another server, which checks the signature.

#include "webhooks/notice_sender.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http_fixture.hpp"
#include "observe/metrics.hpp"
#include "oncebox/error.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/server/server.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "watched.hpp"

namespace oncebox::server {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

DeadNotice notice_of(const std::string& error = "no address") {
  return {.store = "main",
          .queue = "inbox",
          .group = {.id = {.topic = Topic("mail"), .fingerprint = error_fingerprint(error)},
                    .error = error,
                    .count = 10,
                    .sample = {"shop", "1"}},
          .threshold = 10};
}

class NoticeSenderTest : public ::testing::Test {
 protected:
  NoticeSenderTest() {
    ServerOptions options;
    options.listen.port = 0;
    options.auth.token_variable = "";
    options.webhooks = {{.name = "notices",
                         .scheme = WebhookScheme::standard_webhooks,
                         .secrets = {kSecret},
                         .topic = "{json:/type}"}};
    receiver_.emplace(options, std::vector<NamedStore>{{"main", store_}},
                      Surroundings{.logger = quiet_, .clock = clock_});
    receiver_->start();
    options_.url = "http://127.0.0.1:" + std::to_string(receiver_->port()) + "/v1/webhooks/notices";
    options_.secret = kSecret;
    options_.attempts = 1;
  }

  [[nodiscard]] NoticeSender make() {
    return {options_, metrics_.recovery(), logger_, sender_clock_};
  }
  /// Waits for this line of the metrics, and lets time pass in such steps meanwhile.
  [[nodiscard]] bool counted(const std::string& outcome, Duration step = Duration::zero(),
                             const std::string& what = "dead") {
    const std::string line =
        "oncebox_" + what + "_notices_total{outcome=\"" + outcome + "\",store=\"main\"} 1";
    return eventually([&] {
      sender_clock_.advance(step);
      return metrics_.expose().find(line) != std::string::npos;
    });
  }
  [[nodiscard]] std::vector<MessageRecord> received() {
    return store_.inbox_operator().list({.payloads = ListPayloads::include}).records;
  }

  SystemClock clock_;
  testing::ManualClock sender_clock_{SystemClock::current()};
  NullLogger quiet_;
  memory::MemoryStore store_;
  std::optional<Server> receiver_;
  NoticeOptions options_;
  Metrics metrics_;
  KeepingLogger logger_;
};

TEST_F(NoticeSenderTest, AReceiverThatChecksTheSignatureTakesIt) {
  RecordProperty("requirement", "R-30");
  NoticeSender sender = make();
  sender.on_notice(notice_of());
  ASSERT_TRUE(counted("sent"));
  const std::vector<MessageRecord> messages = received();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages.front().message->topic, Topic("oncebox.dead"));
  EXPECT_THAT(messages.front().message->payload.bytes(),
              HasSubstr(R"("queue":"inbox","threshold":10,"group":"mail:)"));
}

TEST_F(NoticeSenderTest, ADeathIsSeenByTheWatchdogAndTheWebhookGetsIt) {
  RecordProperty("requirement", "R-30");
  memory::MemoryStore tenant;
  tenant.inbox().enqueue(Message{.key = {"shop", "1"}, .topic = "mail"});
  ServerOptions options;
  options.listen.port = 0;
  options.auth.token_variable = "";
  options.watchdog.interval = Duration{1};
  options.notices = options_;
  Server server(options, std::vector<NamedStore>{{"tenant", tenant}},
                {.logger = quiet_, .clock = clock_});
  server.start();
  // Deaths of before its first look are not told: one dies after the other, until one is.
  int last = 1;
  ASSERT_TRUE(eventually([&] {
    const MessageKey key{"shop", std::to_string(++last)};
    tenant.inbox().enqueue(Message{.key = key, .topic = "mail"});
    tenant.inbox().mark(Mark{.key = key, .as = MarkAs::dead, .error = "no address"});
    return !received().empty();
  })) << "nobody was told";
  const MessageRecord told = received().front();
  EXPECT_EQ(told.message->topic, Topic("oncebox.dead"));
  EXPECT_THAT(told.message->payload.bytes(), HasSubstr(R"("store":"tenant")"));
  EXPECT_THAT(told.message->payload.bytes(), HasSubstr(R"("group":"mail:)"));
}

TEST_F(NoticeSenderTest, ADisabledEndpointIsToldOf) {
  NoticeSender sender = make();
  const TimePoint since = parse_rfc3339("2026-01-31T08:15:30.250Z");
  const EndpointStatus status{.failing_since = since, .disabled = {{since, "it answered 410"}}};
  sender.on_endpoint_disabled({"main", "crm", status});
  ASSERT_TRUE(counted("sent", Duration::zero(), "endpoint"));
  const std::vector<MessageRecord> messages = received();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages.front().message->topic, Topic("oncebox.endpoint.disabled"));
  EXPECT_THAT(messages.front().message->payload.bytes(),
              HasSubstr(R"("data":{"store":"main","endpoint":"crm",)"
                        R"("failingSince":"2026-01-31T08:15:30.250Z",)"
                        R"("disabledAt":"2026-01-31T08:15:30.250Z",)"
                        R"("disabledReason":"it answered 410"})"));
  EXPECT_THAT(metrics_.expose(), HasSubstr(R"(oncebox_endpoints_disabled_total{store="main"} 1)"));
}

TEST_F(NoticeSenderTest, AnEndpointThatIsGoneIsDisabledByTheServerWhichTellsThat) {
  RecordProperty("requirement", "R-37");
  testing::ScriptedServer gone(
      [](const testing::ReceivedRequest&) { return testing::Reaction{.status = 410}; });
  memory::MemoryStore tenant;
  ServerOptions options;
  options.listen.port = 0;
  options.auth.token_variable = "";
  options.notices = options_;
  options.publish.endpoints = {{.name = "crm",
                                .url = gone.url(),
                                .secrets = {std::string("literal:") + kSecret},
                                .allow_private = true}};
  Server server(options, std::vector<NamedStore>{{"tenant", tenant}},
                {.logger = logger_, .clock = clock_});
  server.start();
  for (const char* const id : {"1", "2", "3"}) {
    tenant.outbox().enqueue(Message{.key = {"shop", id}, .topic = "mail"});
  }
  ASSERT_TRUE(eventually([&] { return !received().empty(); })) << "nobody was told";
  EXPECT_EQ(received().front().message->topic, Topic("oncebox.endpoint.disabled"));
  EXPECT_THAT(received().front().message->payload.bytes(),
              HasSubstr(R"("store":"tenant","endpoint":"crm")"));
  EXPECT_TRUE(eventually([&] {
    const QueueStats stats = tenant.deliveries_operator().stats();
    const QueueStats before = tenant.outbox_operator().stats();
    return before.total().unfinished() == 0 && stats.total().unfinished() == 0;
  }));
  server.stop(kPatience);
  EXPECT_EQ(received().size(), 1U) << "once, however many failed";
  std::size_t line = 0;
  while (logger_.lines.wait(line).find("an endpoint was disabled") == std::string::npos) ++line;
}

TEST_F(NoticeSenderTest, ARefusalIsNotTriedAgain) {
  options_.secret = "whsec_d3Jvbmcgc2VjcmV0IHdyb25nIHNlY3JldA==";
  options_.attempts = 5;
  NoticeSender sender = make();
  sender.on_notice(notice_of());
  EXPECT_TRUE(counted("failed"));
  EXPECT_TRUE(received().empty());
  EXPECT_THAT(logger_.lines.wait(0),
              HasSubstr("messages are dead; oncebox dead groups shows them store=main"));
  EXPECT_THAT(logger_.lines.wait(1), HasSubstr("was not taken store=main"));
}

TEST_F(NoticeSenderTest, WhatNobodyTakesIsGivenUpAfterTheAttempts) {
  receiver_.reset();
  options_.attempts = 10;
  NoticeSender sender = make();
  sender.on_notice(notice_of());
  EXPECT_TRUE(counted("failed", std::chrono::seconds{1}));
  EXPECT_THAT(logger_.lines.wait(1), HasSubstr("attempts=10"));
}

TEST_F(NoticeSenderTest, WhatWaitsIsBoundedAndAStopDoesNotWaitForIt) {
  receiver_.reset();
  options_.attempts = 100;
  options_.max_queued = 1;
  NoticeSender sender = make();
  for (int i = 0; i < 3; ++i) sender.on_notice(notice_of());
  EXPECT_NE(metrics_.expose().find("outcome=\"dropped\""), std::string::npos);
}

TEST_F(NoticeSenderTest, WithoutAnAddressTheyAreOnlyLogged) {
  options_.url = "";
  options_.secret = "";
  NoticeSender sender = make();
  sender.on_notice(notice_of("secret-free"));
  EXPECT_EQ(metrics_.expose().find("oncebox_dead_notices_total{"), std::string::npos);
}

TEST(NoticeOptionsTest, MustFitTogether) {
  const auto refused = [](const NoticeOptions& options) {
    ServerOptions all;
    all.notices = options;
    try {
      all.validate();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused({}), "nothing");
  EXPECT_EQ(refused({.url = "https://x", .secret = kSecret}), "nothing");
  EXPECT_THAT(refused({.url = "https://x"}), HasSubstr("notices.secret"));
  EXPECT_THAT(refused({.secret = kSecret}), HasSubstr("notices.url"));
  EXPECT_THAT(refused({.url = "ftp://x", .secret = kSecret}), HasSubstr("notices.url"));
  EXPECT_THAT(refused({.url = "http://x", .secret = "%"}), HasSubstr("notices.secret"));
  EXPECT_THAT(refused({.when = {.thresholds = {0}}}), HasSubstr("notices.thresholds"));
  EXPECT_THAT(refused({.attempts = 0}), HasSubstr("notices.attempts"));
}

}  // namespace
}  // namespace oncebox::server
