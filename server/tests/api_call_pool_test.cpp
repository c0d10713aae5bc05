#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "api/call_pool.hpp"
#include "api/timer_queue.hpp"
#include "api_fixture.hpp"
#include "faulty_store.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

using std::chrono::steady_clock;

TEST(CallPoolTest, RunsCallsInTheirOrder) {
  std::vector<int> order;
  CallPool pool(1, 100);
  for (int i = 0; i < 50; ++i) pool.submit([&order, i] { order.push_back(i); });
  pool.stop();
  ASSERT_EQ(order.size(), 50U);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(CallPoolTest, RefusesMoreThanItsBoundButNotTheServersOwnWork) {
  std::promise<void> open;
  std::promise<void> running;
  CallPool pool(1, 2);
  pool.submit([&, gate = open.get_future().share()] {
    running.set_value();
    gate.wait();
  });
  running.get_future().wait();
  std::atomic<int> ran = 0;
  pool.submit([&] { ++ran; });
  pool.submit([&] { ++ran; });
  try {
    pool.submit([&] { ++ran; });
    ADD_FAILURE() << "the third waiting call was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::overloaded);
  }
  pool.submit_own([&] { ++ran; });
  open.set_value();
  pool.stop();
  EXPECT_EQ(ran, 3);
}

TEST(CallPoolTest, RunsWhatWaitsWhenItStopsAndTakesNothingAfter) {
  std::atomic<int> ran = 0;
  CallPool pool(2, 1'000);
  for (int i = 0; i < 500; ++i) pool.submit([&] { ++ran; });
  pool.stop();
  pool.stop();
  EXPECT_EQ(ran, 500);
  EXPECT_THROW(pool.submit([&] { ++ran; }), Error);
  pool.submit_own([&] { ++ran; });
  EXPECT_EQ(ran, 500);
}

TEST(CallPoolTest, DropsWhatWaitsWhenItIsToldTo) {
  std::promise<void> open;
  std::promise<void> running;
  std::promise<void> ended;
  CallPool pool(1, 100);
  pool.submit([&, gate = open.get_future().share()] {
    running.set_value();
    gate.wait();
    ended.set_value();
  });
  running.get_future().wait();
  // More than could be dropped one within the other.
  constexpr int kCalls = 200'000;
  std::atomic<int> ran = 0;
  const auto owned = std::make_shared<int>();
  for (int i = 0; i < kCalls; ++i) pool.submit_own([&ran, owned] { ++ran; });
  EXPECT_EQ(owned.use_count(), kCalls + 1);
  pool.discard();
  EXPECT_EQ(owned.use_count(), 1) << "whoever waits for a dropped call is told by its end";
  try {
    pool.submit([&] { ++ran; });
    ADD_FAILURE() << "a call was taken after the end";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
  }
  pool.submit_own([&] { ++ran; });
  open.set_value();
  pool.stop();
  EXPECT_EQ(ended.get_future().wait_for(Duration{0}), std::future_status::ready)
      << "the call that ran was waited for";
  EXPECT_EQ(ran, 0);
}

TEST(CallPoolTest, AnswersWithWhatACallReturnsOrThrows) {
  CallPool pool(1, 10);
  const auto good = std::make_shared<TestExchange>(Request{.path = "/"});
  const auto bad = std::make_shared<TestExchange>(Request{.path = "/"});
  pool.answer(good, [](const Request& request) { return json_response(request.path); });
  pool.answer(bad, [](const Request&) -> Response { throw Error(ErrorCode::timeout, "late"); });
  EXPECT_EQ(good->wait().body, "/");
  EXPECT_EQ(bad->wait().status, 504);
}

TEST(CallPoolOfTheApi, WhatWaitsForAStoreThatHangsDoesNotHoldUpTheEnd) {
  const SystemClock clock;
  StuckStore stuck(clock);
  ServerOptions options = quiet_options();
  options.call_threads = 1;
  ApiUnderTest under_test(options, {{"main", stuck.store()}}, clock);
  const auto running = under_test.begin(get("/v1/messages/s/m"));
  stuck.wait_for_first_find();
  auto looking = under_test.begin(get("/v1/messages/s/m"));
  auto sending =
      under_test.begin(post("/v1/messages", R"([{"source":"s","messageId":"m","topic":"t"}])"));
  under_test.api().drain();
  EXPECT_FALSE(looking->answered());
  EXPECT_FALSE(sending->answered());

  const std::vector<std::weak_ptr<TestExchange>> waiting = {looking->weak_from_this(),
                                                            sending->weak_from_this()};
  looking.reset();
  sending.reset();
  EXPECT_FALSE(waiting[0].expired()) << "their calls own them";
  EXPECT_FALSE(waiting[1].expired()) << "their calls own them";
  std::jthread ending([&] { under_test.destroy(); });
  // While the store hangs.
  EXPECT_TRUE(eventually([&] { return waiting[0].expired() && waiting[1].expired(); }));
  EXPECT_FALSE(running->answered());
  stuck.let_go();
  ending.join();
  EXPECT_EQ(running->wait().status, 404) << "it had begun, and nothing that it used was gone";
  EXPECT_EQ(stuck.finds(), 1);
  EXPECT_EQ(stuck.store().inbox().find(MessageKey{"s", "m"}), std::nullopt);
}

TEST(TimerQueueTest, CallsBackInTheOrderOfTheTimes) {
  std::promise<void> last;
  std::vector<int> order;
  TimerQueue timers;
  const SteadyTime now = steady_clock::now();
  timers.at(now + Duration{30}, [&] {
    order.push_back(3);
    last.set_value();
  });
  timers.at(now + Duration{10}, [&] { order.push_back(1); });
  timers.at(now + Duration{20}, [&] { order.push_back(2); });
  timers.at(now - Duration{10}, [&] { order.push_back(0); });
  last.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_GE(steady_clock::now(), now + Duration{30});
}

TEST(TimerQueueTest, ACancelledTimerIsNotCalled) {
  std::promise<void> later;
  std::atomic<bool> called = false;
  TimerQueue timers;
  const SteadyTime now = steady_clock::now();
  const TimerQueue::Timer timer = timers.at(now + Duration{20}, [&] { called = true; });
  timers.at(now + Duration{30}, [&] { later.set_value(); });
  timers.cancel(timer);
  later.get_future().wait();
  EXPECT_FALSE(called);
}

TEST(TimerQueueTest, StoppingDropsWhatWaits) {
  std::atomic<bool> called = false;
  TimerQueue timers;
  timers.at(steady_clock::now() + std::chrono::hours{1}, [&] { called = true; });
  timers.stop();
  EXPECT_EQ(timers.at(steady_clock::now(), [&] { called = true; }).id, 0U);
  EXPECT_FALSE(called);
}

TEST(TimerQueueTest, ACallbackMaySetAnotherTimer) {
  std::promise<void> done;
  TimerQueue timers;
  timers.at(steady_clock::now(),
            [&] { timers.at(steady_clock::now(), [&] { done.set_value(); }); });
  done.get_future().wait();
}

}  // namespace

}  // namespace oncebox::server
