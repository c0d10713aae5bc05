// Tasks of many stores on a few threads.

#include "store_tasks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <new>
#include <sstream>

#include "expect_error.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;

constexpr SteadyTime kStart{std::chrono::hours{1}};
constexpr Duration kInterval = seconds{30};
constexpr Duration kIdleInterval = seconds{120};

TaskTimes times_of(std::size_t seed = 0) { return {kInterval, kIdleInterval, kStart, seed}; }

TEST(TaskTimesTest, TheFirstStepsOfAThousandStoresAreSpreadOverTheInterval) {
  std::array<int, 30> per_second{};
  for (int store = 0; store < 1'000; ++store) {
    const std::size_t seed = std::hash<std::string>{}("tenant-" + std::to_string(store));
    const auto wait = times_of(seed).next() - kStart;
    ASSERT_GT(wait, Duration{0});
    ASSERT_LE(wait, kInterval);
    const auto second = std::chrono::ceil<seconds>(wait).count() - 1;
    ++per_second.at(static_cast<std::size_t>(second));
  }
  for (const int stores : per_second) EXPECT_LT(stores, 100);
}

TEST(TaskTimesTest, AStepThatLeftMoreIsFollowedByARestOfFourTimesItsLength) {
  TaskTimes times = times_of();
  const SteadyTime ended = kStart + Duration{25};
  EXPECT_EQ(times.ended(StepOutcome::more, kStart, ended), Duration{100});
  EXPECT_EQ(times.next(), ended + Duration{100});
}

TEST(TaskTimesTest, ARestIsNeverLongerThanTheIntervalNorNothing) {
  TaskTimes times = times_of();
  EXPECT_EQ(times.ended(StepOutcome::more, kStart, kStart + std::chrono::hours{1}), kInterval);
  EXPECT_EQ(times.ended(StepOutcome::more, kStart, kStart), Duration{1});
}

TEST(TaskTimesTest, StepsThatFindNothingComeEverMoreRarelyUntilOneFindsSomething) {
  TaskTimes times = times_of();
  for (const Duration pause : {seconds{60}, seconds{120}, seconds{120}}) {
    EXPECT_EQ(times.ended(StepOutcome::idle, kStart, kStart), Duration{0});
    EXPECT_EQ(times.next(), kStart + pause);
  }
  times.ended(StepOutcome::worked, kStart, kStart);
  EXPECT_EQ(times.next(), kStart + kInterval);
}

TEST(TaskTimesTest, AFailureIsFollowedByEverLongerPausesUntilAStepSucceeds) {
  TaskTimes times(Duration{1}, Duration{1}, kStart, 0);
  for (const int pause : {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}) {
    EXPECT_EQ(times.failed(kStart), seconds{pause});
    EXPECT_EQ(times.next(), kStart + seconds{pause});
  }
  times.ended(StepOutcome::worked, kStart, kStart);
  EXPECT_EQ(times.failed(kStart), seconds{1});
}

/// A task that hardly rests.
StoreTask busy(std::function<StepOutcome()> step) {
  return {"work", Duration{1}, Duration{1}, std::move(step)};
}

class StoreTasksTest : public ::testing::Test {
 protected:
  std::ostringstream log_;
  SystemClock clock_;
  TextLogger logger_{log_, clock_};
};

TEST_F(StoreTasksTest, OfOneStoreOneStepRunsAtATime) {
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  std::atomic<int> steps = 0;
  const auto step = [&] {
    most = std::max(most.load(), ++running);
    std::this_thread::yield();
    ++steps;
    --running;
    return StepOutcome::more;
  };
  StoreTasks tasks("work", 4, logger_, clock_);
  tasks.add({"a", "a"}, {busy(step), busy(step), busy(step)});
  EXPECT_TRUE(eventually([&] { return steps > 30; }));
  tasks.stop();
  EXPECT_EQ(most, 1);
}

TEST_F(StoreTasksTest, EveryTaskOfEveryStoreGetsItsTurn) {
  constexpr int kStores = 200;
  std::array<std::atomic<int>, 2 * kStores> steps{};
  StoreTasks tasks("work", 2, logger_, clock_);
  for (std::size_t store = 0; store < kStores; ++store) {
    std::vector<StoreTask> both;
    for (std::atomic<int>* count : {&steps.at(2 * store), &steps.at(2 * store + 1)}) {
      both.push_back(busy([count] { return ++*count, StepOutcome::worked; }));
    }
    const std::string name = "s" + std::to_string(store);
    tasks.add({name, name}, std::move(both));
  }
  EXPECT_TRUE(eventually(
      [&] { return std::ranges::all_of(steps, [](const auto& count) { return count >= 3; }); }));
}

