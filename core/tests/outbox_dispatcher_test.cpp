#include "oncebox/outbox_dispatcher.hpp"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dispatcher_fixture.hpp"
#include "expect_error.hpp"
#include "oncebox/outbox.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;
using Ids = std::vector<std::string>;

/// Keeps what was published, by its id.
class Sink {
 public:
  void take(const ClaimedMessage& message) {
    taken_.change([&](Ids& ids) { ids.push_back(message.message.key.message_id.str()); });
  }
  [[nodiscard]] Ids all() const { return taken_.get(); }
  [[nodiscard]] bool wait_for(std::size_t count) const {
    return taken_.wait([&](const Ids& ids) { return ids.size() >= count; });
  }

 private:
  Watched<Ids> taken_;
};

class OutboxDispatcherTest : public OnEachStore {
 protected:
  [[nodiscard]] auto into_sink() {
    return [this](const ClaimedMessage& message, HandlerContext&) { sink_.take(message); };
  }
  [[nodiscard]] std::unique_ptr<OutboxDispatcher> start(const Publishers& publishers,
                                                        const DispatcherOptions& options = {}) {
    auto dispatcher = std::make_unique<OutboxDispatcher>(probe_.store(), publishers, options,
                                                         logger_, observer_, clock_);
    dispatcher->start();
    return dispatcher;
  }
  [[nodiscard]] OutboxRecord record(const std::string& id) { return outbox_.find(id).value(); }
  [[nodiscard]] bool wait_for_status(const std::string& id, Status status) {
    return eventually([&] { return record(id).status == status; });
  }
  /// Waits until a failure is recorded, then moves the clock to the next try.
  [[nodiscard]] bool advance_after_failure(OutboxDispatcher& dispatcher, const std::string& id,
                                           int failures) {
    const MessageKey key{"shop", id};
    const bool failed = eventually([&] {
      const auto found = store_->outbox().find(key);
      return found->history.attempt == failures && !found->lease;
    });
    clock_.advance(seconds{1});
    dispatcher.wake();
    return failed;
  }

  const RetryPolicies three_tries_{
      RetryPolicy{.backoff = FixedDelay{seconds{1}}, .max_attempts = 3}};
  std::unique_ptr<Store> store_ = make_store();
  StoreProbe probe_{store_->outbox()};
  RecordingLogger logger_;
  Observer observer_;
  Outbox outbox_{*store_, {.source = "shop"}, logger_, observer_, clock_};
  Sink sink_;
};

TEST_P(OutboxDispatcherTest, PublishesWhatIsEnqueuedBeforeAndAfterItsStart) {
  RecordProperty("requirement", "PKT-08");
  outbox_.enqueue({.topic = "t", .id = "1"});
  const auto dispatcher = start(callable_publisher(into_sink()));
  ASSERT_TRUE(sink_.wait_for(1));
  outbox_.enqueue({.topic = "t", .id = "2"});
  ASSERT_TRUE(sink_.wait_for(2));
  ASSERT_TRUE(wait_for_status("2", Status::done));
  EXPECT_EQ(record("2").dispatched_at, clock_.now());
  EXPECT_EQ(record("2").attempts, 1);
  EXPECT_TRUE(dispatcher->stop().complete());
  EXPECT_EQ(dispatcher->stats().handled, 2U);
}

TEST_P(OutboxDispatcherTest, IsMarkedDispatchedOnlyAfterTheTransportAccepted) {
  RecordProperty("requirement", "PKT-08");
  Gate accepted;
  outbox_.enqueue({.topic = "t", .id = "1"});
  const auto dispatcher = start(callable_publisher([&](const ClaimedMessage& message, auto&) {
    sink_.take(message);
    accepted.pass();
  }));
  ASSERT_TRUE(sink_.wait_for(1));
  EXPECT_EQ(record("1").status, Status::processing);
  EXPECT_FALSE(record("1").dispatched_at);
  accepted.open();
  EXPECT_TRUE(wait_for_status("1", Status::done));
}

