// Waiting until there is nothing to do.

#include <future>

#include "dispatcher_fixture.hpp"
#include "expect_error.hpp"
#include "oncebox/driver/forwarding_queue_store.hpp"
#include "oncebox/testing/manual_clock.hpp"

namespace oncebox {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class DispatcherIdleTest : public DispatcherTest {
 protected:
  /// What happens in these tests, happens without a poll.
  static DispatcherOptions no_polls() {
    return {.poll_interval = hours{1}, .max_poll_interval = hours{2}, .reap_interval = {}};
  }
  static IdleOptions with_patience() { return {.timeout = kPatience}; }
  void count_calls() {
    handlers_.on("*", [this](const ClaimedMessage&, HandlerContext&) { ++calls_; });
  }

  std::atomic<int> calls_ = 0;
};

TEST_F(DispatcherIdleTest, AnEmptyQueueIsIdle) {
  count_calls();
  const auto ending = start(no_polls());
  EXPECT_TRUE(dispatcher_->wait_until_idle(with_patience()));
  EXPECT_TRUE(dispatcher_->wait_until_idle(with_patience())) << "once more";
}

TEST_F(DispatcherIdleTest, EveryMessageIsHandledAndItsVerdictRecorded) {
  count_calls();
  enqueue_many(100);
  const auto ending = start(no_polls());
  for (int round = 1; round <= 20; ++round) {
    ASSERT_TRUE(dispatcher_->wait_until_idle(with_patience()));
    ASSERT_EQ(calls_, 99 + round);
    EXPECT_EQ(dispatcher_->stats().handled, static_cast<std::uint64_t>(99 + round));
    EXPECT_EQ(dispatcher_->stats().unsettled, 0U);
    enqueue(message("more" + std::to_string(round)));
  }
}

TEST_F(DispatcherIdleTest, WhatHandlersEnqueueIsWaitedFor) {
  handlers_.on("*", [this](const ClaimedMessage&, HandlerContext&) {
    const int call = ++calls_;
    if (call < 50) enqueue(message("m" + std::to_string(call)));
  });
  enqueue(message("m0"));
  const auto ending = start(no_polls());
  ASSERT_TRUE(dispatcher_->wait_until_idle(with_patience()));
  EXPECT_EQ(calls_, 50);
}

TEST_F(DispatcherIdleTest, EveryMessageOfAPartitionIsWaitedFor) {
  count_calls();
  for (int i = 0; i < 20; ++i) {
    Message next = message(std::to_string(i));
    next.partition_key = "p";
    enqueue(next);
  }
  const auto ending = start(no_polls());
  ASSERT_TRUE(dispatcher_->wait_until_idle(with_patience()));
  EXPECT_EQ(calls_, 20);
}

TEST_F(DispatcherIdleTest, ARetryInTheFutureIsWaitedForOnlyOnRequest) {
  testing::ManualClock clock;
  memory::MemoryStore store(clock);
  handlers_.on("*", [this](const ClaimedMessage&, HandlerContext&) {
    if (++calls_ == 1) throw RetryAfter(seconds{10}, "not yet");
  });
  Dispatcher dispatcher(store.inbox(), handlers_, no_polls(), {logger_, *observer_, clock});
  dispatcher.start();
  store.inbox().enqueue(message("m"));
  EXPECT_TRUE(dispatcher.wait_until_idle());
  EXPECT_EQ(calls_, 1);
  EXPECT_TRUE(dispatcher.wait_until_idle({.due_within = seconds{9}}));
  EXPECT_EQ(calls_, 1);
  auto waits = std::async(std::launch::async,
                          [&] { return dispatcher.wait_until_idle({.due_within = seconds{20}}); });
  clock.advance(seconds{11});
  EXPECT_TRUE(waits.get());
  EXPECT_EQ(calls_, 2);
  EXPECT_EQ(dispatcher.stats().handled, 1U);
}

TEST_F(DispatcherIdleTest, WhileAHandlerRunsItIsNotIdle) {
  testing::ManualClock clock;
  memory::MemoryStore store(clock);
  Watched<bool> runs{false};
  handlers_.on("*", [&](const ClaimedMessage&, HandlerContext&) {
    runs.change([](bool& value) { value = true; });
    gate_.pass();
  });
  Dispatcher dispatcher(store.inbox(), handlers_, no_polls(), {logger_, *observer_, clock});
  dispatcher.start();
  store.inbox().enqueue(message("m"));
  ASSERT_TRUE(runs.wait_for(true));
  auto waits = std::async(std::launch::async,
                          [&] { return dispatcher.wait_until_idle({.timeout = seconds{5}}); });
  while (waits.wait_for(Duration{0}) != std::future_status::ready) clock.advance(seconds{1});
  EXPECT_FALSE(waits.get());
  gate_.open();
  EXPECT_TRUE(dispatcher.wait_until_idle());
}

TEST_F(DispatcherIdleTest, ARequestedStopEndsTheWait) {
  std::stop_source stop;
  handlers_.on("*", [&](const ClaimedMessage&, HandlerContext&) {
    stop.request_stop();
    gate_.pass();
  });
  enqueue(message("m"));
  const auto ending = start(no_polls());
  EXPECT_FALSE(dispatcher_->wait_until_idle({.stop = stop.get_token()}));
}

TEST_F(DispatcherIdleTest, ADispatcherThatStopsIsNotWaitedFor) {
  handlers_.on("*", [&](const ClaimedMessage&, HandlerContext&) {
    dispatcher_->stop();
    gate_.pass();
  });
  enqueue(message("m"));
  const auto ending = start(no_polls());
  EXPECT_FALSE(dispatcher_->wait_until_idle());
  EXPECT_FALSE(dispatcher_->wait_until_idle()) << "after the stop";
}

TEST_F(DispatcherIdleTest, BeforeTheStartAndFromAHandlerItIsAConflict) {
  Watched<bool> was_refused{false};
  handlers_.on("*", [&](const ClaimedMessage&, HandlerContext&) {
    expect_error(ErrorCode::conflict, [&] { (void)dispatcher_->wait_until_idle(); });
    was_refused.change([](bool& refused) { refused = true; });
  });
  enqueue(message("m"));
  const auto ending = make_dispatcher(no_polls());
  expect_error(ErrorCode::conflict, [&] { (void)dispatcher_->wait_until_idle(); });
  dispatcher_->start();
  EXPECT_TRUE(was_refused.wait_for(true));
}

TEST_F(DispatcherIdleTest, AStoreThatFailsIsWaitedFor) {
  testing::ManualClock clock;
  memory::MemoryStore store(clock);
  StoreProbe probe(store.inbox());
  std::atomic<bool> is_away = true;
  probe.set_plan(
      [&](std::string_view) { return is_away ? testing::Fault::before : testing::Fault::none; });
  count_calls();
  Dispatcher dispatcher(probe.store(), handlers_, no_polls(), {logger_, *observer_, clock});
  dispatcher.start();
  store.inbox().enqueue(message("m"));
  auto waits = std::async(std::launch::async, [&] { return dispatcher.wait_until_idle(); });
  ASSERT_TRUE(probe.wait_for_calls("claim", 1));
  is_away = false;
  EXPECT_TRUE(eventually([&] {
    clock.advance(seconds{1});
    return waits.wait_for(Duration{0}) == std::future_status::ready;
  }));
  EXPECT_TRUE(waits.get());
  EXPECT_EQ(calls_, 1);
}

TEST_F(DispatcherIdleTest, PausedTopicsAreNotWaitedFor) {
  count_calls();
  const auto ending = make_dispatcher(no_polls());
  dispatcher_->pause("invoice.*");
  enqueue(message("i", "invoice.sent"));
  enqueue(message("o"));
  dispatcher_->start();
  ASSERT_TRUE(dispatcher_->wait_until_idle(with_patience()));
  EXPECT_EQ(calls_, 1);
  dispatcher_->pause();
  enqueue(message("p"));
  ASSERT_TRUE(dispatcher_->wait_until_idle(with_patience()));
  EXPECT_EQ(calls_, 1);
  dispatcher_->resume();
  dispatcher_->resume("invoice.*");
  ASSERT_TRUE(dispatcher_->wait_until_idle(with_patience()));
  EXPECT_EQ(calls_, 3);
}

TEST_F(DispatcherIdleTest, ManyThreadsMayWait) {
  count_calls();
  const auto ending = start(no_polls());
  std::vector<std::future<bool>> waits;
  for (int i = 0; i < 8; ++i) {
    enqueue(message(std::to_string(i)));
    waits.push_back(std::async(std::launch::async,
                               [&] { return dispatcher_->wait_until_idle(with_patience()); }));
  }
  for (auto& wait : waits) EXPECT_TRUE(wait.get());
  ASSERT_TRUE(dispatcher_->wait_until_idle(with_patience()));
  EXPECT_EQ(calls_, 8);
}

}  // namespace
}  // namespace oncebox
