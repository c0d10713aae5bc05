#include "oncebox/outbox.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <string>
#include <thread>

#include "expect_error.hpp"
#include "oncebox/inbox.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;

class OutboxTest : public OnEachStore {
 protected:
  [[nodiscard]] std::optional<MessageRecord> stored(const MessageId& id) {
    return store_->outbox().find(MessageKey{"shop", id});
  }
  [[nodiscard]] std::vector<ClaimedMessage> claim() {
    return store_->outbox().claim({.owner = owner_});
  }

  const OwnerToken owner_ = OwnerToken::generate();
  std::unique_ptr<Store> store_ = make_store();
  std::ostringstream log_;
  TextLogger logger_{log_, clock_, LogLevel::debug};
  Observer observer_;
  Outbox outbox_{*store_, {.name = "shop-out", .source = "shop"}, {logger_, observer_, clock_}};
};

TEST_P(OutboxTest, MessageIsInTheOutboxWhenEnqueueReturns) {
  RecordProperty("requirement", "PKT-08");
  const OutboxReceipt receipt = outbox_.enqueue({.topic = "order.paid",
                                                 .payload = "42",
                                                 .id = "paid-1",
                                                 .headers = {{"color", "red"}},
                                                 .partition_key = "customer-7",
                                                 .priority = 3,
                                                 .due_at = clock_.now(),
                                                 .expires_at = clock_.now() + seconds{60}});
  EXPECT_EQ(receipt, (OutboxReceipt{.id = "paid-1"}));
  const auto claimed = claim();
  ASSERT_EQ(claimed.size(), 1U);
  const Message& message = claimed[0].message;
  EXPECT_EQ(message.key, (MessageKey{"shop", "paid-1"}));
  EXPECT_EQ(message.topic, Topic("order.paid"));
  EXPECT_EQ(message.payload, Payload("42"));
  EXPECT_EQ(message.headers, (Headers{{"color", "red"},
                                      {"messageId", "paid-1"},
                                      {"partitionKey", "customer-7"},
                                      {"timestamp", "2026-01-01T00:00:00.000Z"}}));
  EXPECT_EQ(message.partition_key, PartitionKey("customer-7"));
  EXPECT_EQ(message.priority, Priority(3));
  EXPECT_EQ(message.expires_at, clock_.now() + seconds{60});
  EXPECT_EQ(message.hash, ContentHash::sha256_of("42"));
  EXPECT_TRUE(store_->inbox().claim({.owner = owner_}).empty());
}

TEST_P(OutboxTest, IdIsAUuidWhenNoneIsGiven) {
  RecordProperty("requirement", "PKT-08");
  const OutboxReceipt first = outbox_.enqueue({.topic = "order.paid"});
  const OutboxReceipt second = outbox_.enqueue({.topic = "order.paid"});
  EXPECT_EQ(first.outcome.status, EnqueueStatus::accepted);
  EXPECT_EQ(second.outcome.status, EnqueueStatus::accepted);
  EXPECT_NE(first.id, second.id);
  EXPECT_EQ(Uuid::parse(first.id.str()).to_string().at(14), '7');
  EXPECT_EQ(stored(first.id)->message->headers.message_id(), first.id.str());
}

TEST_P(OutboxTest, KnownIdIsNotQueuedAgain) {
  outbox_.enqueue({.topic = "order.paid", .payload = "42", .id = "paid-1"});
  clock_.advance(seconds{1});
  const auto again = outbox_.enqueue({.topic = "order.paid", .payload = "42", .id = "paid-1"});
  EXPECT_EQ(again.outcome.status, EnqueueStatus::duplicate);
  EXPECT_EQ(claim().size(), 1U);
}

TEST_P(OutboxTest, HeadersOfTheSenderStay) {
  const Headers own{{"messageId", "m"}, {"timestamp", "t"}, {"partitionKey", "p"}};
  outbox_.enqueue({.topic = "t", .id = "1", .headers = own, .partition_key = "q"});
  EXPECT_EQ(stored("1")->message->headers, own);
}

