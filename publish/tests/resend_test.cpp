#include "oncebox/publish/resend.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "expect_error.hpp"
#include "oncebox/publish/delivery.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "recovery_fixture.hpp"

namespace oncebox::publish {
namespace {

using namespace std::chrono_literals;

class ResendTest : public OnEachStore {
 protected:
  ResendTest() {
    save_endpoint(*store_, {.name = "crm", .url = "oncebox+https://crm", .topics = {"order.*"}});
  }
  /// In the outbox, and done there.
  void was_sent(const std::string& id, const std::string& topic = "order.paid") {
    const Message message = message_of(id, topic);
    store_->outbox().enqueue(message);
    settle(store_->outbox(), Ack{});
  }
  /// A delivery that ended so.
  void was_delivered(const std::string& id, const Verdict& verdict) {
    was_delivered(message_of(id, "order.paid"), verdict);
  }
  void was_delivered(const Message& message, const Verdict& verdict) {
    store_->deliveries().enqueue(delivery_of(message, "crm"));
    settle(store_->deliveries(), verdict);
  }
  void settle(QueueStore& queue, const Verdict& verdict) {
    const auto claimed = queue.claim({.owner = owner_});
    ASSERT_EQ(claimed.size(), 1U);
    const Settlement settlement{{claimed[0].message.key, owner_, claimed[0].delivery}, verdict};
    ASSERT_EQ(queue.settle({&settlement, 1}).front(), SettleStatus::settled);
  }
  [[nodiscard]] MessageRecord delivery(const std::string& id) {
    return store_->deliveries().find(delivery_key({"shop", id}, "crm")).value();
  }

