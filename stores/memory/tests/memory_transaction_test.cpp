// Handlers inside transactions of a memory store, and callers with transactions of their own.

#include "oncebox/memory/transaction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "failing_allocations.hpp"
#include "oncebox/conformance/transactional_harness.hpp"
#include "oncebox/error.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/testing/fake_clock.hpp"

namespace oncebox::memory {
namespace {

using namespace std::chrono_literals;

/// How often something was done: what a handler's own rows are on a database.
class CountedEffects {
 public:
  void count_in(Transaction& transaction, const std::string& name) {
    on_commit(transaction, [this, name] {
      const std::lock_guard lock(mutex_);
      ++times_[name];
    });
  }
  [[nodiscard]] std::int64_t names() const {
    const std::lock_guard lock(mutex_);
    return std::ssize(times_);
  }
  [[nodiscard]] std::int64_t counted_once() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::count(times_, 1, [](const auto& entry) { return entry.second; });
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> times_;
};

class MemoryCaller final : public conformance::Caller {
 public:
  MemoryCaller(MemoryStore& store, CountedEffects& effects) : store_(store), effects_(effects) {
    joined_.emplace(store_).roll_back();
  }
  void begin() override { joined_.emplace(store_); }
  void commit() override { joined_->commit(); }
  void roll_back() override { joined_->roll_back(); }
  void count_effect(const std::string& name) override { effects_.count_in(*joined_, name); }
  Transaction& joined() override { return *joined_; }

 private:
  MemoryStore& store_;
  CountedEffects& effects_;
  std::optional<CallerTransaction> joined_;
};

class MemoryTransactionalHarness final : public conformance::TransactionalHarness {
 public:
  Store& store() override { return store_; }
  void advance(Duration by) override { clock_.advance(by); }
  void count_effect(Transaction& transaction, const std::string& name) override {
    effects_.count_in(transaction, name);
  }
  std::int64_t effects() override { return effects_.names(); }
  std::int64_t effects_counted_once() override { return effects_.counted_once(); }
  std::unique_ptr<conformance::Caller> caller() override {
    return std::make_unique<MemoryCaller>(store_, effects_);
  }

 private:
  testing::FakeClock clock_;
  MemoryStore store_{clock_, {.max_payload_bytes = std::size_t{1} << 20}};
  CountedEffects effects_;
};

std::optional<ErrorCode> code_of(const std::function<void()>& call) {
  try {
    call();
    return std::nullopt;
  } catch (const Error& error) {
    return error.code();
  }
}

void elsewhere(const std::function<void()>& call) { std::jthread{call}.join(); }

Message paid_order(const std::string& id, std::string payload = "{}") {
  return {.key = {"shop", id}, .topic = "order.paid", .payload = std::move(payload)};
}

class MemoryTransactionTest : public ::testing::Test {
 protected:
  Delivery claimed(const std::string& id) {
    inbox_.enqueue(paid_order(id));
    return delivery_of(inbox_.claim({.owner = OwnerToken::generate()}).at(0));
  }
  SettleOutcome handle(const Delivery& delivery, const TransactionalQueue::Work& work) {
    return inbox_.transactional()->acknowledge_with(delivery, work);
  }
  SettleOutcome handle(const TransactionalQueue::Work& work) {
    return handle(claimed("order"), work);
  }

  static void proves(const char* ids) { RecordProperty("requirement", ids); }

