// Handlers that hold no thread while they work.

#include <thread>

#include "completions.hpp"
#include "dispatcher_fixture.hpp"
#include "expect_error.hpp"
#include "oncebox/dispatch/dispatch_pending.hpp"
#include "set_dispatcher_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class DispatcherAsyncTest : public DispatcherTest {
 protected:
  void keep_completions(const HandlerOptions& options = {}) {
    handlers_.on_async(
        "*",
        [this](const ClaimedMessage&, Completion completion) {
          completions_.take(std::move(completion));
        },
        options);
  }
  Completions completions_;
};

TEST_F(DispatcherAsyncTest, AMessageIsDoneWhenItsCompletionSaysSo) {
  keep_completions();
  enqueue_many(1);
  const auto ending = start();
  ASSERT_TRUE(completions_.wait_for(1));
  EXPECT_EQ(record("m0").status, Status::processing);
  EXPECT_EQ(dispatcher_->stats().running, 1U);
  Completion completion = completions_.next();
  EXPECT_EQ(completion.context().message().message.key.message_id, "m0");
  completion.done();
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(record("m0").status, Status::done);
  EXPECT_EQ(dispatcher_->stats().handler_duration_ns.count, 1U);
}

TEST_F(DispatcherAsyncTest, ManyAreUnderWayOnOneWorker) {
  keep_completions();
  enqueue_many(100);
  const auto ending = start({.workers = 1});
  ASSERT_TRUE(completions_.wait_for(100));
  EXPECT_EQ(dispatcher_->stats().running, 100U);
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int each = 0; each < 25; ++each) completions_.next().done();
    });
  }
  threads.clear();
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(dispatcher_->stats().handled, 100U);
}

