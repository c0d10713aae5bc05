// What is enqueued while somebody offers to take it. It must be as if it had been claimed.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "messages.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/driver/claim_offer.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;

class NotingOffer final : public ClaimOffer {
 public:
  using ClaimOffer::ClaimOffer;

  [[nodiscard]] bool is_answered() const noexcept { return is_answered_; }
  std::vector<ClaimedMessage> handed_over;

 private:
  void on_answer(std::vector<ClaimedMessage> claimed) noexcept override {
    handed_over = std::move(claimed);
    is_answered_ = true;
  }
  bool is_answered_ = false;
};

class CountingListener final : public WorkListener {
 public:
  void on_work() noexcept override { ++told; }
  std::atomic<int> told = 0;
};

class OffersTest : public ::testing::Test {
 protected:
  std::shared_ptr<NotingOffer> offer(TopicSelection topics = {}) {
    auto made = std::make_shared<NotingOffer>(request(std::move(topics)));
    queue().offer(made);
    return made;
  }
  ClaimRequest request(TopicSelection topics = {}) {
    return {.owner = owner_, .lease = 30s, .limit = 1'000, .topics = std::move(topics)};
  }

  [[nodiscard]] QueueStore& queue() { return store_.inbox(); }
  [[nodiscard]] std::int64_t rows(const std::string& table) {
    return space_.number("SELECT count(*) FROM {schema}.oncebox_inbox_" + table);
  }
  [[nodiscard]] MessageRecord find(const std::string& id) {
    return queue().find(MessageKey{"shop", id}).value();
  }
  SettleOutcome settle(const ClaimedMessage& claimed, Verdict verdict = Ack{}) {
    return queue().settle({.delivery = delivery_of(claimed), .verdict = std::move(verdict)});
  }

  TestSpace space_;
  testing::FakeClock clock_;
  PostgresqlStore store_{space_.options(), clock_};
  const OwnerToken owner_ = OwnerToken::generate();
};

TEST_F(OffersTest, NewMessageIsAcceptedAndLeasedToTheOneWhoOffers) {
  RecordProperty("requirement", "IBX-013,IBX-034,IBX-035,IBX-036,IBX-106");
  const auto listener = std::make_shared<CountingListener>();
  queue().listen(listener);
  while (listener->told == 0) std::this_thread::yield();  // that the store listens now
  const int told = listener->told;
  const auto made = offer();
  EXPECT_EQ(queue().enqueue(message("a")), EnqueueOutcome{});
  ASSERT_EQ(made->handed_over.size(), 1U);
  const ClaimedMessage& got = made->handed_over.front();
  EXPECT_EQ(got.message, message("a"));
  EXPECT_EQ(got.owner, owner_);
  EXPECT_EQ(got.locked_until, clock_.now() + 30s);
  const MessageRecord record = find("a");
  EXPECT_EQ(record.status, Status::processing);
  EXPECT_EQ(record.lease, (MessageLease{.owner = owner_,
                                        .delivery = got.delivery,
                                        .locked_until = got.locked_until,
                                        .leased_at = clock_.now(),
                                        .worker = this_process()}));
  EXPECT_TRUE(queue().claim(request()).empty());
  EXPECT_EQ(listener->told, told) << "nobody has anything to claim";
  EXPECT_EQ(settle(got), SettleStatus::settled);
  EXPECT_EQ(find("a").status, Status::done);
}

/// Sends the same through the outbox, where it is enqueued and claimed as ever, and compares.
class OffersAgainstClaimsTest : public OffersTest {
 protected:
  static std::vector<Message> all_kinds() {
    Message rich = message("a");
    rich.headers = {{"trace", "1"}};
    rich.hash = ContentHash::sha256_of(rich.payload);
    rich.priority = 7;
    return {rich, message("b"), message("c"), message("d"), message("e", "mail.sent")};
  }

  void send(std::span<const Message> messages) {
    const auto made = offer();
    queue().enqueue(messages);
    store_.outbox().enqueue(messages);
    here_.insert(here_.end(), made->handed_over.begin(), made->handed_over.end());
  }

