// Things that are closed where nobody waits for them.

#include "oncebox/engine/closing.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>

#include "failing_allocations.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "watched.hpp"

namespace oncebox::engine {
namespace {

/// Where a thing was destroyed, and when it may be.
struct Ends {
  Watched<int> begun;
  Watched<bool> may_end{true};
  Watched<std::thread::id> thread;
};

class Thing {
 public:
  explicit Thing(Ends& ends) : ends_(ends) {}
  ~Thing() {
    ends_.begun.change([](int& count) { ++count; });
    EXPECT_TRUE(ends_.may_end.wait_for(true)) << "nobody let it end";
    ends_.thread.change([](auto& thread) { thread = std::this_thread::get_id(); });
  }
  Thing(const Thing&) = delete;
  Thing& operator=(const Thing&) = delete;

 private:
  Ends& ends_;
};

TEST(ClosingTest, ThingsEndOnAnotherThreadAndTheDestructorWaitsForThem) {
  testing::ManualClock clock;
  Ends let_go;
  Ends made;
  {
    Closing closing(clock);
    closing.let_go("server", std::make_shared<Thing>(let_go));
    (void)closing.make<Thing>("server", made);
  }
  for (const Ends* ends : {&let_go, &made}) {
    EXPECT_EQ(ends->begun.get(), 1);
    EXPECT_NE(ends->thread.get(), std::thread::id());
    EXPECT_NE(ends->thread.get(), std::this_thread::get_id());
  }
}

TEST(ClosingTest, WhatItMadeIsWaitedForThoughItIsStillHeld) {
  testing::ManualClock clock;
  Ends ends;
  std::optional<Closing> closing(std::in_place, clock);
  std::shared_ptr<Thing> held = closing->make<Thing>("server", ends);
  std::jthread ending([&] { closing.reset(); });
  held.reset();
  ending.join();
  EXPECT_EQ(ends.begun.get(), 1);
}

TEST(ClosingTest, OneThatHangsHoldsUpNeitherItsOwnerNorOthers) {
  testing::ManualClock clock;
  Ends hangs;
  Ends ends;
  hangs.may_end.change([](bool& may) { may = false; });
  Closing closing(clock);
  for (int i = 0; i < 10; ++i) closing.let_go("hangs", std::make_shared<Thing>(hangs));
  EXPECT_TRUE(hangs.begun.wait_for(2)) << "as many as one server may have";
  closing.let_go("good", std::make_shared<Thing>(ends));
  EXPECT_TRUE(ends.begun.wait_for(1));
  EXPECT_EQ(hangs.begun.get(), 2);
  hangs.may_end.change([](bool& may) { may = true; });
}

TEST(ClosingTest, WithoutMemoryAThingThatWasMadeEndsElsewhereAndAnotherRightHere) {
  testing::ManualClock clock;
  Ends made;
  Ends let_go;
  Closing closing(clock);
  std::shared_ptr<Thing> last = closing.make<Thing>("server", made);
  std::shared_ptr<void> other = std::make_shared<Thing>(let_go);
  {
    const FailingAllocation no_memory(0);
    last.reset();
    closing.let_go("server", std::move(other));
  }
  EXPECT_EQ(let_go.thread.get(), std::this_thread::get_id());
  EXPECT_TRUE(made.thread.wait([](std::thread::id thread) { return thread != std::thread::id(); }));
  EXPECT_NE(made.thread.get(), std::this_thread::get_id());
}

TEST(ClosingTest, JobsRunOnAnotherThread) {
  testing::ManualClock clock;
  Watched<std::thread::id> ran;
  Closing closing(clock);
  closing.run("server",
              [&] { ran.change([](auto& thread) { thread = std::this_thread::get_id(); }); });
  EXPECT_TRUE(ran.wait([](std::thread::id thread) { return thread != std::thread::id(); }));
  EXPECT_NE(ran.get(), std::this_thread::get_id());
}

}  // namespace
}  // namespace oncebox::engine
