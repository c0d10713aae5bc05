// When a dispatcher over many stores claims from which of them. No poll comes in these tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "completions.hpp"
#include "set_dispatcher_fixture.hpp"

namespace oncebox {
namespace {

class SetDispatcherClaimsTest : public SetDispatcherTest {
 protected:
  static SetDispatcherOptions no_polls() {
    constexpr Duration kLong = std::chrono::hours{20};
    return {.dispatcher = {.poll_interval = kLong, .max_poll_interval = kLong},
            .notified_poll_interval = kLong};
  }
};

TEST_F(SetDispatcherClaimsTest, AClaimThatHangsTakesNoRoomInTheBuffer) {
  list({{"a", "1"}, {"b", "2"}});
  Watched<bool> hangs{false};
  store("a").probe().set_plan([&](std::string_view call) {
    if (call != "claim") return testing::Fault::none;
    hangs.change([](bool& value) { value = true; });
    gate_.pass();
    return testing::Fault::none;
  });
  note_stores();
  SetDispatcherOptions options = no_polls();
  options.dispatcher.workers = 1;
  options.dispatcher.batch_size = 1;
  options.dispatcher.max_buffered = 1;
  const auto ending = start(options);
  ASSERT_TRUE(hangs.wait_for(true));
  enqueue_many("b", 5);
  ASSERT_TRUE(wait_for_handled(5));
  EXPECT_EQ(handled(), "bbbbb");
}

TEST_F(SetDispatcherClaimsTest, RoomThatIsMadeWhileSomebodyLooksForItIsNotMissed) {
  list({{"a", "1"}});
  enqueue_many("a", 500);
  note_stores();
  SetDispatcherOptions options = no_polls();
  options.dispatcher.workers = 2;
  options.dispatcher.batch_size = 1;
  options.dispatcher.max_buffered = 1;
  const auto ending = start(options);
  EXPECT_TRUE(wait_for_handled(500));
}

TEST_F(SetDispatcherClaimsTest, ALimitThatEasesDuringTheLastClaimIsNotMissed) {
  list({{"a", "1"}, {"b", "2"}});
  Gate first_may_end;
  handlers_.on("limited",
               [&](const ClaimedMessage&, HandlerContext& context) {
                 note(context.store());
                 if (context.store() == "a") first_may_end.pass();
               },
               {.max_concurrency = 1});
  handlers_.on("*", [](const ClaimedMessage&, HandlerContext&) {});
  enqueue("a", "m1", "limited");
  // Holds up the claim of b that follows the question for the next due time, after it was planned
  // without room for the limited topic.
  std::atomic<bool> is_armed = false;
  std::atomic<bool> has_asked = false;
  Watched<bool> claims{false};
  store("b").probe().set_plan([&](std::string_view call) {
    if (call == "next_due" && is_armed.exchange(false)) has_asked = true;
    if (call == "claim" && has_asked.exchange(false)) {
      claims.change([](bool& value) { value = true; });
      gate_.pass();
    }
    return testing::Fault::none;
  });
  const auto ending = start(no_polls());
  ASSERT_TRUE(wait_for_handled(1));
  ASSERT_TRUE(store("b").probe().wait_for_calls("claim", 2));
  is_armed = true;
  enqueue("b", "m1", "limited");
  ASSERT_TRUE(claims.wait_for(true));
  first_may_end.open();
  ASSERT_TRUE(eventually([&] { return status("a", "m1") == Status::done; }));
  gate_.open();
  EXPECT_TRUE(wait_for_handled(2));
}

TEST_F(SetDispatcherClaimsTest, AfterAFailureItAsksBeforeItClaims) {
  list({{"a", "1"}});
  Watched<std::vector<std::string>> calls;
  store("a").probe().set_plan([&](std::string_view call) {
    bool is_first = false;
    calls.change([&](auto& all) {
      is_first = call == "claim" && std::ranges::count(all, "claim") == 0;
      all.emplace_back(call);
    });
    return is_first ? testing::Fault::before : testing::Fault::none;
  });
  enqueue("a", "m1");
  note_stores();
  const auto ending = start(no_polls());
  ASSERT_TRUE(holds_in_time([&] { return handled() == "a"; }));
  const std::vector<std::string> all = calls.get();
  const std::vector<std::string> first(all.begin(), all.begin() + 3);
  EXPECT_EQ(first, (std::vector<std::string>{"claim", "next_due", "claim"}));
}

TEST_F(SetDispatcherClaimsTest, AStoreWhoseClockIsBehindIsAskedAgainSoon) {
  list({{"a", "1"}});
  store("a").queue().enqueue({.key = {"shop", "m1"},
                              .topic = "order.created",
                              .due_at = clock_.now() + std::chrono::seconds{1}});
  note_stores();
  const testing::FakeClock ahead(clock_.now() + std::chrono::seconds{2});
  dispatcher_ =
      std::make_unique<SetDispatcher>(stores_, handlers_, round_robin(), no_polls(),
                                      SurroundingsOfStores{.logger = logger_, .clock = ahead});
  const Ending ending(*this);
  dispatcher_->start();
  ASSERT_TRUE(store("a").probe().wait_for_calls("claim", 4));
  clock_.advance(std::chrono::seconds{1});
  EXPECT_TRUE(wait_for_handled(1));
}

/// Handlers hold what they were given until the test completes it.
class SetDispatcherBytesTest : public SetDispatcherTest {
 protected:
  SetDispatcherBytesTest() {
    handlers_.on_async("*", [this](const ClaimedMessage&, Completion completion) {
      note(completion.context().store());
      completions_.take(std::move(completion));
    });
  }
  void enqueue_large(const std::string& name, int count, std::size_t bytes) {
    for (int i = 0; i < count; ++i) {
      store(name).queue().enqueue({.key = {"shop", "m" + std::to_string(++enqueued_)},
                                   .topic = "order.created",
                                   .payload = std::string(bytes, 'x')});
    }
  }