TEST_P(OutboxTest, HandlersMessageIsTheCause) {
  RecordProperty("requirement", "MSG-04");
  Inbox inbox(*store_, {}, {logger_, observer_, clock_});
  inbox.enqueue({.key = {"web", "order-1"},
                 .topic = "order.placed",
                 .headers = {{"correlationId", "session-7"}, {"traceparent", "00-a-b-01"}}});
  const ClaimedMessage order = inbox.queue().claim({.owner = owner_}).at(0);
  const HandlerContext context(order, {});
  outbox_.enqueue({.topic = "receipt.send", .id = derived_id(context, "receipt")}, context);
  const auto receipt = stored(derived_id(MessageKey{"web", "order-1"}, "receipt"));
  ASSERT_TRUE(receipt);
  EXPECT_EQ(receipt->message->headers.correlation_id(), "session-7");
  EXPECT_EQ(receipt->message->headers.causation_id(), "order-1");
  EXPECT_EQ(receipt->message->headers.traceparent(), "00-a-b-01");

  // The handler runs again, and says the same again.
  const auto again =
      outbox_.enqueue({.topic = "receipt.send", .id = derived_id(order, "receipt")}, order);
  EXPECT_EQ(again.outcome.status, EnqueueStatus::duplicate);
}

TEST_P(OutboxTest, MessageWithTheHeadersOfItsCauseHasAnIdentityOfItsOwn) {
  RecordProperty("requirement", "MSG-04");
  const Headers incoming{{"messageId", "m-1"},
                         {"causationId", "click-3"},
                         {"idempotencyKey", "pay-1"},
                         {"timestamp", "2025-01-01T00:00:00.000Z"},
                         {"tenant", "acme"}};
  const Message order{.key = {"web", "order-1"}, .topic = "order.placed", .headers = incoming};
  outbox_.enqueue({.topic = "t", .id = "1", .headers = forwarded(incoming)}, order);
  EXPECT_EQ(stored("1")->message->headers, (Headers{{"messageId", "1"},
                                                    {"correlationId", "order-1"},
                                                    {"causationId", "order-1"},
                                                    {"timestamp", "2026-01-01T00:00:00.000Z"},
                                                    {"tenant", "acme"}}));
  outbox_.enqueue({.topic = "t", .id = "2", .headers = incoming}, order);
  EXPECT_EQ(stored("2")->message->headers.message_id(), "2");
  EXPECT_EQ(stored("2")->message->headers.causation_id(), "order-1");
}

TEST_P(OutboxTest, WhatWasNotTakenIsAPermanentFailureForWhoeverAsks) {
  const auto receipt = [](EnqueueOutcome outcome) {
    return std::vector{OutboxReceipt{.id = "0"}, OutboxReceipt{.id = "1", .outcome = outcome}};
  };
  require_taken({});
  require_taken(receipt({.status = EnqueueStatus::duplicate_done}));
  EXPECT_THROW(require_taken(receipt({.status = EnqueueStatus::rejected})), PermanentFailure);
  EXPECT_THROW(
      require_taken(receipt({.status = EnqueueStatus::quarantined, .quarantined_as = "q"})),
      PermanentFailure);
}

TEST_P(OutboxTest, FutureGetsTheReceipt) {
  auto future = outbox_.enqueue_future({.topic = "t", .id = "1"});
  EXPECT_EQ(future.get(), (OutboxReceipt{.id = "1"}));
  auto again = outbox_.enqueue_future({.topic = "t", .id = "1"});
  EXPECT_EQ(again.get().outcome.status, EnqueueStatus::duplicate);
}

TEST_P(OutboxTest, FutureGetsTheError) {
  // An outbox that does not know the limit of its store, so that the store itself refuses.
  memory::MemoryStore small(clock_, {.max_payload_bytes = 10});
  Outbox outbox(small.outbox(), {}, {logger_, observer_, clock_});
  auto future = outbox.enqueue_future({.topic = "t", .payload = std::string(11, 'x')});
  // Joins the committer, which else may be the one to free the error: ThreadSanitizer cannot see
  // that the counter in std::exception_ptr orders that.
  outbox.stop();
  expect_error(ErrorCode::invalid_argument, [&] { future.get(); });
}

TEST_P(OutboxTest, BatchIsStoredWholeOrNotAtAll) {
  RecordProperty("requirement", "PKT-08");
  std::vector<OutboxMessage> bad{{.topic = "t", .id = "1"},
                                 {.topic = "t", .id = "2", .due_at = kMaxTime + Duration{1}}};
  expect_error(ErrorCode::out_of_range, [&] { outbox_.enqueue_all(bad); });
  EXPECT_FALSE(stored("1"));
  bad[1].due_at.reset();
  bad.push_back(bad[0]);
  const auto receipts = outbox_.enqueue_all(bad);
  ASSERT_EQ(receipts.size(), 3U);
  EXPECT_EQ(receipts[1].id, MessageId("2"));
  EXPECT_EQ(receipts[1].outcome.status, EnqueueStatus::accepted);
  EXPECT_EQ(receipts[2].outcome.status, EnqueueStatus::duplicate);
  EXPECT_TRUE(outbox_.enqueue_all({}).empty());
}

