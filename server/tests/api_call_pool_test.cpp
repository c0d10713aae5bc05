#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "api/call_pool.hpp"
#include "api/timer_queue.hpp"
#include "oncebox/error.hpp"
#include "test_exchange.hpp"

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

TEST(CallPoolTest, AnswersWithWhatACallReturnsOrThrows) {
  CallPool pool(1, 10);
  const auto good = std::make_shared<TestExchange>(Request{.path = "/"});
  const auto bad = std::make_shared<TestExchange>(Request{.path = "/"});
  pool.answer(good, [](const Request& request) { return json_response(request.path); });
  pool.answer(bad, [](const Request&) -> Response { throw Error(ErrorCode::timeout, "late"); });
  EXPECT_EQ(good->wait().body, "/");
  EXPECT_EQ(bad->wait().status, 504);
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
