#include "oncebox/dispatch/outbox_dispatcher.hpp"

#include <gtest/gtest.h>

#include <atomic>
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

using std::chrono::hours;
using std::chrono::minutes;
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
                                                         Surroundings{logger_, observer_, clock_});
    dispatcher->start();
    return dispatcher;
  }
  [[nodiscard]] OutboxRecord record(const std::string& id) { return outbox_.find(id).value(); }
  [[nodiscard]] bool wait_for_status(const std::string& id, Status status) {
    return eventually([&] { return record(id).status == status; });
  }
  /// Waits until a failure is recorded, then moves the clock to the next try.
  [[nodiscard]] bool advance_after_failure(OutboxDispatcher& dispatcher, const std::string& id,
                                           int failures, Duration by = seconds{1}) {
    const bool failed = has_failed(id, failures);
    clock_.advance(by);
    dispatcher.wake();
    return failed;
  }
  [[nodiscard]] MessageRecord stored(const std::string& id) {
    return store_->outbox().find(MessageKey{"shop", MessageId(id)}).value();
  }
  /// Waits until so many failures are recorded.
  [[nodiscard]] bool has_failed(const std::string& id, int failures) {
    return eventually([&] {
      const MessageRecord found = stored(id);
      return found.history.attempt == failures && !found.lease;
    });
  }
  /// Publishes into the sink, unless the broker is away.
  [[nodiscard]] std::shared_ptr<Publisher> unless(const std::atomic<bool>& away) {
    return callable_publisher([this, &away](const ClaimedMessage& message, HandlerContext&) {
      if (away) throw std::runtime_error("nobody there");
      sink_.take(message);
    });
  }
  void lose_to_a_worker_that_dies() {
    const ClaimRequest request{.owner = OwnerToken::generate(), .lease = seconds{1}};
    ASSERT_EQ(store_->outbox().claim(request).size(), 1U);
    clock_.advance(seconds{1});
  }

  /// By publishers that fail as `asked_to_wait`.
  void expect_no_delay_shorter(const Publishers& publishers);
  static RetryAfter asked_to_wait(const ClaimedMessage& message) {
    return {message.message.topic == "slow" ? seconds{90} : seconds{1}, "busy"};
  }

  const RetryPolicies three_tries_{
      RetryPolicy{.backoff = FixedDelay{seconds{1}}, .max_attempts = 3}};
  std::unique_ptr<Store> store_ = make_store();
  StoreProbe probe_{store_->outbox()};
  RecordingLogger logger_;
  Observer observer_;
  Outbox outbox_{*store_, {.source = "shop"}, {logger_, observer_, clock_}};
  Sink sink_;
};