TEST_F(StoreTasksTest, OneThatHangsHoldsUpNoOther) {
  std::promise<void> let_go;
  std::promise<void> hangs;
  std::atomic<int> steps = 0;
  StoreTasks tasks("work", 2, logger_, clock_);
  tasks.add({"hangs", "hangs"}, {busy([&] {
              hangs.set_value();
              let_go.get_future().wait();
              return StepOutcome::worked;
            })});
  hangs.get_future().wait();
  tasks.add({"works", "works"}, {busy([&] { return ++steps, StepOutcome::worked; })});
  EXPECT_TRUE(eventually([&] { return steps > 10; }));
  tasks.remove("hangs");
  let_go.set_value();
}

/// Holds up steps until it is opened, and counts them.
class HeldSteps {
 public:
  [[nodiscard]] StoreTask task() {
    return busy([this] {
      held_.change([](int& held) { ++held; });
      opened_.wait();
      return StepOutcome::worked;
    });
  }
  [[nodiscard]] bool wait_for(int held) const {
    return held_.wait([&](int now) { return now >= held; });
  }
  [[nodiscard]] int held() const { return held_.get(); }
  void open() { open_.set_value(); }

 private:
  Watched<int> held_;
  std::promise<void> open_;
  const std::shared_future<void> opened_ = open_.get_future().share();
};

TEST_F(StoreTasksTest, DatabaseServersThatHangHoldUpThemselvesAlone) {
  HeldSteps held;
  std::atomic<int> steps = 0;
  StoreTasks tasks("work", 2, logger_, clock_, Duration{1});
  for (const std::string server : {"one", "two", "three"}) {
    for (int i = 0; i < 5; ++i) {
      tasks.add({server + std::to_string(i), server}, {held.task()});
    }
  }
  tasks.add({"works", "good"}, {busy([&] { return ++steps, StepOutcome::worked; })});
  // Of each server as many as there are steps, and no more.
  EXPECT_TRUE(held.wait_for(6));
  EXPECT_TRUE(eventually([&, before = steps.load()] { return steps > before + 50; }));
  EXPECT_EQ(held.held(), 6);
  tasks.remove("works");
  held.open();
}

TEST_F(StoreTasksTest, AStoreThatHangsLeavesTheOthersOfItsServerTheirTurns) {
  HeldSteps held;
  std::atomic<int> steps = 0;
  StoreTasks tasks("work", 4, logger_, clock_, Duration{1});
  tasks.add({"a", "server"}, {held.task()});
  tasks.add({"b", "server"}, {held.task()});
  EXPECT_TRUE(held.wait_for(2));
  tasks.add({"c", "server"}, {busy([&] { return ++steps, StepOutcome::worked; })});
  EXPECT_TRUE(eventually([&] { return steps > 50; }));
  held.open();
}

TEST_F(StoreTasksTest, ServersWhoseLastStepFailedHaveHalfOfTheThreadsTogether) {
  HeldSteps held;
  std::atomic<int> steps = 0;
  StoreTasks tasks("work", 4, logger_, clock_, std::chrono::hours{1});
  for (int i = 0; i < 8; ++i) {
    StoreTask fails_and_hangs = held.task();
    fails_and_hangs.step = [hang = fails_and_hangs.step, has_failed = false]() mutable {
      if (has_failed) return hang();
      has_failed = true;
      throw Error(ErrorCode::unavailable, "gone");
    };
    const std::string number = std::to_string(i);
    tasks.add({"down" + number, "server" + std::to_string(i / 4)}, {std::move(fails_and_hangs)});
  }
  EXPECT_TRUE(held.wait_for(2));
  tasks.add({"works", "good"}, {busy([&] { return ++steps, StepOutcome::worked; })});
  EXPECT_TRUE(eventually([&] { return steps > 50; }));
  EXPECT_EQ(held.held(), 2);
  tasks.remove("works");
  held.open();
}

TEST_F(StoreTasksTest, AStepThatHangsKeepsItsServerInTroubleThoughOthersOfItSucceed) {
  constexpr Duration kHangsAfter = std::chrono::hours{1};
  testing::ManualClock clock;
  HeldSteps hanging;
  HeldSteps held;
  std::atomic<int> steps = 0;
  StoreTasks tasks("work", 4, logger_, clock, kHangsAfter);
  const auto eventually_moving = [&](auto holds) {
    return eventually([&] {
      clock.advance(Duration{1});
      return holds();
    });
  };
  const auto works_on = [&] {
    return eventually_moving([&, before = steps.load()] { return steps > before + 20; });
  };
  tasks.add({"hangs", "bad"}, {hanging.task()});
  EXPECT_TRUE(eventually_moving([&] { return hanging.held() == 1; }));
  clock.advance(kHangsAfter);
  tasks.add({"works", "bad"}, {busy([&] { return ++steps, StepOutcome::worked; })});
  EXPECT_TRUE(works_on());
  tasks.remove("works");
  for (const char* store : {"a", "b", "c"}) tasks.add({store, "bad"}, {held.task()});
  tasks.add({"good", "good"}, {busy([&] { return ++steps, StepOutcome::worked; })});
  EXPECT_TRUE(eventually_moving([&] { return held.held() == 2; }));
  EXPECT_TRUE(works_on());
  EXPECT_EQ(held.held(), 2) << "half of the steps, for all servers in trouble";
  tasks.remove("good");
  held.open();
  hanging.open();
}

