// Who follows a set is told nothing once it has ended.

#include "oncebox/fleet/set_follower.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "oncebox/fleet/inbox_router.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/operate/housekeeping.hpp"
#include "watched.hpp"

namespace oncebox {
namespace {

const MemberStorePtr kNoStore;

TEST(SetFollowerTest, PassesOnWhatItHearsUntilItIsClosed) {
  std::string heard;
  SetFollower follower(
      {[&](const MemberStorePtr&) { heard += '+'; }, [&](const MemberStorePtr&) { heard += '-'; }});
  follower.on_opened(kNoStore);
  follower.on_removed(kNoStore);
  EXPECT_EQ(heard, "+-");
  follower.close();
  follower.on_opened(kNoStore);
  follower.on_removed(kNoStore);
  EXPECT_EQ(heard, "+-");
}

TEST(SetFollowerTest, ToCloseItWaitsForACallThatRuns) {
  std::promise<void> is_running;
  std::promise<void> closed;
  bool closed_meanwhile = true;
  SetFollower follower({[&](const MemberStorePtr&) {
                          is_running.set_value();
                          // It never is; were it so, this would show it at once.
                          const auto status =
                              closed.get_future().wait_for(std::chrono::milliseconds{100});
                          closed_meanwhile = status == std::future_status::ready;
                        },
                        [](const MemberStorePtr&) {}});
  std::jthread telling([&] { follower.on_opened(kNoStore); });
  is_running.get_future().wait();
  follower.close();
  closed.set_value();
  telling.join();
  EXPECT_FALSE(closed_meanwhile);
}

TEST(SetFollowerTest, ASetMayOutliveThoseWhoFollowedIt) {
  NullLogger logger;
  const SystemClock clock;
  Observer observer;
  Watched<std::vector<StoreLocation>> listed(std::vector<StoreLocation>{{"a", "1"}});
  StoreSet stores([&] { return listed.get(); },
                  [](const StoreLocation&) { return std::make_unique<memory::MemoryStore>(); }, {},
                  {.logger = logger});
  {
    Housekeeping housekeeping({}, {.logger = logger, .clock = clock});
    housekeeping.follow(stores);
    InboxRouter router(stores, {}, {.logger = logger, .clock = clock});
    (void)router.route("a");
    EXPECT_EQ(housekeeping.figures().size(), 1U);
  }
  listed.change([](auto& all) { all = {{"b", "2"}}; });
  EXPECT_EQ(stores.refresh().removed, std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace oncebox