TEST_P(OutboxTest, PayloadAboveTheLimitIsRefusedBeforeTheStoreIsAsked) {
  memory::MemoryStore small(clock_, {.max_payload_bytes = 10});
  Outbox outbox(small, {}, {logger_, observer_, clock_});
  expect_error(ErrorCode::invalid_argument,
               [&] { outbox.enqueue({.topic = "t", .payload = std::string(11, 'x')}); });
  EXPECT_EQ(log_.str().find("store call failed"), std::string::npos);
}

TEST_P(OutboxTest, StopRefusesMore) {
  outbox_.stop();
  expect_error(ErrorCode::unavailable, [&] { outbox_.enqueue({.topic = "t"}); });
}

TEST_P(OutboxTest, ManyCallersAreAllAnswered) {
  {
    std::vector<std::jthread> callers;
    callers.reserve(8);
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([this] {
        for (int n = 0; n < 25; ++n) outbox_.enqueue({.topic = "t"});
      });
    }
  }
  EXPECT_EQ(store_->outbox().claim({.owner = owner_, .limit = 1'000}).size(), 200U);
}

TEST_P(OutboxTest, OutboxThatNobodyListensToKeepsMessages) {
  Outbox outbox(*store_);
  const OutboxReceipt receipt = outbox.enqueue({.topic = "t"});
  EXPECT_TRUE(store_->outbox().find(MessageKey{"outbox", receipt.id}));
}

TEST_P(OutboxTest, LinesCarryItsNameAndNoPayload) {
  outbox_.enqueue({.topic = "t", .payload = "s3cret", .id = "1"});
  EXPECT_NE(log_.str().find("message enqueued store=shop-out topic=t source=shop message_id=1"),
            std::string::npos)
      << log_.str();
  EXPECT_EQ(log_.str().find("s3cret"), std::string::npos);
}

// The record ------------------------------------------------------------------------------------

TEST_P(OutboxTest, AnAttemptThatWasGivenBackUntriedDoesNotCountForADeadMessage) {
  RecordProperty("requirement", "PKT-08,R-35");
  outbox_.enqueue({.topic = "t", .id = "1"});
  for (const Verdict& verdict : {Verdict(Release{}), Verdict(Fail{.error = "no"})}) {
    const auto claimed = store_->outbox().claim({.owner = OwnerToken::generate()});
    ASSERT_EQ(claimed.size(), 1U);
    store_->outbox().settle(
        Settlement{.delivery = delivery_of(claimed.front()), .verdict = verdict});
  }
  EXPECT_EQ(outbox_.find("1")->attempts, 1);
}

TEST_P(OutboxTest, RecordTellsWhatBecameOfAMessage) {
  RecordProperty("requirement", "PKT-08");
  const TimePoint created = clock_.now();
  outbox_.enqueue({.topic = "t", .id = "1"});
  EXPECT_EQ(outbox_.find("1"), (OutboxRecord{.id = "1", .created_at = created}));
  EXPECT_FALSE(outbox_.find("2"));

  clock_.advance(seconds{1});
  store_->outbox().settle({delivery_of(claim().at(0)), Abandon{"nobody there", seconds{1}}});
  EXPECT_EQ(outbox_.find("1"),
            (OutboxRecord{
                .id = "1", .attempts = 1, .created_at = created, .last_error = "nobody there"}));

  clock_.advance(seconds{1});
  const ClaimedMessage last = claim().at(0);
  clock_.advance(seconds{1});
  store_->outbox().settle({delivery_of(last)});
  EXPECT_EQ(outbox_.find("1"), (OutboxRecord{.id = "1",
                                             .status = Status::done,
                                             .attempts = 2,
                                             .created_at = created,
                                             .dispatched_at = clock_.now(),
                                             .last_error = "nobody there"}));
}

TEST_P(OutboxTest, DeadMessageWasNeverDispatched) {
  outbox_.enqueue({.topic = "t", .id = "1"});
  store_->outbox().settle({delivery_of(claim().at(0)), Fail{"no such address"}});
  const auto record = outbox_.find("1");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->status, Status::dead);
  EXPECT_FALSE(record->dispatched_at);
  EXPECT_EQ(record->last_error, "no such address");
}

TEST_P(OutboxTest, OutboxesOfOneStoreAreToldApartByTheirSource) {
  Outbox other(*store_, {.source = "bank"}, {logger_, observer_, clock_});
  EXPECT_EQ(outbox_.enqueue({.topic = "t", .id = "1"}).outcome.status, EnqueueStatus::accepted);
  EXPECT_FALSE(other.find("1"));
  EXPECT_EQ(other.enqueue({.topic = "t", .id = "1"}).outcome.status, EnqueueStatus::accepted);
}

// With a transaction ----------------------------------------------------------------------------

/// Keeps what is enqueued until it commits.
class HeldBackTransaction final : public Transaction {
 public:
  explicit HeldBackTransaction(Store& store) : store_(store) {}

  void commit() {
    for (const auto& [queue, message] : held_) {
      (queue == QueueKind::inbox ? store_.inbox() : store_.outbox()).enqueue(message);
    }
    held_.clear();
  }

  EnqueueOptions options = {};

 private:
  std::vector<EnqueueOutcome> do_enqueue(QueueKind queue, std::span<const Message> messages,
                                         const EnqueueOptions& given) override {
    options = given;
    for (const Message& message : messages) held_.emplace_back(queue, message);
    return std::vector<EnqueueOutcome>(messages.size());
  }

  Store& store_;
  std::vector<std::pair<QueueKind, Message>> held_;
};

TEST_P(OutboxTest, InATransactionMessagesAreThereWhenItCommits) {
  RecordProperty("requirement", "PKT-09");
  HeldBackTransaction transaction(*store_);
  const OutboxReceipt receipt = outbox_.enqueue({.topic = "t", .payload = "42"}, transaction);
  const auto more =
      outbox_.enqueue_all({{.topic = "t", .id = "2"}, {.topic = "t", .id = "3"}}, transaction);
  ASSERT_EQ(more.size(), 2U);
  EXPECT_EQ(more[1].id, MessageId("3"));
  EXPECT_FALSE(outbox_.find(receipt.id));
  transaction.commit();
  ASSERT_TRUE(outbox_.find(receipt.id));
  EXPECT_EQ(stored(receipt.id)->hash, ContentHash::sha256_of("42"));
  EXPECT_TRUE(outbox_.find("2"));
}

TEST_P(OutboxTest, InATransactionTheCauseAndThePolicyHoldToo) {
  RecordProperty("requirement", "MSG-04,PKT-09");
  Outbox strict(*store_,
                {.source = "shop", .enqueue = {.on_hash_mismatch = HashMismatchPolicy::reject}},
                {logger_, observer_, clock_});
  HeldBackTransaction transaction(*store_);
  const Message cause{.key = {"web", "order-1"}, .topic = "order.placed"};
  strict.enqueue({.topic = "t", .id = "1"}, transaction, cause);
  EXPECT_EQ(transaction.options.on_hash_mismatch, HashMismatchPolicy::reject);
  transaction.commit();
  EXPECT_EQ(stored("1")->message->headers.causation_id(), "order-1");
}

TEST_P(OutboxTest, InboxTakesInWithATransactionByItsOwnRules) {
  memory::MemoryStore small(clock_, {.max_payload_bytes = 10});
  Inbox inbox(small, {.enqueue = {.on_dead = DeadPolicy::revive}}, {logger_, observer_, clock_});
  HeldBackTransaction transaction(small);
  inbox.enqueue({.key = {"web", "1"}, .topic = "t", .payload = "42"}, transaction);
  EXPECT_EQ(transaction.options.on_dead, DeadPolicy::revive);
  const Message large{.key = {"web", "2"}, .topic = "t", .payload = std::string(11, 'x')};
  expect_error(ErrorCode::invalid_argument, [&] { inbox.enqueue(large, transaction); });
  expect_error(ErrorCode::invalid_argument,
               [&] { inbox.enqueue(std::vector{large, large}, transaction); });
  EXPECT_FALSE(small.inbox().find(MessageKey{"web", "1"}));
  transaction.commit();
  EXPECT_EQ(small.inbox().find(MessageKey{"web", "1"})->hash, ContentHash::sha256_of("42"));
  EXPECT_FALSE(small.inbox().find(MessageKey{"web", "2"}));
}

ONCEBOX_ON_EACH_STORE(OutboxTest);

}  // namespace
}  // namespace oncebox