TEST_F(DispatcherAsyncTest, TheCopyOfAMessageCountsAmongTheBytesThatAreHeld) {
  keep_completions();
  for (int i = 0; i < 20; ++i) {
    Message large = message("m" + std::to_string(i));
    large.payload = std::string(1'000, 'x');
    enqueue(large);
  }
  const auto ending =
      start({.workers = 1, .batch_size = 1, .max_buffered = 1, .buffer_bytes = 20'000});
  std::size_t most = 0;
  ASSERT_TRUE(completions_.wait_for(4)) << "half of the bytes, and each message twice";
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(completions_.wait_for(1));
    most = std::max(most, dispatcher_->stats().running);
    completions_.next().done();
  }
  EXPECT_LE(most, 6U);
}

TEST_F(DispatcherAsyncTest, ItsLimitHoldsUntilTheCompletion) {
  keep_completions({.max_concurrency = 2});
  enqueue_many(3);
  const auto ending = start();
  ASSERT_TRUE(completions_.wait_for(2));
  EXPECT_EQ(dispatcher_->stats().running, 2U);
  completions_.next().done();
  completions_.next().done();
  ASSERT_TRUE(completions_.wait_for(1));
  completions_.next().done();
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(dispatcher_->stats().handled, 3U);
}

TEST_F(DispatcherAsyncTest, ItFailsAsAHandlerFails) {
  handlers_.on_async("*", [](const ClaimedMessage& claimed, Completion completion) {
    const MessageId& id = claimed.message.key.message_id;
    if (id == "done") completion.done();
    if (id == "dead") completion.failed(PermanentFailure("no such customer"));
    if (id == "later") completion.failed(RetryAfter(seconds{9}, "the line is busy"));
    if (id == "busy") completion.failed(NotNow(seconds{9}, "no line is free"));
    if (id == "thrown") throw std::runtime_error("no network");
    // Of "dropped" it is destroyed.
  });
  for (const char* id : {"done", "dead", "later", "busy", "thrown", "dropped"}) {
    enqueue(message(id));
  }
  const DispatchedPending result =
      dispatch_pending(queue(), handlers_, 100, {}, {logger_, *observer_, clock_});
  EXPECT_EQ(result.handled, 1U);
  EXPECT_EQ(result.dead, 1U);
  EXPECT_EQ(result.retried, 3U);
  EXPECT_EQ(result.released, 1U);
  EXPECT_EQ(record("dead").history.last_error, "no such customer");
  EXPECT_EQ(record("later").eligible_at, clock_.now() + seconds{9});
  EXPECT_EQ(record("busy").history.attempt, 0);
  EXPECT_EQ(record("thrown").history.last_error, "no network");
  EXPECT_EQ(record("dropped").history.last_error,
            "the handler dropped its completion without using it");
}

TEST_F(DispatcherAsyncTest, ACompletionThatIsDroppedLaterIsAFailure) {
  keep_completions();
  enqueue_many(1);
  const auto ending = start();
  ASSERT_TRUE(completions_.wait_for(1));
  {
    const Completion dropped = completions_.next();
  }
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(record("m0").history.attempt, 1);
}

TEST_F(DispatcherAsyncTest, OnlyTheFirstWordOfACompletionCounts) {
  handlers_.on_async("*", [](const ClaimedMessage&, Completion completion) {
    completion.done();
    completion.failed(PermanentFailure("too late"));
    throw std::runtime_error("too late as well");
  });
  enqueue_many(1);
  EXPECT_EQ(dispatch_pending(queue(), handlers_, 1, {}, {logger_, *observer_, clock_}).handled, 1U);
}

TEST_F(DispatcherAsyncTest, PendingIsHandledWhenTheLastCompletionWasUsed) {
  keep_completions();
  enqueue_many(3);
  const std::jthread completer([this] {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(completions_.wait_for(1));
      completions_.next().done();
    }
  });
  EXPECT_EQ(dispatch_pending(queue(), handlers_, 3, {}, {logger_, *observer_, clock_}).handled, 3U);
}

TEST_F(DispatcherAsyncTest, PendingIsNotWaitedForOnceAStopIsRequested) {
  keep_completions();
  enqueue_many(3);
  std::stop_source stop;
  const std::jthread stopper([&] {
    ASSERT_TRUE(completions_.wait_for(3));
    completions_.next().done();
    stop.request_stop();
  });
  const DispatchedPending result =
      dispatch_pending(queue(), handlers_, 3, {}, {logger_, *observer_, clock_}, stop.get_token());
  EXPECT_EQ(result.handled, 1U);
  EXPECT_EQ(result.released, 2U);
  for (const char* id : {"m1", "m2"}) {
    EXPECT_FALSE(record(id).lease);
    EXPECT_EQ(record(id).history.attempt, 0);
  }
}

TEST_F(DispatcherAsyncTest, PendingOfAStopThatWasRequestedBeforeIsLeft) {
  keep_completions();
  enqueue_many(1);
  std::stop_source stop;
  stop.request_stop();
  const DispatchedPending result =
      dispatch_pending(queue(), handlers_, 3, {}, {logger_, *observer_, clock_}, stop.get_token());
  EXPECT_EQ(result.total(), 0U);
}

TEST_F(DispatcherAsyncTest, AfterALostLeaseItHasNoEffect) {
  keep_completions();
  enqueue_many(1);
  const auto ending = start({.lease = Duration{60}});
  ASSERT_TRUE(completions_.wait_for(1));
  Completion completion = completions_.next();
  // Somebody else takes it over.
  probe_.set_plan([](std::string_view call) {
    return call == "extend" ? testing::Fault::before : testing::Fault::none;
  });
  clock_.advance(seconds{1});
  const auto other = queue().claim({.owner = OwnerToken::generate(), .lease = hours{1}});
  ASSERT_EQ(other.size(), 1U);
  probe_.set_plan({});
  EXPECT_TRUE(eventually([&] { return completion.context().stop_token().stop_requested(); }));
  EXPECT_TRUE(completion.context().lease_lost());
  completion.done();
  EXPECT_TRUE(dispatcher_->stop().complete());
  EXPECT_EQ(record("m0").status, Status::processing);
  EXPECT_EQ(record("m0").lease->owner, other.front().owner);
}

TEST_F(DispatcherAsyncTest, AStopWaitsForCompletions) {
  keep_completions();
  enqueue_many(1);
  const auto ending = start();
  ASSERT_TRUE(completions_.wait_for(1));
  const std::jthread completer([this] { completions_.next().done(); });
  EXPECT_TRUE(dispatcher_->stop({.finish_within = kPatience}).complete());
  EXPECT_EQ(record("m0").status, Status::done);
}

TEST_F(DispatcherAsyncTest, AStopInterruptsThemAndReleasesWhatDoesNotComplete) {
  keep_completions();
  enqueue_many(2);
  const auto ending = start();
  ASSERT_TRUE(completions_.wait_for(2));
  Completion first = completions_.next();
  Completion second = completions_.next();
  const std::stop_callback gives_up(first.context().stop_token(),
                                    [&first] { first.failed(std::runtime_error("interrupted")); });
  const StopResult result =
      dispatcher_->stop({.finish_within = Duration{0}, .interrupt_within = Duration{20}});
  EXPECT_EQ(result.still_running, 0U);
  EXPECT_TRUE(eventually([&] { return !record("m0").lease && !record("m1").lease; }));
  second.done();  // too late
  EXPECT_TRUE(dispatcher_->stop().complete());
  for (const char* id : {"m0", "m1"}) {
    EXPECT_EQ(record(id).status, Status::processing);
    EXPECT_EQ(record(id).history.attempt, 0);
  }
}

TEST_F(DispatcherAsyncTest, ACompletionMayOutliveTheDispatcher) {
  keep_completions();
  enqueue_many(2);
  {
    const auto ending = start();
    ASSERT_TRUE(completions_.wait_for(2));
  }
  for (const char* id : {"m0", "m1"}) EXPECT_FALSE(record(id).lease);
  Completion completion = completions_.next();
  EXPECT_TRUE(completion.context().stop_token().stop_requested());
  EXPECT_EQ(completion.context().message().message.topic, "order.created");
  completion.done();
  EXPECT_EQ(record("m0").status, Status::processing);
}

TEST_F(DispatcherAsyncTest, CompletionsWhileItEndsLoseNothing) {
  for (int round = 0; round < 30; ++round) {
    memory::MemoryStore store(clock_);
    Completions completions;
    Handlers handlers;
    handlers.on_async("*", [&](const ClaimedMessage&, Completion completion) {
      completions.take(std::move(completion));
    });
    for (int i = 0; i < 8; ++i) store.inbox().enqueue(message(std::to_string(i)));
    auto dispatcher = std::make_unique<Dispatcher>(store.inbox(), handlers, DispatcherOptions{},
                                                   Surroundings{.clock = clock_});
    dispatcher->start();
    ASSERT_TRUE(completions.wait_for(8));
    const std::jthread completer([&] {
      for (int i = 0; i < 8; ++i) completions.next().done();
    });
    dispatcher.reset();
    EXPECT_EQ(store.inbox_operator().count({.states = {State::leased}}), 0U);
  }
}

TEST_F(SetDispatcherTest, AHandlerWithoutAThreadKnowsItsStoreAndIsReleasedWithIt) {
  list({{"a", "1"}, {"b", "2"}});
  Completions completions;
  handlers_.on_async("*", [&](const ClaimedMessage&, Completion completion) {
    note(completion.context().store());
    completions.take(std::move(completion));
  });
  for (const char* name : {"a", "b"}) enqueue(name, "m");
  const auto ending = start();
  ASSERT_TRUE(completions.wait_for(2));
  for (int i = 0; i < 2; ++i) {
    Completion completion = completions.next();
    if (completion.context().store() == "a") completion.done();
    if (completion.context().store() == "b") completion.failed(PermanentFailure("no"));
  }
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(status("a", "m"), Status::done);
  EXPECT_EQ(status("b", "m"), Status::dead);
}

}  // namespace
}  // namespace oncebox
