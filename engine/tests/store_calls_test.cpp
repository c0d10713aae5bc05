// Calls to stores on threads that come and go. Which call begins next is tested with `CallPlan`.

#include "oncebox/engine/store_calls.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "failing_allocations.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "watched.hpp"

namespace oncebox::engine {
namespace {

using std::chrono::seconds;
using testing::ManualClock;
using Known = CallEnded::Store;

/// Holds up calls until it is opened, and counts them.
class Gate {
 public:
  void pass() {
    passing_.change([](int& calls) { ++calls; });
    EXPECT_TRUE(is_open_.wait_for(true)) << "nobody opened it";
  }
  void open() {
    is_open_.change([](bool& open) { open = true; });
  }
  [[nodiscard]] bool wait_for(int calls) const {
    return passing_.wait([&](int now) { return now >= calls; });
  }
  [[nodiscard]] int calls() const { return passing_.get(); }

 private:
  Watched<int> passing_;
  Watched<bool> is_open_;
};

class PostedCall final : public StoreCalls::Call {
 public:
  explicit PostedCall(std::function<void()> call) : call_(std::move(call)) {}
  void run() noexcept override { call_(); }

 private:
  const std::function<void()> call_;
};

bool post(const StoreCalls::Lane& lane, std::function<void()> call) {
  return lane.post(std::make_unique<PostedCall>(std::move(call)));
}

class StoreCallsTest : public ::testing::Test {
 protected:
  static StoreCalls::Options options(std::size_t calls, std::size_t threads = 100) {
    return {.limits = {.per_server = calls, .in_all = calls, .hangs_after = seconds{5}},
            .threads = threads};
  }
  /// Counts its calls.
  [[nodiscard]] StoreCalls::Run count() {
    return [this](CallKind) {
      runs_.change([](int& runs) { ++runs; });
      return CallEnded{};
    };
  }
  [[nodiscard]] bool wait_for_runs(int runs) const { return runs_.wait_for(runs); }