  testing::FakeClock clock_;
  MemoryStore store_{clock_, {.max_messages = 10'000}};
  QueueStore& inbox_ = store_.inbox();
  QueueStore& outbox_ = store_.outbox();
  CountedEffects effects_;
};

TEST_F(MemoryTransactionTest, AHandlerThatCallsItsStoreIsToldAsOnADatabase) {
  Outbox outbox(store_, {.source = "shop"});
  const SettleOutcome outcome = handle([&](Transaction& transaction) {
    for (const std::function<void()>& call : std::vector<std::function<void()>>{
             [&] { outbox_.enqueue(paid_order("1")); },
             [&] { outbox.enqueue({.topic = "t", .payload = "{}"}); },
             [&] { (void)inbox_.claim({.owner = OwnerToken::generate()}); },
             [&] { store_.keys().begin({.key = "k"}); },
             [&] { store_.inbox_operator().cleanup({}); }}) {
      EXPECT_EQ(code_of(call), ErrorCode::conflict);
    }
    EXPECT_TRUE(inbox_.find({"shop", "order"})) << "reading waits for nobody";
    outbox.enqueue({.topic = "t", .payload = "{}"}, transaction);
    elsewhere([&] { outbox_.enqueue(paid_order("by another thread")); });
  });
  EXPECT_EQ(outcome, SettleStatus::settled);
  EXPECT_EQ(store_.outbox_operator().count({}), 2U);
  EXPECT_EQ(outbox_.enqueue(paid_order("afterwards")).status, EnqueueStatus::accepted);
}

TEST_F(MemoryTransactionTest, WhatItWasToldHoldsAtTheCommitOrTheHandlerRunsAgain) {
  proves("PKT-09");
  std::vector<EnqueueStatus> told;
  const SettleOutcome outcome = handle([&](Transaction& transaction) {
    effects_.count_in(transaction, "order");
    told.push_back(transaction.enqueue(QueueKind::outbox, paid_order("receipt")).status);
    elsewhere([&] { outbox_.enqueue(paid_order("receipt")); });
  });
  EXPECT_EQ(outcome, SettleStatus::settled);
  EXPECT_EQ(told, (std::vector{EnqueueStatus::accepted, EnqueueStatus::duplicate}));
  EXPECT_EQ(effects_.counted_once(), 1) << "what the first run did was to have no effect";
}

TEST_F(MemoryTransactionTest, ACallerIsToldWhenWhatHeWasToldDoesNotHold) {
  proves("PKT-09");
  CallerTransaction transaction(store_);
  effects_.count_in(transaction, "order");
  transaction.enqueue(QueueKind::inbox, paid_order("other"));
  EXPECT_EQ(transaction.enqueue(QueueKind::outbox, paid_order("receipt")).status,
            EnqueueStatus::accepted);
  outbox_.enqueue(paid_order("receipt"));
  EXPECT_EQ(code_of([&] { transaction.commit(); }), ErrorCode::conflict);
  EXPECT_FALSE(inbox_.find({"shop", "other"}));
  EXPECT_EQ(effects_.names(), 0);
  EXPECT_EQ(code_of([&] { transaction.commit(); }), ErrorCode::conflict) << "it is over";
}

TEST_F(MemoryTransactionTest, ALeaseThatBeginsMeanwhileDoesNotMakeAnUpdateUntrue) {
  inbox_.enqueue(paid_order("order", "old"));
  CallerTransaction transaction(store_);
  EXPECT_EQ(transaction.enqueue(QueueKind::inbox, paid_order("order", "new")).status,
            EnqueueStatus::updated);
  const auto held = inbox_.claim({.owner = OwnerToken::generate()});
  transaction.commit();
  EXPECT_EQ(inbox_.settle({.delivery = delivery_of(held.at(0))}), SettleStatus::superseded);
}

TEST_F(MemoryTransactionTest, KnowsWhatItEnqueuedBefore) {
  const EnqueueOptions quarantines{.on_hash_mismatch = HashMismatchPolicy::quarantine};
  Message first = paid_order("order", "first");
  first.hash = ContentHash::sha256_of(first.payload);
  Message other = paid_order("order", "other");
  other.hash = ContentHash::sha256_of(other.payload);
  CallerTransaction transaction(store_);
  const std::vector<Message> batch{paid_order("1", "a"), paid_order("1", "b"),
                                   paid_order("2", "a")};
  const auto outcomes = transaction.enqueue(QueueKind::inbox, batch);
  EXPECT_EQ(outcomes.at(1).status, EnqueueStatus::updated);
  EXPECT_EQ(transaction.enqueue(QueueKind::inbox, paid_order("1", "b")).status,
            EnqueueStatus::duplicate);
  EXPECT_EQ(transaction.enqueue(QueueKind::outbox, first, quarantines).status,
            EnqueueStatus::accepted);
  EnqueueOutcome apart = transaction.enqueue(QueueKind::outbox, other, quarantines);
  EXPECT_EQ(apart.status, EnqueueStatus::quarantined);
  EXPECT_TRUE(std::exchange(apart.newly_dead, false));
  EXPECT_EQ(transaction.enqueue(QueueKind::outbox, other, quarantines), apart);
  EXPECT_EQ(store_.inbox_operator().count({}) + store_.outbox_operator().count({}), 0U);
  transaction.commit();
  EXPECT_EQ(inbox_.find({"shop", "1"})->message->payload, Payload("b"));
  EXPECT_EQ(outbox_.find({"shop", "order"})->message->payload, Payload("first"));
  EXPECT_EQ(outbox_.find({"shop", apart.quarantined_as->str()})->status, Status::dead);
}

TEST_F(MemoryTransactionTest, AsManyMessagesAsTheStoreMayHold) {
  CallerTransaction transaction(store_);
  for (int i = 0; i < 10'000; ++i) {
    transaction.enqueue(QueueKind::outbox, paid_order(std::to_string(i)));
  }
  transaction.commit();
  EXPECT_EQ(store_.outbox_operator().count({}), 10'000U);

  CallerTransaction one_more(store_);
  effects_.count_in(one_more, "order");
  EXPECT_EQ(code_of([&] { one_more.enqueue(QueueKind::outbox, paid_order("one more")); }),
            ErrorCode::overloaded);
  one_more.enqueue(QueueKind::inbox, paid_order("another queue"));
  one_more.commit();
  EXPECT_EQ(effects_.names(), 1);
  EXPECT_EQ(store_.outbox_operator().count({}), 10'000U);
}

TEST_F(MemoryTransactionTest, ABoundThatIsReachedAtTheCommitTakesEverythingBack) {
  MemoryStore small(clock_, {.max_messages = 1});
  CallerTransaction transaction(small);
  transaction.enqueue(QueueKind::inbox, paid_order("order"));
  transaction.enqueue(QueueKind::outbox, paid_order("receipt"));
  small.outbox().enqueue(paid_order("of another"));
  EXPECT_EQ(code_of([&] { transaction.commit(); }), ErrorCode::overloaded);
  EXPECT_FALSE(small.inbox().find({"shop", "order"}));
}

TEST_F(MemoryTransactionTest, OutOfMemoryAtAnyMomentLeavesNothingOrAllOfIt) {
  proves("PKT-09,IBX-102");
  outbox_.enqueue(paid_order("known", "old"));
  const Delivery delivery = claimed("order");
  int effects = 0;
  const auto work = [&](Transaction& transaction) {
    on_commit(transaction, [&effects] { ++effects; });
    transaction.enqueue(QueueKind::inbox, paid_order("next"));
    transaction.enqueue(QueueKind::outbox, paid_order("receipt"));
    transaction.enqueue(QueueKind::outbox, paid_order("known", "new"));
  };
  for (int step = 0;; ++step) {
    try {
      const FailingAllocation failure(step);
      EXPECT_EQ(handle(delivery, work), SettleStatus::settled);
    } catch (const std::bad_alloc&) {
      ASSERT_EQ(inbox_.find({"shop", "order"})->status, Status::processing) << "step " << step;
      ASSERT_FALSE(inbox_.find({"shop", "next"})) << "step " << step;
      ASSERT_FALSE(outbox_.find({"shop", "receipt"})) << "step " << step;
      ASSERT_EQ(outbox_.find({"shop", "known"})->message->payload, Payload("old"));
      ASSERT_EQ(effects, 0) << "step " << step;
      continue;
    }
    EXPECT_GT(step, 10) << "hardly anything failed";
    break;
  }
  EXPECT_EQ(inbox_.find({"shop", "order"})->status, Status::done);
  EXPECT_TRUE(inbox_.find({"shop", "next"}));
  EXPECT_TRUE(outbox_.find({"shop", "receipt"}));
  EXPECT_EQ(outbox_.find({"shop", "known"})->message->payload, Payload("new"));
  EXPECT_EQ(effects, 1);
}

TEST_F(MemoryTransactionTest, HandlersOfBothQueuesThatSendToEachOtherGetThrough) {
  proves("PKT-09");
  constexpr int kMessages = 200;
  const auto move_all = [](QueueStore& from, QueueKind to, const std::string& name) {
    for (int i = 0; i < kMessages; ++i) from.enqueue(paid_order(name + std::to_string(i)));
    for (int handled = 0; handled < kMessages;) {
      for (const ClaimedMessage& one : from.claim({.owner = OwnerToken::generate(), .limit = 4})) {
        const std::string id = one.message.key.message_id.str();
        const bool is_own = id.starts_with(name);
        const SettleOutcome outcome =
            from.transactional()->acknowledge_with(delivery_of(one), [&](Transaction& transaction) {
              if (is_own) transaction.enqueue(to, paid_order("from " + id));
            });
        EXPECT_EQ(outcome, SettleStatus::settled);
        if (is_own) ++handled;
      }
    }
  };
  {
    std::jthread in([&] { move_all(inbox_, QueueKind::outbox, "in"); });
    std::jthread out([&] { move_all(outbox_, QueueKind::inbox, "out"); });
  }
  EXPECT_EQ(store_.inbox_operator().count({}), 2U * kMessages);
  EXPECT_EQ(store_.outbox_operator().count({}), 2U * kMessages);
}

TEST_F(MemoryTransactionTest, ATransactionOfAnotherStoreHasNoEffectsOfOurs) {
  class Other final : public Transaction {
    std::vector<EnqueueOutcome> do_enqueue(QueueKind, std::span<const Message>,
                                           const EnqueueOptions&) override {
      return {};
    }
  };
  Other other;
  EXPECT_EQ(code_of([&] { on_commit(other, [] {}); }), ErrorCode::unsupported);
}

TEST_F(MemoryTransactionTest, WhatIsNotCommittedIsRolledBack) {
  {
    CallerTransaction transaction(store_);
    effects_.count_in(transaction, "order");
    transaction.enqueue(QueueKind::outbox, paid_order("receipt"));
  }
  EXPECT_FALSE(outbox_.find({"shop", "receipt"}));
  EXPECT_EQ(effects_.names(), 0);
}

}  // namespace
}  // namespace oncebox::memory

std::vector<oncebox::conformance::TransactionalStoreUnderTest>
oncebox::conformance::transactional_stores_under_test() {
  return {{.name = "memory",
           .make_harness = [] { return std::make_unique<memory::MemoryTransactionalHarness>(); }}};
}