  const OwnerToken owner_ = OwnerToken::generate();
  std::unique_ptr<Store> store_ = make_store();
};

TEST_P(ResendTest, AllSinceATimeIsSentAgainThatTheEndpointWants) {
  RecordProperty("requirement", "R-37");
  was_sent("old");
  clock_.advance(1h);
  const TimePoint since = clock_.now();
  was_sent("missed");
  was_sent("accepted");
  was_delivered("accepted", Ack{});
  was_sent("failed");
  was_delivered("failed", Fail{.error = "the endpoint is disabled"});
  was_sent("other", "invoice.sent");
  const ResendResult result =
      resend_since(*store_, {.endpoint = "crm", .sent = {.from = since}}, clock_);
  EXPECT_EQ(result, (ResendResult{.resent = 3, .not_wanted = 1}));
  for (const char* const id : {"missed", "accepted", "failed"}) {
    EXPECT_EQ(delivery(id).status, Status::processing) << id;
    EXPECT_EQ(original_of(*delivery(id).message), message_of(id, "order.paid")) << id;
  }
  EXPECT_FALSE(store_->deliveries().find(delivery_key({"shop", "old"}, "crm")));
  EXPECT_EQ(resend_since(*store_, {.endpoint = "crm", .sent = {.from = since}}, clock_),
            (ResendResult{.under_way = 3, .not_wanted = 1}))
      << "once more changes nothing";
}

TEST_P(ResendTest, WhatFailedComesAgainOneAfterTheOther) {
  RecordProperty("requirement", "R-37");
  for (const char* const id : {"1", "2", "3"}) was_delivered(id, Fail{.error = "410"});
  was_delivered("fine", Ack{});
  const TimePoint now = clock_.now();
  const ResendResult result = resend_failed(
      *store_, {.endpoint = "crm", .pace = {.per_second = 0.1}, .reason = "mended"}, clock_);
  EXPECT_EQ(result, (ResendResult{.resent = 3}));
  EXPECT_EQ(delivery("fine").status, Status::done);
  EXPECT_EQ(delivery("2").revivals.last_reason, "mended");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(delivery(std::to_string(i + 1)).eligible_at, now + i * 10s) << i;
  }
}

TEST_P(ResendTest, WhatWasCancelledHasExpiredOrWasATestStaysDead) {
  RecordProperty("requirement", "R-37");
  Message message = message_of("failed, and expired since", "order.paid");
  message.expires_at = clock_.now() + 1h;
  was_delivered(message, Fail{.error = "410"});
  message.key.message_id = MessageId("expired");
  store_->deliveries().enqueue(delivery_of(message, "crm"));
  clock_.advance(1h);
  EXPECT_EQ(store_->deliveries().reap().buried, 1U);
  for (const std::string reason : {"", "sent by mistake"}) {
    const Message delivery = delivery_of(message_of("cancelled" + reason, "order.paid"), "crm");
    store_->deliveries().enqueue(delivery);
    store_->deliveries_operator().act({&delivery.key, 1}, Cancel{}, {.reason = reason});
  }
  (void)send_test(*store_, "crm", 1h, clock_);
  settle(store_->deliveries(), Fail{.error = "503"});
  was_delivered("failed", Fail{.error = "cancelled by the receiver"});
  was_delivered(message_of("named so", std::string(kTestTopic)), Fail{.error = "410"});
  ASSERT_EQ(store_->deliveries_operator().count({.statuses = {Status::dead}}), 7U);
  const ResendResult two{.resent = 2};
  EXPECT_EQ(resend_failed(*store_, {.endpoint = "crm", .dry_run = true}, clock_), two);
  EXPECT_EQ(resend_failed(*store_, {.endpoint = "crm"}, clock_), two);
  EXPECT_EQ(delivery("failed").status, Status::processing);
  EXPECT_EQ(delivery("named so").status, Status::processing);
}

TEST_P(ResendTest, WhatHasExpiredIsNotSentAgain) {
  RecordProperty("requirement", "R-37");
  Message message = message_of("1", "order.paid");
  message.expires_at = clock_.now() + 1h;
  store_->outbox().enqueue(message);
  settle(store_->outbox(), Ack{});
  was_delivered(message, Fail{.error = "410"});
  clock_.advance(1h);
  EXPECT_EQ(resend_since(*store_, {.endpoint = "crm"}, clock_), ResendResult{});
  EXPECT_EQ(delivery("1").status, Status::dead);
}

TEST_P(ResendTest, ARateMayBeOfThousandsASecond) {
  for (int i = 0; i < 5; ++i) was_delivered(std::to_string(i), Fail{.error = "410"});
  const TimePoint now = clock_.now();
  const RevivalPace pace{.per_second = 2'000};
  EXPECT_EQ(resend_failed(*store_, {.endpoint = "crm", .pace = pace}, clock_).resent, 5U);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(delivery(std::to_string(i)).eligible_at, now + (i + 1) * 1ms / 2) << i;
  }
}

TEST_P(ResendTest, AnEndpointThatIsDisabledIsRefused) {
  was_delivered("1", Fail{.error = "410"});
  store_->endpoints().note("crm", {EndpointEvent::Kind::disabled, clock_.now(), "410"});
  const std::string text = expect_error(
      ErrorCode::conflict, [&] { (void)resend_failed(*store_, {.endpoint = "crm"}, clock_); });
  EXPECT_NE(text.find("oncebox endpoints resume crm"), std::string::npos) << text;
  EXPECT_EQ(delivery("1").status, Status::dead);
}

TEST_P(ResendTest, OneMessageIsSentAgain) {
  RecordProperty("requirement", "R-37");
  was_sent("1");
  was_delivered("1", Ack{});
  EXPECT_EQ(resend_one(*store_, {.endpoint = "crm"}, {"shop", "1"}, clock_).resent, 1U);
  EXPECT_EQ(delivery("1").status, Status::processing);
  expect_error(ErrorCode::not_found,
               [&] { (void)resend_one(*store_, {.endpoint = "crm"}, {"shop", "none"}, clock_); });
  expect_error(ErrorCode::not_found,
               [&] { (void)resend_one(*store_, {.endpoint = "nobody"}, {"shop", "1"}, clock_); });
}

ONCEBOX_ON_EACH_STORE(ResendTest);

}  // namespace
}  // namespace oncebox::publish
