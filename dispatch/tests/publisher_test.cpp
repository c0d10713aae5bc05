#include "oncebox/dispatch/publisher.hpp"

#include <gtest/gtest.h>

#include <string>

#include "expect_error.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;

TEST(CallablePublisher, CallsTheFunction) {
  std::string published;
  const auto publisher = callable_publisher([&](const ClaimedMessage& message, HandlerContext&) {
    published = message.message.payload.bytes();
  });
  const ClaimedMessage message{.message = {.key = {"shop", "1"}, .topic = "t", .payload = "42"},
                               .history = {},
                               .owner = OwnerToken::generate()};
  HandlerContext context(message, {});
  publisher->publish(message, context);
  EXPECT_EQ(published, "42");
}

class InboxPublisherTest : public OnEachStore {
 protected:
  /// A message of an outbox, claimed.
  [[nodiscard]] ClaimedMessage claimed(const std::string& payload = "42") const {
    return {.message = {.key = {"shop", "paid-1"},
                        .topic = "order.paid",
                        .payload = payload,
                        .headers = {{"correlationId", "session-7"}},
                        .hash = ContentHash::sha256_of(payload),
                        .priority = 3,
                        .partition_key = "customer-7",
                        .due_at = clock_.now() - seconds{1},
                        .expires_at = clock_.now() + seconds{60}},
            .history = {},
            .owner = OwnerToken::generate()};
  }
  static void publish(Publisher& publisher, const ClaimedMessage& message) {
    HandlerContext context(message, {});
    publisher.publish(message, context);
  }
  static std::string expect_permanent(Publisher& publisher, const ClaimedMessage& message) {
    try {
      publish(publisher, message);
    } catch (const PermanentFailure& failure) {
      return failure.what();
    }
    ADD_FAILURE() << "it was taken";
    return {};
  }
  [[nodiscard]] std::optional<MessageRecord> received() {
    return store_->inbox().find(MessageKey{"shop", "paid-1"});
  }

  std::unique_ptr<Store> store_ = make_store();
};

TEST_P(InboxPublisherTest, InboxGetsTheMessageUnderItsKeyWithItsHeaders) {
  RecordProperty("requirement", "MSG-04,PKT-08");
  Inbox inbox(*store_);
  InboxPublisher publisher(inbox);
  publish(publisher, claimed());
  Message expected = claimed().message;
  expected.due_at.reset();
  ASSERT_TRUE(received());
  EXPECT_EQ(received()->message, expected);
}

TEST_P(InboxPublisherTest, RepeatedPublishIsADuplicate) {
  RecordProperty("requirement", "PKT-08");
  InboxPublisher publisher(store_->inbox());
  publish(publisher, claimed());
  publish(publisher, claimed());
  EXPECT_EQ(store_->inbox().claim({.owner = OwnerToken::generate()}).size(), 1U);
  store_->inbox().mark({.key = {"shop", "paid-1"}, .as = MarkAs::processed});
  publish(publisher, claimed());
  EXPECT_EQ(received()->status, Status::done);
  EXPECT_EQ(received()->history.duplicates, 2);
}

TEST_P(InboxPublisherTest, WhatIsDeadThereWasTaken) {
  InboxPublisher publisher(store_->inbox());
  publish(publisher, claimed());
  store_->inbox().mark({.key = {"shop", "paid-1"}, .as = MarkAs::dead});
  publish(publisher, claimed());
  EXPECT_EQ(received()->status, Status::dead);
}

TEST_P(InboxPublisherTest, RejectedContentIsAPermanentFailure) {
  InboxPublisher publisher(store_->inbox(), {.on_hash_mismatch = HashMismatchPolicy::reject});
  publish(publisher, claimed());
  EXPECT_EQ(expect_permanent(publisher, claimed("43")),
            "rejected: the inbox knows other content under this key");
}

TEST_P(InboxPublisherTest, QuarantinedContentIsAPermanentFailure) {
  Inbox inbox(*store_, {.enqueue = {.on_hash_mismatch = HashMismatchPolicy::quarantine}});
  InboxPublisher publisher(inbox);
  publish(publisher, claimed());
  const std::string error = expect_permanent(publisher, claimed("43"));
  const MessageId id = quarantine_id({"shop", "paid-1"}, ContentHash::sha256_of("43"));
  EXPECT_EQ(error, "quarantined as " + id.str() + ": the inbox knows other content under this key");
}

TEST_P(InboxPublisherTest, WhatTheInboxCanNeverTakeIsAPermanentFailure) {
  memory::MemoryStore small(clock_, {.max_payload_bytes = 10});
  Inbox inbox(small);
  InboxPublisher publisher(inbox);
  expect_permanent(publisher, claimed(std::string(11, 'x')));
}

TEST_P(InboxPublisherTest, InboxThatIsAwayIsTriedAgain) {
  testing::FaultInjectingQueueStore away(store_->inbox(),
                                         [](std::string_view) { return testing::Fault::before; });
  InboxPublisher publisher(away);
  expect_error(ErrorCode::unavailable, [&] { publish(publisher, claimed()); });
}

ONCEBOX_ON_EACH_STORE(InboxPublisherTest);

}  // namespace
}  // namespace oncebox