TEST_P(OutboxDispatcherTest, IsIdleWhenEverythingIsMarkedAsDispatched) {
  RecordProperty("requirement", "PKT-08");
  const auto dispatcher = start(callable_publisher(into_sink()), {.workers = 1});
  for (const char* id : {"1", "2", "3"}) {
    outbox_.enqueue({.topic = "order.placed", .payload = "p", .id = MessageId(id)});
  }
  ASSERT_TRUE(dispatcher->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(sink_.all(), (Ids{"1", "2", "3"}));
  for (const char* id : {"1", "2", "3"}) EXPECT_TRUE(record(id).dispatched_at);
}

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

TEST_P(OutboxDispatcherTest, BrokerThatIsAwayForDaysCostsNeitherMessagesNorTheirOrder) {
  RecordProperty("requirement", "PKT-08,MSG-05");
  outbox_.enqueue({.topic = "t", .id = "1", .partition_key = "a"});
  outbox_.enqueue({.topic = "t", .id = "2", .partition_key = "a"});
  std::atomic<bool> away = true;
  const auto dispatcher = start(unless(away));
  for (int hours_away = 1; hours_away < 72; ++hours_away) {
    ASSERT_TRUE(advance_after_failure(*dispatcher, "1", hours_away, hours{1}));
  }
  ASSERT_TRUE(has_failed("1", 72)) << "71 hours old";
  EXPECT_EQ(record("1").status, Status::processing);
  away = false;
  clock_.advance(minutes{5});
  dispatcher->wake();
  ASSERT_TRUE(sink_.wait_for(2));
  EXPECT_EQ(sink_.all(), (Ids{"1", "2"}));
}

TEST_P(OutboxDispatcherTest, GivenUpAfterThreeDaysKeptAndRevivedWithItsAttempts) {
  RecordProperty("requirement", "PKT-08,MSG-05");
  const RetryPolicy policy = outbox_retry_policy();
  outbox_.enqueue({.topic = "t", .id = "1"});
  std::atomic<bool> away = true;
  const auto dispatcher = start(unless(away));
  int failures = 1;
  for (; failures < policy.max_attempts; ++failures) {
    ASSERT_TRUE(advance_after_failure(*dispatcher, "1", failures, hours{1}));
  }
  ASSERT_TRUE(advance_after_failure(*dispatcher, "1", failures, *policy.give_up_after));
  ASSERT_TRUE(wait_for_status("1", Status::dead));
  EXPECT_EQ(record("1").last_error, "nobody there");

  // However old it is by now.
  const std::vector<MessageKey> keys{{"shop", "1"}};
  (void)store_->outbox_operator().revive(keys);
  dispatcher->wake();
  for (failures = 1; failures + 1 < policy.max_attempts; ++failures) {
    ASSERT_TRUE(advance_after_failure(*dispatcher, "1", failures, minutes{5}));
  }
  ASSERT_TRUE(has_failed("1", failures));
  away = false;
  clock_.advance(minutes{5});
  dispatcher->wake();
  EXPECT_TRUE(wait_for_status("1", Status::done));
}

TEST_P(OutboxDispatcherTest, AgeCountsFromTheDueTime) {
  const Duration due_in = 2 * outbox_retry_policy().give_up_after.value();
  outbox_.enqueue({.topic = "t", .id = "1", .due_at = clock_.now() + due_in});
  std::atomic<bool> away = true;
  const auto dispatcher = start(unless(away));
  clock_.advance(due_in);
  dispatcher->wake();
  for (int failures = 1; failures < 30; ++failures) {
    ASSERT_TRUE(advance_after_failure(*dispatcher, "1", failures, minutes{5}));
  }
  EXPECT_TRUE(has_failed("1", 30));
}

TEST_P(OutboxDispatcherTest, LapseOfWhatHasFailedOftenIsNotItsDeath) {
  RecordProperty("requirement", "R-10");
  std::atomic<bool> away = true;
  outbox_.enqueue({.topic = "t", .id = "1"});
  auto dispatcher = start(unless(away));
  for (int failures = 1; failures < 50; ++failures) {
    ASSERT_TRUE(advance_after_failure(*dispatcher, "1", failures, minutes{5}));
  }
  ASSERT_TRUE(has_failed("1", 50));
  dispatcher.reset();
  clock_.advance(minutes{5});
  lose_to_a_worker_that_dies();
  away = false;
  dispatcher = start(unless(away));
  EXPECT_TRUE(wait_for_status("1", Status::done));
}

TEST_P(OutboxDispatcherTest, MessageThatKillsItsWorkersIsDeadInTheEnd) {
  RecordProperty("requirement", "R-10");
  outbox_.enqueue({.topic = "t", .id = "1"});
  const int most = 2 * outbox_retry_policy().max_attempts;
  for (int i = 0; i < most; ++i) lose_to_a_worker_that_dies();
  const auto dispatcher = start(callable_publisher(into_sink()));
  ASSERT_TRUE(wait_for_status("1", Status::dead));
  EXPECT_EQ(record("1").last_error, "lease expired 40 times");
  EXPECT_TRUE(sink_.all().empty());
}

TEST_P(OutboxDispatcherTest, RetryAfterMakesNoDelayShorter) {
  RecordProperty("requirement", "MSG-05");
  expect_no_delay_shorter(callable_publisher(
      [](const ClaimedMessage& message, HandlerContext&) { throw asked_to_wait(message); }));
}

TEST_P(OutboxDispatcherTest, RetryAfterOfAPublisherWithoutAThreadMakesNoDelayShorter) {
  RecordProperty("requirement", "MSG-05");
  class Busy final : public AsyncPublisher {
   public:
    void start(const ClaimedMessage& message, Completion completion) override {
      completion.failed(asked_to_wait(message));
    }
  };
  expect_no_delay_shorter(Publishers().on_async("*", std::make_shared<Busy>()));
}

TEST_P(OutboxDispatcherTest, APublisherThatWaitsCanBeOneThatNeedNot) {
  outbox_.enqueue({.topic = "t", .id = "1"});
  outbox_.enqueue({.topic = "t", .id = "2"});
  const auto into = into_sink();
  const auto blocking =
      callable_publisher([&](const ClaimedMessage& message, HandlerContext& context) {
        if (message.message.key.message_id == "2") throw PermanentFailure("no such exchange");
        into(message, context);
      });
  const auto dispatcher = start(Publishers().on_async("*", as_async(blocking)));
  ASSERT_TRUE(wait_for_status("1", Status::done));
  ASSERT_TRUE(wait_for_status("2", Status::dead));
  EXPECT_EQ(record("2").last_error, "no such exchange");
}

void OutboxDispatcherTest::expect_no_delay_shorter(const Publishers& publishers) {
  outbox_.enqueue({.topic = "quick", .id = "quick"});
  outbox_.enqueue({.topic = "slow", .id = "slow"});
  const auto dispatcher = start(publishers);
  ASSERT_TRUE(has_failed("quick", 1));
  ASSERT_TRUE(has_failed("slow", 1));
  EXPECT_EQ(stored("slow").eligible_at, clock_.now() + seconds{90});
  EXPECT_EQ(record("slow").last_error, "busy");
  // With some failures the policy has delays from 150 s.
  for (int failures = 1; failures < 10; ++failures) {
    ASSERT_TRUE(advance_after_failure(*dispatcher, "quick", failures, minutes{5}));
  }
  ASSERT_TRUE(has_failed("quick", 10));
  EXPECT_GE(stored("quick").eligible_at, clock_.now() + seconds{150});
  EXPECT_LE(stored("quick").eligible_at, clock_.now() + seconds{300});
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
                                {.workers = 4, .retries = three_tries_});
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
  Inbox inbox(*receiver, {}, {logger_, observer_, clock_});
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