  ManualClock clock_;
  Watched<int> runs_;
};

TEST_F(StoreCallsTest, WhatIsWantedIsCalledWithItsKind) {
  Watched<std::vector<CallKind>> kinds;
  StoreCalls calls(options(1), clock_);
  const StoreCalls::Lane lane = calls.add({"server", [&](CallKind kind) {
                                             kinds.change([&](auto& all) { all.push_back(kind); });
                                             return CallEnded{};
                                           }});
  lane.want(CallKind::keep);
  EXPECT_TRUE(kinds.wait_for({CallKind::keep}));
  lane.want();
  EXPECT_TRUE(kinds.wait_for({CallKind::keep, CallKind::call}));
}

TEST_F(StoreCallsTest, WantedWhileItRunsIsCalledOnceMore) {
  Gate gate;
  StoreCalls calls(options(2), clock_);
  const StoreCalls::Lane lane = calls.add({"server", [&](CallKind) {
                                             gate.pass();
                                             return CallEnded{};
                                           }});
  lane.want();
  EXPECT_TRUE(gate.wait_for(1));
  lane.want();
  lane.want();
  gate.open();
  EXPECT_TRUE(gate.wait_for(2));
  calls.stop();
  EXPECT_EQ(gate.calls(), 2);
}

TEST_F(StoreCallsTest, ATimeComesWhenTheClockIsMoved) {
  StoreCalls calls(options(2), clock_);
  const StoreCalls::Lane later = calls.add({"server", count()});
  const StoreCalls::Lane sooner = calls.add({"server", count()});
  later.want_at(clock_.steady() + seconds{20});
  sooner.want_at(clock_.steady() + seconds{10});
  EXPECT_EQ(runs_.get(), 0);
  clock_.advance(seconds{10});
  EXPECT_TRUE(wait_for_runs(1));
  clock_.advance(seconds{10} - Duration{1});
  EXPECT_EQ(runs_.get(), 1);
  clock_.advance(Duration{1});
  EXPECT_TRUE(wait_for_runs(2));
}

TEST_F(StoreCallsTest, ACallTellsWhenItComesAgain) {
  StoreCalls calls(options(1), clock_);
  const StoreCalls::Lane lane =
      calls.add({"server", [&](CallKind) {
                   runs_.change([](int& runs) { ++runs; });
                   return CallEnded{.again = clock_.steady() + seconds{1}};
                 }});
  lane.want();
  for (int run = 1; run <= 5; ++run) {
    EXPECT_TRUE(runs_.wait([&](int runs) { return runs >= run; }));
    // Whether it waits already is not to be seen: the time is moved until it has come.
    EXPECT_TRUE(eventually([&] {
      clock_.advance(seconds{1});
      return runs_.get() > run;
    }));
  }
}

// In real time: a clock that is moved wakes everybody.
TEST_F(StoreCallsTest, ACallComesAgainThoughAnotherThreadWaitsForALaterTime) {
  const SystemClock real;
  StoreCalls calls(options(2), real);
  const StoreCalls::Lane later = calls.add({"server", count()});
  later.want_at(real.steady() + std::chrono::hours{1});
  const StoreCalls::Lane lane = calls.add({"server", [&](CallKind) {
                                             runs_.change([](int& runs) { ++runs; });
                                             return CallEnded{.again = real.steady() + Duration{1}};
                                           }});
  lane.want();
  EXPECT_TRUE(runs_.wait([](int runs) { return runs >= 5; }));
}

TEST_F(StoreCallsTest, PostedCallsBeginInTheirOrderAndLanesTakeTurns) {
  Gate gate;
  Watched<std::string> order;
  StoreCalls calls(options(1), clock_);
  const StoreCalls::Lane first = calls.add({.server = "server"});
  const StoreCalls::Lane a = calls.add({.server = "server", .width = 9});
  const StoreCalls::Lane b = calls.add({.server = "server", .width = 9});
  post(first, [&] { gate.pass(); });
  EXPECT_TRUE(gate.wait_for(1));
  for (const char* call : {"a1 ", "a2 ", "a3 "})
    post(a, [&, call] { order.change([&](std::string& all) { all += call; }); });
  for (const char* call : {"b1 ", "b2 "})
    post(b, [&, call] { order.change([&](std::string& all) { all += call; }); });
  gate.open();
  EXPECT_TRUE(order.wait([](const std::string& all) { return all.size() == 15; }));
  EXPECT_EQ(order.get(), "a1 b1 a2 b2 a3 ");
}

TEST_F(StoreCallsTest, AServerThatHangsHoldsUpOthersUntilItIsKnownToHang) {
  Gate gate;
  StoreCalls calls(options(2), clock_);
  const auto hang = [&](CallKind) {
    gate.pass();
    return CallEnded{};
  };
  std::vector<StoreCalls::Lane> hanging;
  for (const char* server : {"one", "one", "one", "two", "two", "two"}) {
    hanging.push_back(calls.add({server, hang}));
    hanging.back().want();
  }
  EXPECT_TRUE(gate.wait_for(2));
  const StoreCalls::Lane good = calls.add({"good", count()});
  good.want();
  EXPECT_EQ(runs_.get(), 0);
  clock_.advance(seconds{5});
  EXPECT_TRUE(wait_for_runs(1));
  // Of each server as many as may be, and no more.
  EXPECT_TRUE(eventually([&] {
    clock_.advance(seconds{5});
    return gate.calls() == 4;
  }));
  good.want();
  EXPECT_TRUE(wait_for_runs(2));
  EXPECT_EQ(gate.calls(), 4);
  gate.open();
  calls.stop();
  EXPECT_EQ(gate.calls(), 6) << "nothing was forgotten";
}

TEST_F(StoreCallsTest, ThreadsStartWhenTheyAreNeededAndEndWhenTheyHaveRested) {
  StoreCalls calls(options(8), clock_);
  EXPECT_EQ(calls.threads(), 0U);
  for (int round = 0; round < 3; ++round) {
    Gate gate;
    const StoreCalls::Lane lane = calls.add({.server = "server", .width = 8});
    for (int i = 0; i < 8; ++i) post(lane, [&] { gate.pass(); });
    EXPECT_TRUE(gate.wait_for(8));
    EXPECT_GE(calls.threads(), 8U);
    gate.open();
    EXPECT_TRUE(eventually([&] {
      clock_.advance(seconds{10});
      return calls.threads() == 0;
    })) << round;
  }
}

TEST_F(StoreCallsTest, OneThreadStaysWhileThereIsATimeToWaitFor) {
  StoreCalls calls(options(8), clock_);
  const StoreCalls::Lane lane = calls.add({"server", count()});
  const SteadyTime at = clock_.steady() + std::chrono::hours{1'000};
  lane.want_at(at);
  EXPECT_EQ(calls.threads(), 1U);
  for (int i = 0; i < 100; ++i) clock_.advance(std::chrono::hours{1});
  EXPECT_EQ(calls.threads(), 1U);
  EXPECT_EQ(runs_.get(), 0);
  clock_.advance(std::chrono::hours{900});
  EXPECT_TRUE(wait_for_runs(1));
}

TEST_F(StoreCallsTest, ThreadsThatAreKeptStartAtOnceAndDoNotEnd) {
  StoreCalls::Options kept = options(8);
  kept.threads_kept = 1;
  StoreCalls calls(kept, clock_);
  EXPECT_EQ(calls.threads(), 1U);
  const StoreCalls::Lane lane = calls.add({.server = "server", .width = 8});
  Gate gate;
  for (int i = 0; i < 4; ++i) post(lane, [&] { gate.pass(); });
  EXPECT_TRUE(gate.wait_for(4));
  gate.open();
  EXPECT_TRUE(eventually([&] {
    clock_.advance(seconds{10});
    return calls.threads() == 1;
  }));
  clock_.advance(seconds{100});
  EXPECT_EQ(calls.threads(), 1U);
}

/// Chooses this lane, or none.
struct OneLane final : StoreCalls::Chooser {
  const StoreCalls::Lane* choose(const StoreCalls::Candidates& candidates) noexcept override {
    const StoreCalls::Lane* const lane = chosen.load();
    return lane != nullptr && candidates.has(*lane) ? lane : nullptr;
  }
  std::atomic<const StoreCalls::Lane*> chosen = nullptr;
};

TEST_F(StoreCallsTest, AChooserIsAskedAgainWhenItWantsToBe) {
  OneLane chooser;
  StoreCalls::Options chosen = options(8);
  chosen.chooser = &chooser;
  Watched<std::string> made;
  std::atomic<int> ready = 0;
  StoreCalls calls(chosen, clock_);
  const auto store = [&](const char* name) {
    const auto run = [&made, name](CallKind) {
      made.change([&](std::string& all) { all += name; });
      return CallEnded{};
    };
    return StoreCalls::Store{.server = "server", .run = run, .on_ready = [&] { ++ready; }};
  };
  const StoreCalls::Lane a = calls.add(store("a"));
  const StoreCalls::Lane b = calls.add(store("b"));
  a.want();
  b.want();
  EXPECT_EQ(ready.load(), 2);
  chooser.chosen = &b;
  calls.reconsider();
  ASSERT_TRUE(made.wait_for("b"));
  chooser.chosen = &a;
  calls.reconsider();
  EXPECT_TRUE(made.wait_for("ba"));
}

TEST_F(StoreCallsTest, WithoutThreadsTheOwnerMakesTheCalls) {
  StoreCalls calls(options(8, 0), clock_);
  const StoreCalls::Lane lane = calls.add({"server", count()});
  EXPECT_FALSE(calls.run_next());
  EXPECT_EQ(calls.next_change(), SteadyTime::max());
  lane.want_at(clock_.steady() + seconds{1});
  EXPECT_FALSE(calls.run_next());
  EXPECT_EQ(calls.next_change(), clock_.steady() + seconds{1});
  clock_.advance(seconds{1});
  EXPECT_TRUE(calls.run_next());
  EXPECT_EQ(runs_.get(), 1);
  EXPECT_EQ(calls.threads(), 0U);
}

TEST_F(StoreCallsTest, AThreadKnowsWhoseItIs) {
  Watched<std::string> said;
  StoreCalls calls(options(8), clock_);
  StoreCalls others(options(8), clock_);
  const StoreCalls::Lane lane = calls.add({.server = "server"});
  post(lane, [&] {
    said.change([&](std::string& text) {
      text = std::string(calls.is_own_thread() ? "own" : "other") +
             (others.is_own_thread() ? " own" : " other");
    });
  });
  EXPECT_TRUE(said.wait_for("own other"));
  EXPECT_FALSE(calls.is_own_thread());
}

TEST_F(StoreCallsTest, WhatIsWantedWithoutMemoryForAThreadIsCalledWithTheNextNotice) {
  StoreCalls calls(options(2), clock_);
  const StoreCalls::Lane lane = calls.add({"server", count()});
  auto posted = std::make_unique<PostedCall>([this] { (void)count()(CallKind::call); });
  {
    const FailingAllocation no_memory(0);
    lane.want();
    lane.want_at(clock_.steady(), CallKind::keep);
    lane.want(CallKind::settle);
    lane.unwant(CallKind::settle);
    lane.set_width(2);
    EXPECT_TRUE(lane.post(std::move(posted)));
  }
  EXPECT_EQ(calls.threads(), 0U);
  EXPECT_EQ(runs_.get(), 0);
  const StoreCalls::Lane other = calls.add({"other", {}});
  EXPECT_TRUE(wait_for_runs(3));
}

TEST_F(StoreCallsTest, WithoutMemoryForMoreThreadsThoseThatAreThereMakeTheCalls) {
  Gate gate;
  StoreCalls calls(options(8), clock_);
  const StoreCalls::Lane first = calls.add({.server = "server"});
  const StoreCalls::Lane lane = calls.add({"server", count()});
  post(first, [&] { gate.pass(); });
  EXPECT_TRUE(gate.wait_for(1));
  {
    const FailingAllocation no_memory(0);
    lane.want();
  }
  EXPECT_EQ(calls.threads(), 1U);
  gate.open();
  EXPECT_TRUE(wait_for_runs(1));
}

TEST_F(StoreCallsTest, WithoutAnyThreadTheStopMakesTheCallsThatWait) {
  StoreCalls calls(options(1, 0), clock_);
  const StoreCalls::Lane lane = calls.add({"server", count()});
  lane.want();
  post(lane, [this] { (void)count()(CallKind::call); });
  EXPECT_EQ(runs_.get(), 0);
  calls.stop();
  EXPECT_EQ(runs_.get(), 2);
}

TEST_F(StoreCallsTest, ALaneThatCannotBeMadeLeavesEverythingAsItWas) {
  StoreCalls calls(options(1), clock_);
  bool is_made = false;
  for (int allocations = 0; !is_made; ++allocations) {
    StoreCalls::Store store{.server = std::string(100, 's'), .run = count()};
    try {
      const FailingAllocation no_memory(allocations);
      const StoreCalls::Lane lane = calls.add(std::move(store));
      is_made = true;
    } catch (const std::bad_alloc&) {
      ASSERT_LT(allocations, 1'000);
    }
  }
  const StoreCalls::Lane lane = calls.add({std::string(100, 's'), count()});
  lane.want();
  EXPECT_TRUE(wait_for_runs(1));
}

TEST_F(StoreCallsTest, ACallThatThrowsHasFailedAndComesAgainAfterASecond) {
  StoreCalls calls(options(1), clock_);
  const StoreCalls::Lane lane = calls.add({"server", [this](CallKind) -> CallEnded {
                                             runs_.change([](int& runs) { ++runs; });
                                             throw std::bad_alloc();
                                           }});
  lane.want();
  EXPECT_TRUE(wait_for_runs(1));
  // Whether it waits already is not to be seen: the time is moved until it has come.
  EXPECT_TRUE(eventually([&] {
    clock_.advance(seconds{1});
    return runs_.get() > 1;
  }));
}

TEST_F(StoreCallsTest, AStopMakesTheCallsThatWaitAndTakesNoMore) {
  StoreCalls calls(options(1), clock_);
  const StoreCalls::Lane lane = calls.add({"server", count()});
  const StoreCalls::Lane later = calls.add({"server", count()});
  for (int i = 0; i < 100; ++i) post(lane, [this] { (void)count()(CallKind::call); });
  later.want_at(clock_.steady() + seconds{1});
  calls.stop();
  EXPECT_EQ(runs_.get(), 100);
  EXPECT_FALSE(post(lane, [] { FAIL() << "it was taken after the end"; }));
  lane.want();
  clock_.advance(seconds{1});
  calls.stop();
  EXPECT_EQ(runs_.get(), 100);
}

TEST_F(StoreCallsTest, ADropLetsGoOfWhatWaitsAndDoesNotWait) {
  Gate gate;
  StoreCalls calls(options(1), clock_);
  const StoreCalls::Lane lane = calls.add({.server = "server"});
  const StoreCalls::Lane wanted = calls.add({"server", count()});
  post(lane, [&] { gate.pass(); });
  EXPECT_TRUE(gate.wait_for(1));
  // More than could be destroyed one within the other.
  constexpr int kCalls = 200'000;
  const auto owned = std::make_shared<int>();
  for (int i = 0; i < kCalls; ++i) post(lane, [this, owned] { (void)count()(CallKind::call); });
  wanted.want();
  EXPECT_EQ(owned.use_count(), kCalls + 1);
  calls.drop();
  EXPECT_EQ(owned.use_count(), 1);
  gate.open();
  calls.stop();
  EXPECT_EQ(runs_.get(), 0);
}

TEST_F(StoreCallsTest, WhatALaneHoldsIsLetGoAtOnceWhenNothingRuns) {
  StoreCalls calls(options(1), clock_);
  const auto owned = std::make_shared<int>();
  StoreCalls::Lane lane = calls.add({"server", [owned](CallKind) { return CallEnded{}; }});
  lane.want_at(clock_.steady() + seconds{1});
  EXPECT_EQ(owned.use_count(), 2);
  lane = {};
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_F(StoreCallsTest, WhatALaneHoldsIsLetGoAfterItsLastCallOutsideOfTheLock) {
  Gate gate;
  StoreCalls calls(options(1), clock_);
  const StoreCalls::Lane other = calls.add({"server", count()});
  // Its end needs the lock.
  auto owned = std::shared_ptr<int>(new int, [&](const int* last) {
    other.want();
    delete last;
  });
  const std::weak_ptr<int> watched = owned;
  StoreCalls::Lane lane = calls.add({"server", [&gate, owned](CallKind) {
                                       gate.pass();
                                       return CallEnded{.again = SteadyTime{}};
                                     }});
  owned.reset();
  lane.want();
  EXPECT_TRUE(gate.wait_for(1));
  lane = {};
  EXPECT_FALSE(watched.expired());
  gate.open();
  EXPECT_TRUE(wait_for_runs(1));
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(gate.calls(), 1) << "nothing begins after it has left";
}

TEST_F(StoreCallsTest, AStoreThatTakesLongToCloseHoldsUpNoOther) {
  Gate gate;
  // Without calls that hang: nothing else wakes a thread.
  StoreCalls calls({.limits = {.per_server = 1}, .threads = 2}, clock_);
  const StoreCalls::Lane other = calls.add({"server", count()});
  auto closing = std::shared_ptr<int>(new int, [this](const int* last) {
    EXPECT_TRUE(wait_for_runs(1)) << "the other one waits for the end of this";
    delete last;
  });
  StoreCalls::Lane lane = calls.add({"server", [&gate, closing](CallKind) {
                                       gate.pass();
                                       return CallEnded{};
                                     }});
  closing.reset();
  lane.want();
  EXPECT_TRUE(gate.wait_for(1));
  other.want();
  lane = {};
  gate.open();
  EXPECT_TRUE(wait_for_runs(1));
}

TEST_F(StoreCallsTest, ALaneThatLeavesHasItsPostedCallsMade) {
  Gate gate;
  StoreCalls calls(options(1), clock_);
  {
    const StoreCalls::Lane lane = calls.add({.server = "server"});
    post(lane, [&] { gate.pass(); });
    for (int i = 0; i < 10; ++i) post(lane, [this] { (void)count()(CallKind::call); });
  }
  gate.open();
  EXPECT_TRUE(wait_for_runs(10));
}

TEST_F(StoreCallsTest, ALaneMayOutliveTheCalls) {
  StoreCalls::Lane lane;
  {
    StoreCalls calls(options(1), clock_);
    lane = calls.add({"server", count()});
  }
  lane.want();
  EXPECT_FALSE(post(lane, [] {}));
  EXPECT_EQ(runs_.get(), 0);
}

TEST_F(StoreCallsTest, ACallMayLetItsOwnLaneGo) {
  StoreCalls calls(options(1), clock_);
  auto lane = std::make_unique<StoreCalls::Lane>();
  *lane = calls.add({"server", [&](CallKind) {
                       lane.reset();
                       runs_.change([](int& runs) { ++runs; });
                       return CallEnded{};
                     }});
  lane->want();
  EXPECT_TRUE(wait_for_runs(1));
}

// Real time and many threads: what the sanitizers look at.
TEST_F(StoreCallsTest, CallsThatComeWhileThreadsStartAndEndAndLanesComeAndGoAreAllMade) {
  const SystemClock real;
  StoreCalls calls({.limits = {.per_server = 3, .in_all = 5, .hangs_after = Duration{1}},
                    .threads = 20,
                    .rest = Duration{1}},
                   real);
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 20; ++round) {
        // Shared: a lane does not wait for its last call.
        const auto made = std::make_shared<std::atomic<int>>(0);
        const auto timed = std::make_shared<std::atomic<int>>(0);
        const auto count = [timed](CallKind) {
          ++*timed;
          return CallEnded{.store = Known::failed};
        };
        const StoreCalls::Lane lane =
            calls.add({.server = std::to_string(caller % 2), .run = count, .width = 2});
        for (int i = 0; i < 50; ++i) {
          post(lane, [made] { ++*made; });
          lane.want_at(real.steady() + Duration{1}, CallKind::keep);
        }
        EXPECT_TRUE(eventually([&] { return *made == 50 && *timed > 0; }));
      }
    });
  }
}

}  // namespace
}  // namespace oncebox::engine