  void claim() {
    there_ = store_.outbox().claim(request());
    ASSERT_EQ(here_.size(), there_.size());
    for (std::size_t i = 0; i < here_.size(); ++i) {
      ClaimedMessage expected = there_[i];
      expected.delivery = here_[i].delivery;
      expected.attempt_limit = RetryPolicy().limit();  // the outbox has its own
      EXPECT_EQ(here_[i], expected);
    }
  }

  void expect_same_records() {
    for (const ClaimedMessage& one : here_) {
      std::optional<MessageRecord> here = queue().find(one.message.key);
      const std::optional<MessageRecord> there = store_.outbox().find(one.message.key);
      ASSERT_TRUE(here && there);
      ASSERT_EQ(here->lease.has_value(), there->lease.has_value());
      if (here->lease) here->lease->delivery = there->lease->delivery;
      EXPECT_EQ(here, there);
    }
    EXPECT_EQ(store_.inbox_operator().stats().total().done,
              store_.outbox_operator().stats().total().done);
  }

  static std::vector<Settlement> settlements(const std::vector<ClaimedMessage>& claimed) {
    const std::vector<Verdict> verdicts{Ack{}, Abandon{"later", 1s}, Fail{"no"}, Release{}, Ack{}};
    std::vector<Settlement> all;
    for (std::size_t i = 0; i < claimed.size(); ++i) {
      all.push_back({.delivery = delivery_of(claimed[i]), .verdict = verdicts.at(i)});
    }
    return all;
  }

  void live() {
    claim();
    expect_same_records();
    clock_.advance(1s);
    const auto extended = [](QueueStore& queue, const ClaimedMessage& claimed) {
      return queue.extend({.delivery = delivery_of(claimed), .lease = 60s});
    };
    EXPECT_EQ(extended(queue(), here_.at(1)), extended(store_.outbox(), there_.at(1)));
    expect_same_records();
    EXPECT_EQ(queue().settle(settlements(here_)), store_.outbox().settle(settlements(there_)));
    expect_same_records();
  }

