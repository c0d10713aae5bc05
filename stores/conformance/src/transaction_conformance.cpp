// What a store with transactions promises: a handler's own changes, what it sends and the end of
// its delivery happen together or not at all, and so do a caller's own changes and what he
// enqueues.

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <semaphore>
#include <stdexcept>

#include "oncebox/conformance/transactional_harness.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/error.hpp"

namespace oncebox::conformance {
namespace {

using namespace std::chrono_literals;

Message message(const std::string& id, std::string payload = "{}") {
  return {.key = {"shop", id}, .topic = "order.paid", .payload = std::move(payload)};
}

class TransactionConformance : public ::testing::TestWithParam<TransactionalStoreUnderTest> {
 protected:
  [[nodiscard]] Store& store() { return harness_->store(); }
  [[nodiscard]] QueueStore& inbox() { return store().inbox(); }
  [[nodiscard]] QueueStore& outbox() { return store().outbox(); }

  [[nodiscard]] SettleOutcome handle(const ClaimedMessage& claimed,
                                     const TransactionalQueue::Work& work) {
    return inbox().transactional()->acknowledge_with(delivery_of(claimed), work);
  }

  ClaimedMessage claimed(const Message& message) {
    inbox().enqueue(message);
    return claim_one();
  }
  ClaimedMessage claim_one() {
    auto messages = inbox().claim({.owner = owner_, .limit = 1});
    if (messages.size() != 1) throw std::runtime_error("nothing could be claimed");
    return std::move(messages.front());
  }

  [[nodiscard]] std::int64_t effects() { return harness_->effects(); }
  [[nodiscard]] Status status(const std::string& id) {
    return inbox().find(MessageKey{"shop", id}).value().status;
  }
  [[nodiscard]] bool is_in_outbox(const std::string& id) {
    return outbox().find(MessageKey{"shop", id}).has_value();
  }

  template <class... Ids>
  static void proves(Ids... ids) {
    (RecordProperty("requirement", ids), ...);
  }