  [[nodiscard]] Ending start_with_bytes(std::size_t bytes) {
    return start({.dispatcher = {
                      .workers = 2, .batch_size = 10, .max_buffered = 40, .buffer_bytes = bytes}});
  }
  /// Completes so many, one after the other; answers how many were held at a time.
  [[nodiscard]] std::size_t complete(int count) {
    std::size_t most = 0;
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(completions_.wait_for(1));
      most = std::max(most, dispatcher_->stats().running);
      completions_.next().done();
    }
    return most;
  }

  Completions completions_;

 private:
  int enqueued_ = 0;
};

TEST_F(SetDispatcherBytesTest, AStoreThatHoldsTheWholeBufferHoldsUpNoOther) {
  RecordProperty("requirement", "R-37");
  list({{"a", "1"}, {"b", "2"}});
  enqueue_large("a", 2, 50'000);
  const auto ending = start_with_bytes(20'000);
  ASSERT_TRUE(completions_.wait_for(1));
  enqueue_large("b", 1, 50'000);
  ASSERT_TRUE(completions_.wait_for(2));
  EXPECT_EQ(handled(), "ab") << "the other one of a waits until a holds less";
  (void)complete(1);
  ASSERT_TRUE(wait_for_handled(3));
  EXPECT_EQ(handled(), "aba");
  (void)complete(2);
}

TEST_F(SetDispatcherBytesTest, AStoreAloneMayHoldHalfOfTheBuffer) {
  RecordProperty("requirement", "R-37");
  list({{"a", "1"}, {"idle", "2"}});
  enqueue_large("a", 20, 1'000);
  const auto ending = start_with_bytes(20'000);
  ASSERT_TRUE(completions_.wait_for(5)) << "each counts twice, because its handler has a copy";
  EXPECT_EQ(complete(20), 5U);
}

TEST_F(SetDispatcherBytesTest, AStoreLeavesToOthersAsMuchAsItHolds) {
  RecordProperty("requirement", "R-37");
  list({{"a", "1"}, {"b", "2"}});
  enqueue_large("b", 1, 1'000);
  const auto ending = start_with_bytes(20'000);
  ASSERT_TRUE(completions_.wait_for(1));
  Completion of_b = completions_.next();
  enqueue_large("a", 20, 1'000);
  ASSERT_TRUE(completions_.wait_for(2));
  EXPECT_EQ(complete(15), 3U) << "with two of a, the three of both leave as many bytes as a holds";
  of_b.done();
  EXPECT_TRUE(completions_.wait_for(5)) << "a is alone again";
  (void)complete(5);
}

TEST_F(SetDispatcherBytesTest, AStoreOfWhichOneHangsGetsMoreWhenTheSharedHalfIsUsedUp) {
  RecordProperty("requirement", "R-37");
  list({{"a", "1"}, {"b", "2"}});
  enqueue_large("a", 20, 1'000);
  const auto ending = start_with_bytes(20'000);
  ASSERT_TRUE(completions_.wait_for(5));
  enqueue_large("b", 1, 50);
  ASSERT_TRUE(completions_.wait_for(6)) << "a 64th of the buffer is 312 bytes";
  enqueue_large("b", 1, 50);
  EXPECT_TRUE(completions_.wait_for(7));
  (void)complete(22);
}

TEST_F(SetDispatcherBytesTest, EveryStoreGetsSomethingAndTheWholeIsBounded) {
  RecordProperty("requirement", "R-37");
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  std::vector<StoreLocation> all;
  for (const std::string& name : names) all.push_back({name, name});
  list(all);
  for (const std::string& name : names) enqueue_large(name, 20, 1'000);
  const auto ending = start_with_bytes(20'000);
  ASSERT_TRUE(handled_.wait([&](const auto& stores) {
    return std::ranges::all_of(
        names, [&](const auto& name) { return std::ranges::count(stores, name) > 0; });
  }));
  EXPECT_LE(complete(100), 10U) << "with their copies ten of them fill the buffer";
}

}  // namespace
}  // namespace oncebox