TEST_P(OutboxDispatcherTest, WhatWasAcceptedButNotRecordedIsPublishedAgainUnderItsKey) {
  RecordProperty("requirement", "PKT-08");
  outbox_.enqueue({.topic = "t", .id = "1"});
  // Nothing more is recorded, as if the process had died after the transport took the message.
  probe_.set_plan([](std::string_view call) {
    return call == "settle" ? testing::Fault::before : testing::Fault::none;
  });
  auto dying = start(callable_publisher(into_sink()));
  ASSERT_TRUE(sink_.wait_for(1));
  ASSERT_TRUE(probe_.wait_for_calls("settle", 1));
  dying.reset();
  EXPECT_EQ(record("1").status, Status::processing);

  probe_.set_plan({});
  clock_.advance(defaults::kLease);
  const auto next = start(callable_publisher(into_sink()));
  ASSERT_TRUE(wait_for_status("1", Status::done));
  EXPECT_EQ(sink_.all(), (Ids{"1", "1"}));
}

TEST_P(OutboxDispatcherTest, FailureIsTriedAgainByThePolicy) {
  RecordProperty("requirement", "PKT-08");
  outbox_.enqueue({.topic = "t", .id = "1"});
  const auto dispatcher = start(callable_publisher([&](const ClaimedMessage& message, auto&) {
                                  if (message.history.attempt == 0)
                                    throw std::runtime_error("nobody there");
                                  sink_.take(message);
                                }),
                                {.retries = three_tries_});
  ASSERT_TRUE(advance_after_failure(*dispatcher, "1", 1));
  ASSERT_TRUE(wait_for_status("1", Status::done));
  EXPECT_EQ(record("1").attempts, 2);
  EXPECT_EQ(record("1").last_error, "nobody there");
}

TEST_P(OutboxDispatcherTest, PoisonRecordIsDeadAfterItsAttemptsAndBlocksNobody) {
  RecordProperty("requirement", "PKT-08");
  outbox_.enqueue({.topic = "t", .id = "poison", .partition_key = "a"});
  outbox_.enqueue({.topic = "t", .id = "behind it", .partition_key = "a"});
  for (int i = 0; i < 20; ++i) outbox_.enqueue({.topic = "t", .id = std::to_string(i)});
  const auto dispatcher = start(callable_publisher([&](const ClaimedMessage& message, auto&) {
                                  if (message.message.key.message_id == "poison")
                                    throw std::runtime_error("no");
                                  sink_.take(message);
                                }),
                                {.workers = 2, .retries = three_tries_});
  ASSERT_TRUE(sink_.wait_for(20));  // none of them waits for its retries
  ASSERT_TRUE(advance_after_failure(*dispatcher, "poison", 1));
  ASSERT_TRUE(advance_after_failure(*dispatcher, "poison", 2));
  ASSERT_TRUE(wait_for_status("poison", Status::dead));
  EXPECT_EQ(record("poison").attempts, 3);
  EXPECT_FALSE(record("poison").dispatched_at);
  EXPECT_TRUE(wait_for_status("behind it", Status::done));
}

TEST_P(OutboxDispatcherTest, PermanentFailureIsDeadAtOnce) {
  outbox_.enqueue({.topic = "t", .id = "1"});
  const auto dispatcher = start(callable_publisher(
      [](const ClaimedMessage&, auto&) { throw PermanentFailure("no such exchange"); }));
  ASSERT_TRUE(wait_for_status("1", Status::dead));
  EXPECT_EQ(record("1").last_error, "no such exchange");
}

TEST_P(OutboxDispatcherTest, OrderWithinAPartitionIsThatOfTheEnqueueRetriesIncluded) {
  RecordProperty("requirement", "PKT-08");
  std::map<std::string, Ids> expected;
  for (int i = 0; i < 30; ++i) {
    const std::string key = "customer-" + std::to_string(i % 3);
    const std::string id = std::to_string(i);
    outbox_.enqueue({.topic = "t", .id = MessageId(id), .partition_key = PartitionKey(key)});
    expected[key].push_back(id);
  }
  std::mutex mutex;
  std::map<std::string, Ids> published;
  const auto dispatcher = start(callable_publisher([&](const ClaimedMessage& message, auto&) {
                                  const std::string id = message.message.key.message_id.str();
                                  if (id == "4" && message.history.attempt == 0)
                                    throw RetryAfter(seconds{1}, "busy");
                                  const std::lock_guard lock(mutex);
                                  published[message.message.partition_key->str()].push_back(id);
                                }),
                                {.workers = 4});
  ASSERT_TRUE(advance_after_failure(*dispatcher, "4", 1));
  ASSERT_TRUE(eventually([&] { return dispatcher->stats().handled == 30; }));
  EXPECT_EQ(published, expected);
}