  const std::unique_ptr<TransactionalHarness> harness_ = GetParam().make_harness();
  const OwnerToken owner_ = OwnerToken::generate();
};

INSTANTIATE_TEST_SUITE_P(Stores, TransactionConformance,
                         ::testing::ValuesIn(transactional_stores_under_test()),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(TransactionConformance, RowsMessagesAndTheAcknowledgementAreCommittedTogether) {
  proves("PKT-09");
  EXPECT_TRUE(store().capabilities().joins_caller_transaction);
  const ClaimedMessage order = claimed(message("order"));
  const SettleOutcome outcome = handle(order, [&](Transaction& transaction) {
    harness_->count_effect(transaction, "order");
    const EnqueueOutcome sent = transaction.enqueue(QueueKind::outbox, message("receipt"));
    EXPECT_EQ(sent.status, EnqueueStatus::accepted);
    const EnqueueOutcome again = transaction.enqueue(QueueKind::outbox, message("receipt"));
    EXPECT_EQ(again.status, EnqueueStatus::duplicate);
    transaction.enqueue(QueueKind::inbox, message("next"));
    harness_->count_effect(transaction, "afterwards");
    EXPECT_EQ(effects(), 0) << "seen before the commit";
    EXPECT_FALSE(is_in_outbox("receipt")) << "seen before the commit";
  });
  EXPECT_EQ(outcome, SettleStatus::settled);
  EXPECT_EQ(effects(), 2);
  EXPECT_EQ(status("order"), Status::done);
  EXPECT_TRUE(is_in_outbox("receipt"));
  EXPECT_EQ(claim_one().message.key.message_id, MessageId("next"));
  EXPECT_EQ(outbox().claim({.owner = owner_}).size(), 1U);
}

TEST_P(TransactionConformance, WhatThrowsLeavesNothingBehind) {
  proves("PKT-09");
  const ClaimedMessage order = claimed(message("order"));
  const auto fails = [&](Transaction& transaction) {
    harness_->count_effect(transaction, "order");
    transaction.enqueue(QueueKind::outbox, message("receipt"));
    throw std::runtime_error("no stock");
  };
  EXPECT_THROW((void)handle(order, fails), std::runtime_error);
  EXPECT_EQ(effects(), 0);
  EXPECT_FALSE(is_in_outbox("receipt"));
  EXPECT_EQ(inbox().settle({.delivery = delivery_of(order), .verdict = Abandon{"no stock", 1s}}),
            SettleStatus::settled)
      << "the delivery was to be as before";
}

TEST_P(TransactionConformance, ALostLeaseTakesEverythingBack) {
  proves("PKT-09");
  const ClaimedMessage first = claimed(message("order"));
  harness_->advance(31s);
  const ClaimedMessage second = claim_one();
  const SettleOutcome outcome = handle(
      first, [&](Transaction& transaction) { harness_->count_effect(transaction, "order"); });
  EXPECT_EQ(outcome, SettleStatus::lease_lost);
  EXPECT_EQ(effects(), 0);
  EXPECT_EQ(inbox().settle({.delivery = delivery_of(second)}), SettleStatus::settled);
}

TEST_P(TransactionConformance, OlderContentHasNoEffect) {
  const ClaimedMessage older = claimed(message("order", "old"));
  EXPECT_EQ(inbox().enqueue(message("order", "new")).status, EnqueueStatus::superseding);
  const SettleOutcome outcome = handle(
      older, [&](Transaction& transaction) { harness_->count_effect(transaction, "order"); });
  EXPECT_NE(outcome, SettleStatus::settled);
  EXPECT_EQ(effects(), 0);
  inbox().settle({.delivery = delivery_of(older), .verdict = Release{}});
  EXPECT_EQ(claim_one().message.payload, Payload("new"));
}

TEST_P(TransactionConformance, ARefusedMessageLeavesTheTransactionAsItWas) {
  const ClaimedMessage order = claimed(message("order"));
  const std::string too_large(store().capabilities().max_payload_bytes + 1, 'x');
  const SettleOutcome outcome = handle(order, [&](Transaction& transaction) {
    harness_->count_effect(transaction, "order");
    EXPECT_THROW(transaction.enqueue(QueueKind::outbox, message("receipt", too_large)), Error);
    transaction.enqueue(QueueKind::outbox, message("other"));
  });
  EXPECT_EQ(outcome, SettleStatus::settled);
  EXPECT_EQ(effects(), 1);
  EXPECT_TRUE(is_in_outbox("other"));
}

TEST_P(TransactionConformance, TheNextOfAPartitionWaitsForTheCommit) {
  proves("PKT-08");
  Message first = message("1");
  Message second = message("2");
  first.partition_key = second.partition_key = PartitionKey("customer");
  const ClaimedMessage head = claimed(first);
  inbox().enqueue(second);
  EXPECT_THROW((void)handle(head, [](Transaction&) { throw std::runtime_error("not now"); }),
               std::runtime_error);
  EXPECT_TRUE(inbox().claim({.owner = owner_}).empty());
  EXPECT_EQ(handle(head, [](Transaction&) {}), SettleStatus::settled);
  EXPECT_EQ(claim_one().message.key.message_id, MessageId("2"));
}

TEST_P(TransactionConformance, MessagesOfOneClaimAreHandledAtTheSameTime) {
  proves("PKT-09");
  constexpr std::size_t kMessages = 200;
  std::vector<Message> messages;
  for (std::size_t i = 0; i < kMessages; ++i) messages.push_back(message(std::to_string(i)));
  inbox().enqueue(messages);

  std::mutex mutex;
  std::map<std::string, int> calls;
  std::atomic<std::size_t> handled = 0;
  std::binary_semaphore all_handled(0);
  Handlers handlers;
  handlers.on("order.*",
              [&](const ClaimedMessage& order, Transaction& transaction, HandlerContext&) {
                const std::string id = order.message.key.message_id.str();
                harness_->count_effect(transaction, id);
                transaction.enqueue(QueueKind::outbox, message("receipt of " + id));
                const std::lock_guard lock(mutex);
                if (++calls[id] == 1 && calls.size() % 3 == 0)
                  throw RetryAfter(1ms, "the first time, some");
              });
  class Count final : public Observer {
   public:
    explicit Count(std::function<void()> on_done) : on_done_(std::move(on_done)) {}
    void on_settle(const Settlement& settlement, const SettleOutcome& outcome) noexcept override {
      const bool is_done = std::holds_alternative<Ack>(settlement.verdict);
      if (is_done && outcome == SettleStatus::settled) on_done_();
    }

   private:
    std::function<void()> on_done_;
  };
  Count observer([&] {
    if (++handled == kMessages) all_handled.release();
  });
  NullLogger logger;
  const SystemClock clock;
  Dispatcher dispatcher(inbox(), handlers, {.workers = 4}, {logger, observer, clock});
  dispatcher.start();
  for (int i = 0; i < 100'000 && !all_handled.try_acquire_for(10ms); ++i) {
    harness_->advance(10ms);  // what failed becomes due
    dispatcher.wake();
  }
  dispatcher.stop();
  EXPECT_EQ(harness_->effects_counted_once(), kMessages);
  EXPECT_EQ(effects(), kMessages);
  EXPECT_EQ(dispatcher.stats().handled, kMessages);
  EXPECT_EQ(store().outbox_operator().count({}), kMessages);
  EXPECT_EQ(store().inbox_operator().count({.statuses = {Status::done}}), kMessages);
}

TEST_P(TransactionConformance, WhatACallerEnqueuesIsThereWithHisCommit) {
  proves("PKT-09");
  const std::unique_ptr<Caller> caller = harness_->caller();
  caller->begin();
  caller->count_effect("order");
  EXPECT_EQ(caller->joined().enqueue(QueueKind::outbox, message("receipt")).status,
            EnqueueStatus::accepted);
  EXPECT_EQ(caller->joined().enqueue(QueueKind::inbox, message("order")).status,
            EnqueueStatus::accepted);
  EXPECT_FALSE(is_in_outbox("receipt"));
  EXPECT_TRUE(outbox().find(MessageKey{"shop", "receipt"}) == std::nullopt);
  caller->commit();
  EXPECT_EQ(effects(), 1);
  EXPECT_TRUE(is_in_outbox("receipt"));
  EXPECT_EQ(outbox().claim({.owner = owner_}).size(), 1U);
  EXPECT_EQ(claim_one().message.key.message_id, MessageId("order"));

  caller->begin();
  EXPECT_EQ(caller->joined().enqueue(QueueKind::outbox, message("receipt")).status,
            EnqueueStatus::duplicate);
  EXPECT_EQ(caller->joined().enqueue(QueueKind::inbox, message("order", "other")).status,
            EnqueueStatus::superseding);
  caller->commit();
}

TEST_P(TransactionConformance, WhatACallerTakesBackWasNeverThere) {
  proves("PKT-09");
  const std::unique_ptr<Caller> caller = harness_->caller();
  for (int round = 0; round < 3; ++round) {
    caller->begin();
    caller->count_effect("order");
    EXPECT_EQ(caller->joined().enqueue(QueueKind::outbox, message("receipt")).status,
              EnqueueStatus::accepted);
    caller->roll_back();
  }
  EXPECT_EQ(effects(), 0);
  EXPECT_FALSE(is_in_outbox("receipt"));
  EXPECT_EQ(outbox().enqueue(message("receipt")).status, EnqueueStatus::accepted);
}

TEST_P(TransactionConformance, ACallerWithoutATransactionIsTold) {
  const std::unique_ptr<Caller> caller = harness_->caller();
  try {
    caller->joined().enqueue(QueueKind::outbox, message("receipt"));
    FAIL() << "nothing to join";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::conflict);
  }
  EXPECT_FALSE(is_in_outbox("receipt"));
}

TEST_P(TransactionConformance, ACommitOfACallerWakesTheWorker) {
  proves("PKT-09");
  std::binary_semaphore handled(0);
  Handlers handlers;
  handlers.on("*", [&](const ClaimedMessage&, HandlerContext&) { handled.release(); });
  // Polling would take it a minute.
  Dispatcher dispatcher(outbox(), handlers, {.poll_interval = 1min, .max_poll_interval = 1min});
  dispatcher.start();
  const std::unique_ptr<Caller> caller = harness_->caller();
  for (int i = 0; i < 3; ++i) {
    caller->begin();
    caller->joined().enqueue(QueueKind::outbox, message(std::to_string(i)));
    caller->commit();
    EXPECT_TRUE(handled.try_acquire_for(30s)) << "nobody was woken by commit " << i;
  }
}

TEST_P(TransactionConformance, WhatAHandlerSendsWakesTheWorkerOfTheOutbox) {
  proves("PKT-09");
  std::binary_semaphore published(0);
  Handlers publishers;
  publishers.on("*", [&](const ClaimedMessage&, HandlerContext&) { published.release(); });
  Dispatcher publishing(outbox(), publishers, {.poll_interval = 1min, .max_poll_interval = 1min});
  publishing.start();
  for (int i = 0; i < 3; ++i) {
    const ClaimedMessage order = claimed(message("order " + std::to_string(i)));
    EXPECT_EQ(handle(order,
                     [&](Transaction& transaction) {
                       transaction.enqueue(QueueKind::outbox, message(std::to_string(i)));
                     }),
              SettleStatus::settled);
    EXPECT_TRUE(published.try_acquire_for(30s)) << "nobody was woken by commit " << i;
  }
}

}  // namespace
}  // namespace oncebox::conformance
