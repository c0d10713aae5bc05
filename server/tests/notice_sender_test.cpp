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
    receiver_.emplace(options, std::vector<NamedStore>{{"main", store_}}, quiet_, clock_);
    receiver_->start();
    options_.url = "http://127.0.0.1:" + std::to_string(receiver_->port()) + "/v1/webhooks/notices";
    options_.secret = kSecret;
    options_.attempts = 1;
  }

  [[nodiscard]] NoticeSender make() {
    return {options_, metrics_.recovery(), logger_, sender_clock_};
  }
  /// Waits for this line of the metrics, and lets time pass in such steps meanwhile.
  [[nodiscard]] bool counted(const std::string& outcome, Duration step = Duration::zero()) {
    const std::string line =
        "oncebox_dead_notices_total{outcome=\"" + outcome + "\",store=\"main\"} 1";
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
  Server server(options, std::vector<NamedStore>{{"tenant", tenant}}, quiet_, clock_);
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
