// Which limits hold on a thread, and what is thrown when they are over.

#include "oncebox/driver/call_scope.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <thread>

#include "expect_error.hpp"
#include "oncebox/driver/forwarding_queue_store.hpp"
#include "oncebox/driver/work_listener.hpp"
#include "oncebox/memory/memory_store.hpp"

namespace oncebox {
namespace {

using namespace std::chrono_literals;

SteadyTime in(Duration time) { return SystemClock::shared().steady() + time; }

TEST(CallScope, OutsideOfEveryScopeThereAreNoLimits) {
  EXPECT_FALSE(CallScope::current().is_limited());
  const CallScope scope{CallOptions{}};
  EXPECT_FALSE(CallScope::current().is_limited());
}

TEST(CallScope, ACallWithoutLimitsTakesThoseOfTheCallAroundIt) {
  RecordProperty("requirement", "R-36");
  const CallOptions hour{.deadline = in(1h)};
  const CallScope outer(hour);
  const CallScope inner{CallOptions{}};
  EXPECT_EQ(CallScope::current().deadline, hour.deadline);
}

TEST(CallScope, OfTwoDeadlinesTheEarlierOneHolds) {
  RecordProperty("requirement", "R-36");
  const CallOptions hour{.deadline = in(1h)};
  const CallOptions day{.deadline = in(24h)};
  {
    const CallScope outer(hour);
    const CallScope inner(day);
    EXPECT_EQ(CallScope::current().deadline, hour.deadline);
  }
  const CallScope outer(day);
  {
    const CallScope inner(hour);
    EXPECT_EQ(CallScope::current().deadline, hour.deadline);
  }
  EXPECT_EQ(CallScope::current().deadline, day.deadline);
}

TEST(CallScope, OfTwoStopsEitherCounts) {
  RecordProperty("requirement", "R-36");
  for (const bool stops_outer : {true, false}) {
    std::stop_source outer_stop;
    std::stop_source inner_stop;
    const CallOptions outer{.stop = outer_stop.get_token()};
    const CallOptions inner{.stop = inner_stop.get_token()};
    const CallScope outer_scope(outer);
    const CallScope inner_scope(inner);
    EXPECT_FALSE(CallScope::current().is_over());
    bool was_woken = false;
    const std::stop_callback wake(CallScope::current().stop, [&] { was_woken = true; });
    (stops_outer ? outer_stop : inner_stop).request_stop();
    EXPECT_TRUE(CallScope::current().is_over());
    EXPECT_TRUE(was_woken);
  }
}

TEST(CallScope, ADeadlineAndAStopOfDifferentCallsBothHold) {
  std::stop_source stop;
  const CallOptions outer{.deadline = in(1h)};
  const CallOptions inner{.stop = stop.get_token()};
  const CallScope outer_scope(outer);
  const CallScope inner_scope(inner);
  EXPECT_EQ(CallScope::current().deadline, outer.deadline);
  stop.request_stop();
  EXPECT_TRUE(CallScope::current().is_over());
}

TEST(CallScope, ACallThatIsOverDoesNotBegin) {
  RecordProperty("requirement", "R-36");
  std::stop_source stop;
  stop.request_stop();
  expect_error(ErrorCode::timeout, [] { const CallScope scope(CallOptions::within(0ms)); });
  const CallOptions stopped{.stop = stop.get_token()};
  expect_error(ErrorCode::cancelled, [&] { const CallScope scope(stopped); });
  EXPECT_FALSE(CallScope::current().is_limited());
}

TEST(CallScope, ACallWithoutLimitsDoesNotBeginInOneThatIsOver) {
  std::stop_source stop;
  const CallOptions outer{.stop = stop.get_token()};
  const CallScope scope(outer);
  stop.request_stop();
  expect_error(ErrorCode::cancelled, [] { const CallScope inner{CallOptions{}}; });
}

TEST(CallScope, WhoStopsACallIsToldSoAlsoAfterItsDeadline) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(CallOptions::within(0ms, stop.get_token()).error().code(), ErrorCode::cancelled);
}

TEST(CallScope, WorkOfSomebodyElseHasHisLimitsAlone) {
  RecordProperty("requirement", "R-36");
  std::stop_source stop;
  const CallOptions mine{.stop = stop.get_token()};
  const CallScope scope(mine);
  stop.request_stop();
  {
    const LimitsOf nobody;
    EXPECT_FALSE(CallScope::current().is_limited());
    const CallScope inner{CallOptions{}};
  }
  const CallOptions his{.deadline = in(1h)};
  {
    const LimitsOf him(his);
    EXPECT_FALSE(CallScope::current().is_over());
    EXPECT_EQ(CallScope::current().deadline, his.deadline);
  }
  EXPECT_TRUE(CallScope::current().is_over());
}

TEST(CallScope, LimitsAreThoseOfTheThread) {
  const CallOptions hour{.deadline = in(1h)};
  const CallScope scope(hour);
  std::jthread([] { EXPECT_FALSE(CallScope::current().is_limited()); }).join();
}

TEST(CallOptions, ATimeThatNeverComesIsNoOverflow) {
  EXPECT_EQ(CallOptions::within(Duration::max()).deadline, SteadyTime::max());
  EXPECT_FALSE(CallOptions::within(Duration::max()).is_over());
}

/// Remembers the limits under which it was called.
class LimitsSeen final : public ForwardingQueueStore {
 public:
  using ForwardingQueueStore::ForwardingQueueStore;
  std::vector<bool> limited;

 private:
  void forward(std::string_view /*name*/, const std::function<void()>& call) override {
    limited.push_back(CallScope::current().is_limited());
    call();
  }
};

TEST(CallScope, LimitsPassThroughStoresThatForward) {
  RecordProperty("requirement", "R-36");
  memory::MemoryStore store;
  LimitsSeen below(store.inbox());
  QueueStore& forwarded = below;
  ForwardingQueueStore above(forwarded);
  const MessageKey key{"shop", "1"};
  (void)above.find(key);
  (void)above.find(key, CallOptions::within(1h));
  EXPECT_EQ(below.limited, (std::vector{false, true}));
}

/// Asks for the limits when it is told of work.
class CuriousListener final : public WorkListener {
 public:
  void on_work() noexcept override { was_limited = CallScope::current().is_limited(); }
  std::optional<bool> was_limited;
};

TEST(CallScope, ListenersAreToldOutsideOfTheLimitsOfTheCall) {
  RecordProperty("requirement", "R-36");
  memory::MemoryStore store;
  const auto listener = std::make_shared<CuriousListener>();
  store.inbox().listen(listener);
  store.inbox().enqueue({.key = {"shop", "1"}, .topic = "t"}, {}, CallOptions::within(1h));
  EXPECT_EQ(listener->was_limited, false);
}

}  // namespace
}  // namespace oncebox