TEST_F(StoreTasksTest, AStepForWhichThereIsNoMemoryIsTriedAgain) {
  testing::ManualClock clock;
  std::atomic<int> steps = 0;
  StoreTasks tasks("housekeeping", 1, logger_, clock);
  tasks.add({"a", "a"}, {busy([&]() -> StepOutcome {
              if (++steps < 3) throw std::bad_alloc();
              return StepOutcome::worked;
            })});
  EXPECT_TRUE(eventually([&] {
    clock.advance(seconds{1});
    return steps >= 5;
  }));
  tasks.stop();
  EXPECT_NE(log_.str().find("housekeeping failed, will be tried again store=a"), std::string::npos)
      << log_.str();
}

TEST_F(StoreTasksTest, OneThatFailsIsLoggedAndAskedByNoneOfItsTasksForAWhile) {
  Watched<std::vector<SteadyTime>> failures;
  std::atomic<int> steps = 0;
  const auto fail = [&]() -> StepOutcome {
    failures.change([](auto& times) { times.push_back(std::chrono::steady_clock::now()); });
    throw Error(ErrorCode::unavailable, "gone");
  };
  StoreTasks tasks("housekeeping", 2, logger_, clock_);
  tasks.add({"down", "down"}, {busy(fail), busy(fail)});
  tasks.add({"up", "up"}, {busy([&] { return ++steps, StepOutcome::worked; })});
  EXPECT_TRUE(eventually([&] { return !failures.get().empty() && steps > 10; }));
  tasks.stop();
  // One, unless the machine has taken longer than the pause.
  const std::vector<SteadyTime> times = failures.get();
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_GE(times[i] - times[i - 1], seconds{1});
  EXPECT_NE(log_.str().find("housekeeping failed, will be tried again store=down"),
            std::string::npos)
      << log_.str();
}

TEST_F(StoreTasksTest, WhatKeepsAStoreAliveIsLetGoWhenItsLastStepHasEnded) {
  std::promise<void> let_go;
  std::promise<void> runs;
  const auto owner = std::make_shared<int>(0);
  StoreTasks tasks("work", 2, logger_, clock_);
  tasks.add({"a", "a", owner}, {busy([&] {
              runs.set_value();
              let_go.get_future().wait();
              return StepOutcome::more;
            })});
  runs.get_future().wait();
  tasks.remove("a");
  EXPECT_GT(owner.use_count(), 1);
  let_go.set_value();
  EXPECT_TRUE(eventually([&] { return owner.use_count() == 1; }));
}

TEST_F(StoreTasksTest, AStoreThatWaitsIsLetGoAtOnce) {
  const auto owner = std::make_shared<int>(0);
  StoreTasks tasks("work", 1, logger_, clock_);
  tasks.add({"a", "a", owner},
            {{"work", kInterval, kInterval, [] { return StepOutcome::worked; }}});
  tasks.remove("a");
  EXPECT_EQ(owner.use_count(), 1);
  tasks.remove("a");
  tasks.add({"a", "a", owner}, {busy([] { return StepOutcome::worked; })});
  expect_error(ErrorCode::invalid_argument,
               [&] { tasks.add({"a", "a"}, {busy([] { return StepOutcome::worked; })}); });
}

TEST_F(StoreTasksTest, WhatKeepsAStoreAliveMayUseTheTasksAtItsEnd) {
  HeldSteps held;
  std::atomic<int> ended = 0;
  StoreTasks tasks("work", 2, logger_, clock_);
  const auto owner = [&] {
    return std::shared_ptr<void>(nullptr, [&](void*) {
      tasks.remove("none");
      ++ended;
    });
  };
  tasks.add({"waits", "a", owner()},
            {{"work", kInterval, kInterval, [] { return StepOutcome::worked; }}});
  tasks.remove("waits");
  EXPECT_EQ(ended, 1);
  tasks.add({"runs", "a", owner()}, {held.task()});
  EXPECT_TRUE(held.wait_for(1));
  tasks.remove("runs");
  EXPECT_EQ(ended, 1);
  held.open();
  EXPECT_TRUE(eventually([&] { return ended == 2; }));
}

TEST_F(StoreTasksTest, AfterAStopNothingRuns) {
  std::atomic<int> steps = 0;
  StoreTasks tasks("work", 2, logger_, clock_);
  const auto step = [&] { return ++steps, StepOutcome::worked; };
  tasks.add({"a", "a"}, {busy(step)});
  EXPECT_TRUE(eventually([&] { return steps > 0; }));
  tasks.stop();
  const int before = steps;
  tasks.add({"b", "b"}, {busy(step)});
  tasks.stop();
  EXPECT_EQ(steps, before);
}

}  // namespace
}  // namespace oncebox