TEST_P(OutboxDispatcherTest, TopicsHavePublishersOfTheirOwn) {
  Sink mails;
  Publishers publishers(callable_publisher(into_sink()));
  publishers.on("mail.*", [&](const ClaimedMessage& message, auto&) { mails.take(message); },
                {.max_concurrency = 1});
  outbox_.enqueue({.topic = "mail.send", .id = "1"});
  outbox_.enqueue({.topic = "order.paid", .id = "2"});
  const auto dispatcher = start(publishers);
  ASSERT_TRUE(mails.wait_for(1));
  ASSERT_TRUE(sink_.wait_for(1));
  EXPECT_EQ(mails.all(), Ids{"1"});
  EXPECT_EQ(sink_.all(), Ids{"2"});
}

TEST_P(OutboxDispatcherTest, CanBePausedAndResumed) {
  const auto dispatcher = start(callable_publisher(into_sink()));
  dispatcher->pause("slow.*");
  outbox_.enqueue({.topic = "slow.one", .id = "1"});
  outbox_.enqueue({.topic = "t", .id = "2"});
  ASSERT_TRUE(sink_.wait_for(1));
  dispatcher->resume("slow.*");
  ASSERT_TRUE(sink_.wait_for(2));
  EXPECT_EQ(sink_.all(), (Ids{"2", "1"}));
}

TEST_P(OutboxDispatcherTest, IntoAnotherInboxNothingIsLostAndNothingDoubled) {
  RecordProperty("requirement", "MSG-04,PKT-08");
  const std::unique_ptr<Store> receiver = make_store();
  Inbox inbox(*receiver, {}, logger_, observer_, clock_);
  const Message cause{.key = {"web", "order-1"}, .topic = "order.placed"};
  for (int i = 0; i < 10; ++i) outbox_.enqueue({.topic = "t", .id = std::to_string(i)}, cause);
  // The first verdicts are lost on their way, and some messages are published twice.
  probe_.set_plan([](std::string_view call) {
    return call == "settle" ? testing::Fault::before : testing::Fault::none;
  });
  auto dying = start(std::make_shared<InboxPublisher>(inbox), {.batch_size = 5});
  ASSERT_TRUE(probe_.wait_for_calls("settle", 1));
  dying.reset();
  probe_.set_plan({});
  clock_.advance(defaults::kLease);
  const auto next = start(std::make_shared<InboxPublisher>(inbox));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(wait_for_status(std::to_string(i), Status::done));
  const auto received = inbox.queue().claim({.owner = OwnerToken::generate(), .limit = 100});
  EXPECT_EQ(received.size(), 10U);
  for (const ClaimedMessage& one : received) {
    EXPECT_EQ(one.message.key.source, Source("shop"));
    EXPECT_EQ(one.message.headers.message_id(), one.message.key.message_id.str());
    EXPECT_EQ(one.message.headers.correlation_id(), "order-1");
  }
}

TEST_P(OutboxDispatcherTest, LinesCarryTheNameOutbox) {
  outbox_.enqueue({.topic = "t", .payload = "s3cret", .id = "1"});
  const auto dispatcher = start(callable_publisher(into_sink()));
  EXPECT_TRUE(logger_.wait_for("info dispatcher started store=outbox"));
  EXPECT_TRUE(logger_.wait_for("info handler called store=outbox topic=t source=shop"));
  EXPECT_FALSE(logger_.contains("s3cret"));
}

TEST_P(OutboxDispatcherTest, OneThatNobodyListensToPublishes) {
  OutboxDispatcher dispatcher(*store_, callable_publisher(into_sink()));
  outbox_.enqueue({.topic = "t", .id = "1"});
  dispatcher.start();
  EXPECT_TRUE(sink_.wait_for(1));
  EXPECT_TRUE(dispatcher.stop().complete());
}

ONCEBOX_ON_EACH_STORE(OutboxDispatcherTest);

TEST(PublishersTest, RefuseWhatCannotWork) {
  const auto publisher = callable_publisher([](const ClaimedMessage&, HandlerContext&) {});
  Publishers publishers(publisher);
  expect_error(ErrorCode::conflict, [&] { publishers.on("*", publisher); });
  expect_error(ErrorCode::invalid_argument,
               [&] { publishers.on("t", std::shared_ptr<Publisher>()); });
  expect_error(ErrorCode::out_of_range,
               [&] { publishers.on("t", publisher, {.max_concurrency = 0}); });
}

}  // namespace
}  // namespace oncebox
