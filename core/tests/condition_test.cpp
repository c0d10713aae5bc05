#include "oncebox/detail/condition.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <thread>

#include "oncebox/testing/manual_clock.hpp"

namespace oncebox::detail {
namespace {

using std::chrono::hours;

class MovedTime : public ::testing::Test {
 protected:
  testing::ManualClock clock;
  Mutex mutex;
  TimedCondition changed{clock};
};

TEST_F(MovedTime, ATimeThatHasComeIsNotWaitedFor) {
  const Lock lock(mutex);
  EXPECT_FALSE(changed.wait_until(mutex, clock.steady()));
}

TEST_F(MovedTime, AWaitEndsWhenTheTimeIsMovedPastItsLimit) {
  const SteadyTime limit = clock.steady() + hours{2};
  std::jthread waiter([&] {
    const Lock lock(mutex);
    while (changed.wait_until(mutex, limit)) {
    }
  });
  clock.advance(hours{1});
  clock.advance(hours{1});  // whether the waiter sleeps by now or not
  waiter.join();
  EXPECT_EQ(clock.steady(), limit);
}

TEST_F(MovedTime, ANotificationEndsAWaitThoughNoTimePasses) {
  bool told = false;  // guarded by the mutex
  std::jthread waiter([&] {
    const Lock lock(mutex);
    while (!told) changed.wait(mutex);
  });
  {
    const Lock lock(mutex);
    told = true;
    changed.notify_one();
  }
  waiter.join();
  EXPECT_TRUE(told);
}

TEST_F(MovedTime, TheWallClockCanBeSetBackAlone) {
  const SteadyTime steady = clock.steady();
  const TimePoint now = clock.now();
  clock.set(now - hours{24});
  EXPECT_EQ(clock.steady(), steady);
  clock.advance(hours{1});
  EXPECT_EQ(clock.steady(), steady + hours{1});
  EXPECT_EQ(clock.now(), now - hours{23});
}

TEST_F(MovedTime, AStopEndsAWaitThoughNoTimePasses) {
  std::stop_source stop;
  std::jthread waiter([&] {
    const NotifyOnStop notify(stop.get_token(), mutex, changed);
    const Lock lock(mutex);
    while (!stop.stop_requested()) changed.wait(mutex);
  });
  stop.request_stop();  // whether the waiter sleeps by now or not
  waiter.join();
  const NotifyOnStop at_once(stop.get_token(), mutex, changed);  // does not hang
}

TEST_F(MovedTime, APauseEndsWhenTheTimeIsThere) {
  const SteadyTime limit = clock.steady() + hours{1};
  std::jthread pausing([&] { pause_until(clock, limit); });
  clock.advance(hours{1});
  pausing.join();
  pause_until(clock, limit);  // does not wait
}

TEST(RealTime, AWaitEndsByItself) {
  const SystemClock clock;
  Mutex mutex;
  TimedCondition changed(clock);
  const SteadyTime limit = clock.steady() + std::chrono::milliseconds{5};
  const Lock lock(mutex);
  while (changed.wait_until(mutex, limit)) {
  }
  EXPECT_GE(clock.steady(), limit);
}

}  // namespace
}  // namespace oncebox::detail