  std::vector<ClaimedMessage> here_;
  std::vector<ClaimedMessage> there_;
};

TEST_F(OffersAgainstClaimsTest, MessagesThatAreHandedOverOneByOneLiveAsIfTheyWereClaimed) {
  RecordProperty("requirement", "IBX-036,R-09");
  for (const Message& one : all_kinds()) send({&one, 1});
  live();
}

TEST_F(OffersAgainstClaimsTest, MessagesThatAreHandedOverTogetherLiveAsIfTheyWereClaimed) {
  RecordProperty("requirement", "IBX-036,R-09");
  send(all_kinds());
  live();
}

TEST_F(OffersTest, BatchIsHandedOverWholeAndInRuns) {
  RecordProperty("requirement", "IBX-030,R-17");
  std::vector<Message> batch;
  for (int i = 0; i < 200; ++i) batch.push_back(message(std::to_string(i)));
  batch[150].priority = 9;
  const auto made = offer();
  for (const EnqueueOutcome& outcome : queue().enqueue(batch)) EXPECT_EQ(outcome, EnqueueOutcome{});
  ASSERT_EQ(made->handed_over.size(), 200U);
  EXPECT_EQ(made->handed_over.front().message.key.message_id.str(), "150") << "by priority first";
  EXPECT_EQ(made->handed_over[1].message.key.message_id.str(), "0");
  EXPECT_EQ(made->handed_over.back().message.key.message_id.str(), "199");
  EXPECT_LE(rows("run"), 6);
  EXPECT_EQ(rows("work"), 0);
  std::vector<Settlement> acknowledgements;
  for (const ClaimedMessage& one : made->handed_over) {
    acknowledgements.push_back({.delivery = delivery_of(one)});
  }
  for (const SettleOutcome& outcome : queue().settle(acknowledgements)) {
    EXPECT_EQ(outcome, SettleStatus::settled);
  }
  EXPECT_EQ(rows("run"), 0);
  EXPECT_EQ(store_.inbox_operator().stats().total().done, 200U);
}

TEST_F(OffersTest, KnownKeysGoTheirOrdinaryWayAndLeaveTheOfferOpen) {
  RecordProperty("requirement", "IBX-014,R-06,R-07");
  queue().enqueue(std::vector{message("done"), message("ready")});
  for (const ClaimedMessage& one : queue().claim(request())) {
    settle(one, one.message.key.message_id.str() == "done" ? Verdict(Ack{}) : Verdict(Release{}));
  }
  const auto made = offer();
  EXPECT_EQ(queue().enqueue(message("done")).status, EnqueueStatus::duplicate_done);
  EXPECT_EQ(queue().enqueue(message("ready")).status, EnqueueStatus::duplicate);
  const auto outcomes = queue().enqueue(std::vector{message("new"), message("done")});
  EXPECT_EQ(outcomes[0].status, EnqueueStatus::accepted);
  EXPECT_EQ(outcomes[1].status, EnqueueStatus::duplicate_done);
  const std::vector twice{message("twice"), message("twice")};
  EXPECT_EQ(queue().enqueue(twice)[1].status, EnqueueStatus::duplicate);
  EXPECT_FALSE(made->is_answered());
  EXPECT_EQ(queue().claim(request()).size(), 3U) << "ready, new, twice";
  queue().enqueue(message("last"));
  EXPECT_EQ(made->handed_over.size(), 1U);
}

TEST_F(OffersTest, OtherHashUnderAKnownKeyIsTreatedAsEver) {
  RecordProperty("requirement", "R-18");
  Message first = message("a");
  first.hash = ContentHash::sha256_of(first.payload);
  queue().enqueue(first);
  const auto made = offer();
  Message other = message("a");
  other.payload = "other";
  other.hash = ContentHash::sha256_of(other.payload);
  const EnqueueOutcome outcome =
      queue().enqueue(other, {.on_hash_mismatch = HashMismatchPolicy::reject});
  EXPECT_EQ(outcome.status, EnqueueStatus::rejected);
  EXPECT_TRUE(outcome.hash_mismatch);
  EXPECT_FALSE(made->is_answered());
}

TEST_F(OffersTest, WhatTheOfferDoesNotAcceptIsReadyForOthers) {
  RecordProperty("requirement", "IBX-023,IBX-031,IBX-032,R-17");
  const auto made = offer({.only = {"order.*"}});
  Message later = message("later");
  later.due_at = clock_.now() + 1h;
  Message mortal = message("mortal");
  mortal.expires_at = clock_.now() + 1h;
  Message partitioned = message("partitioned");
  partitioned.partition_key = "customer-7";
  for (const Message& one : {later, mortal, partitioned, message("mail", "mail.sent")}) {
    EXPECT_EQ(queue().enqueue(one).status, EnqueueStatus::accepted);
    EXPECT_FALSE(find(one.key.message_id.str()).lease);
  }
  EXPECT_FALSE(made->is_answered());
  EXPECT_EQ(queue().claim(request()).size(), 3U);
}

TEST_F(OffersTest, WhatARuleRestrictsIsLeftToClaims) {
  RecordProperty("requirement", "R-31");
  PostgresqlStore elsewhere(space_.options(), clock_);
  const auto set_rule = [&](const TopicPolicyChange& change) {
    elsewhere.policies().update(QueueKind::inbox, "order.*", change);
  };
  const auto made = offer();
  set_rule({.paused = true});
  queue().enqueue(message("a"));
  EXPECT_EQ(find("a").waiting_for, WaitingFor::pause);
  EXPECT_TRUE(queue().claim(request()).empty());
  set_rule({.limits = {.max_concurrency = 1}, .paused = false});
  queue().enqueue(message("b"));
  EXPECT_EQ(queue().claim(request()).size(), 1U);
  queue().enqueue(message("c"));
  EXPECT_FALSE(made->is_answered());
  EXPECT_EQ(find("c").state, State::ready);

  elsewhere.policies().remove(QueueKind::inbox, "order.*");
  EXPECT_EQ(queue().claim(request()).size(), 2U) << "now it knows";
  queue().enqueue(message("d"));
  EXPECT_EQ(made->handed_over.size(), 1U);

  const auto late = offer();
  set_rule({.paused = true});
  queue().enqueue(message("e"));
  EXPECT_FALSE(late->is_answered()) << "it does not know yet, but the database does";
  EXPECT_EQ(find("e").waiting_for, WaitingFor::pause);
}

TEST_F(OffersTest, WhatIsHandedOverTellsWhereItsAttemptsEnd) {
  RecordProperty("requirement", "R-31");
  PostgresqlStore elsewhere(space_.options(), clock_);
  const auto before = offer();
  queue().enqueue(message("a"));
  EXPECT_EQ(before->handed_over.at(0).attempt_limit, RetryPolicy().limit());
  elsewhere.policies().update(QueueKind::inbox, "order.*", {.max_attempts = 3});
  const auto after = offer();
  queue().enqueue(message("b"));
  EXPECT_FALSE(after->is_answered()) << "it does not know the rule yet, but the database does";
  EXPECT_EQ(queue().claim(request()).at(0).attempt_limit, AttemptLimit{3});
  queue().enqueue(message("c"));
  EXPECT_EQ(after->handed_over.at(0).attempt_limit, AttemptLimit{3});
}

TEST_F(OffersTest, WithdrawnOfferGetsNothing) {
  const auto made = offer();
  ASSERT_TRUE(made->withdraw());
  queue().enqueue(message("a"));
  EXPECT_FALSE(made->is_answered());
  EXPECT_EQ(queue().claim(request()).size(), 1U);
}

TEST_F(OffersTest, WhatIsNotSettledLapsesAndFencesTheFirstHolder) {
  RecordProperty("requirement", "IBX-068,R-14,R-15,R-16");
  const auto made = offer();
  queue().enqueue(message("a"));
  const ClaimedMessage first = made->handed_over.at(0);
  clock_.advance(30s);
  const std::vector<ClaimedMessage> second =
      queue().claim({.owner = OwnerToken::generate(), .lease = 30s});
  ASSERT_EQ(second.size(), 1U);
  EXPECT_GT(second[0].delivery, first.delivery);
  EXPECT_EQ(second[0].history.deliveries, 2);
  EXPECT_EQ(second[0].history.lapses, 1);
  EXPECT_EQ(settle(first), SettleStatus::lease_lost);
  EXPECT_EQ(settle(second[0]), SettleStatus::settled);
}

TEST_F(OffersTest, HandingOverCountsAsADelivery) {
  RecordProperty("requirement", "R-10");
  const auto made = offer();
  queue().enqueue(message("a"));
  ASSERT_EQ(made->handed_over.size(), 1U);
  clock_.advance(30s);
  store_.policies().update(QueueKind::inbox, "*", {.max_deliveries = 1});
  EXPECT_EQ(queue().reap().buried, 1U);
  EXPECT_EQ(find("a").status, Status::dead);
}

TEST_F(OffersTest, NumbersOfDeliveriesAreNeverShared) {
  RecordProperty("requirement", "R-15");
  std::uint64_t last = 0;
  std::set<std::uint64_t> all;
  const auto expect_later = [&](const std::vector<ClaimedMessage>& claimed) {
    ASSERT_FALSE(claimed.empty());
    for (const ClaimedMessage& one : claimed) {
      EXPECT_GT(static_cast<std::uint64_t>(one.delivery), last);
      EXPECT_TRUE(all.insert(static_cast<std::uint64_t>(one.delivery)).second);
    }
    last = *all.rbegin();
  };
  int number = 0;
  const auto next = [&](int count) {
    std::vector<Message> messages;
    for (int i = 0; i < count; ++i) messages.push_back(message(std::to_string(number++)));
    return messages;
  };
  for (const int count : {1, 100, 1, 2, 64, 65}) {
    const auto made = offer();
    queue().enqueue(next(count));
    expect_later(made->handed_over);
    queue().enqueue(next(count));
    expect_later(queue().claim(request()));
  }
}

TEST_F(OffersTest, NewContentWhileItIsHandedOverSupersedesTheDelivery) {
  RecordProperty("requirement", "R-07");
  const auto made = offer();
  queue().enqueue(message("a"));
  Message other = message("a");
  other.payload = "other";
  EXPECT_EQ(queue().enqueue(other).status, EnqueueStatus::superseding);
  EXPECT_EQ(settle(made->handed_over.at(0)), SettleStatus::superseded);
  EXPECT_EQ(queue().claim(request()).at(0).message, other);
}

/// On the machine's clock.
class OffersToDispatchersTest : public ::testing::Test {
 protected:
  TestSpace space_;
  PostgresqlStore store_{space_.options()};
};

/// Counts the messages that a dispatcher got without a claim: of a claim it hears first that the
/// store was called, on the same thread.
class HandingsOver final : public Observer {
 public:
  void on_store_call(std::string_view call, std::size_t /*items*/,
                     std::chrono::nanoseconds /*took*/, bool /*failed*/) noexcept override {
    has_called_ = call == "claim";
  }
  void on_claim(std::size_t messages, std::size_t /*limit*/) noexcept override {
    if (!std::exchange(has_called_, false)) count += messages;
  }

  std::atomic<std::size_t> count = 0;

 private:
  static thread_local bool has_called_;
};

thread_local bool HandingsOver::has_called_ = false;

TEST_F(OffersToDispatchersTest, IdleDispatcherGetsWhatTheInboxStoresWithoutAClaim) {
  RecordProperty("requirement", "MSG-02");
  constexpr std::size_t kHandedOver = 25;
  std::atomic<std::uint64_t> handled = 0;
  Handlers handlers;
  handlers.on("*", [&](const ClaimedMessage&, HandlerContext&) {
    ++handled;
    handled.notify_all();
  });
  Inbox inbox(store_);
  NullLogger logger;
  HandingsOver handed_over;
  const SystemClock clock;
  Dispatcher dispatcher(inbox.queue(), handlers, {.poll_interval = 1h, .max_poll_interval = 1h},
                        {logger, handed_over, clock});
  dispatcher.start();
  // One that comes before it offers again is claimed: the more of them the busier the machine is.
  const auto give_up = std::chrono::steady_clock::now() + 60s;
  std::uint64_t sent = 0;
  for (; handed_over.count < kHandedOver && std::chrono::steady_clock::now() < give_up; ++sent) {
    EXPECT_EQ(inbox.enqueue(message(std::to_string(sent))).status, EnqueueStatus::accepted);
    while (handled <= sent) handled.wait(sent);
  }
  EXPECT_GE(handed_over.count, kHandedOver);
  EXPECT_TRUE(dispatcher.stop().complete());
  const RunningStats stats = dispatcher.stats();
  EXPECT_EQ(stats.handled, sent);
  EXPECT_EQ(stats.claim_batch.count, sent) << "each of them was claimed or handed over";
}

TEST_F(OffersToDispatchersTest, EveryMessageHasOneHolderHoweverManyEnqueueOfferAndClaim) {
  RecordProperty("requirement", "IBX-014,IBX-105,IBX-106");
  constexpr int kThreads = 3;
  constexpr int kEach = 150;
  PostgresqlStore other(space_.options());
  std::mutex mutex;
  std::unordered_map<std::string, int> runs;
  std::atomic<std::size_t> handled = 0;
  Handlers handlers;
  handlers.on("*", [&](const ClaimedMessage& claimed, HandlerContext&) {
    const std::lock_guard lock(mutex);
    ++runs[claimed.message.key.message_id.str()];
    ++handled;
  });
  Dispatcher first(store_.inbox(), handlers, {.batch_size = 5});
  Dispatcher second(store_.inbox(), handlers, {.batch_size = 5});
  Dispatcher third(other.inbox(), handlers, {.batch_size = 5});
  for (Dispatcher* dispatcher : {&first, &second, &third}) dispatcher->start();
  {
    std::vector<std::jthread> enqueuers;
    for (int thread = 0; thread < kThreads; ++thread) {
      enqueuers.emplace_back([&, thread] {
        QueueStore& queue = thread == 0 ? other.inbox() : store_.inbox();
        for (int i = 0; i < kEach; ++i) {
          const std::string own = std::to_string(thread) + "-" + std::to_string(i);
          const std::vector batch{message(own), message("shared-" + std::to_string(i))};
          queue.enqueue(std::span(batch).first(i % 3 == 0 ? 2 : 1));
        }
      });
    }
  }
  constexpr std::size_t kMessages = kThreads * kEach + kEach / 3;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (handled < kMessages && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  for (Dispatcher* dispatcher : {&first, &second, &third}) {
    EXPECT_TRUE(dispatcher->stop().complete());
  }
  EXPECT_EQ(runs.size(), kMessages);
  for (const auto& [id, times] : runs) EXPECT_EQ(times, 1) << id;
  EXPECT_EQ(store_.inbox_operator().stats().total().done, kMessages);
}

}  // namespace
}  // namespace oncebox::postgresql
