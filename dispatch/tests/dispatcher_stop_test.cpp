#include <atomic>
#include <thread>

#include "dispatcher_fixture.hpp"
#include "expect_error.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;

class DispatcherStopTest : public DispatcherTest {
 protected:
  void handle_at_the_gate() {
    handlers_.on("order.*", [this](const ClaimedMessage&, HandlerContext&) {
      begun_.change([](int& begun) { ++begun; });
      gate_.pass();
    });
  }

  Watched<int> begun_;
};

constexpr StopOptions kAtOnce{.finish_within = Duration::zero(),
                              .interrupt_within = Duration::zero()};

TEST_F(DispatcherStopTest, TheLongestTimeThereIsIsNotMistakenForNone) {
  std::atomic<bool> interrupted = false;
  handlers_.on("order.*", [&](const ClaimedMessage&, HandlerContext& context) {
    begun_.change([](int& begun) { ++begun; });
    gate_.pass();
    interrupted = context.stop_token().stop_requested();
  });
  enqueue_many(1);
  const auto ending = start({.workers = 1});
  ASSERT_TRUE(begun_.wait_for(1));
  std::jthread opener([&] {
    EXPECT_TRUE(eventually([&] { return dispatcher_->stats().running == 1; }));
    gate_.open();
  });
  EXPECT_TRUE(dispatcher_->stop({.finish_within = Duration::max()}).complete());
  EXPECT_FALSE(interrupted);
}

TEST_F(DispatcherStopTest, WhatRunsIsFinishedAndWhatWaitsIsReleased) {
  handle_at_the_gate();
  enqueue_many(5);
  const auto ending = start({.workers = 2});
  ASSERT_TRUE(begun_.wait_for(2));
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().buffered == 3; }));
  const StopResult first = dispatcher_->stop(kAtOnce);
  EXPECT_EQ(first.still_running, 2U);
  EXPECT_FALSE(first.complete());
  gate_.open();
  EXPECT_TRUE(dispatcher_->stop().complete());
  EXPECT_EQ(begun_.get(), 2);
  EXPECT_EQ(record("m0").status, Status::done) << "settled before stop returned";
  for (const char* id : {"m2", "m3", "m4"}) {
    EXPECT_EQ(record(id).status, Status::processing);
    EXPECT_EQ(record(id).history.attempt, 0);
    EXPECT_EQ(record(id).history.lapses, 0);
    EXPECT_FALSE(record(id).lease);
  }
}

TEST_F(DispatcherStopTest, EveryVerdictGivenIsRecordedBeforeStopReturns) {
  std::atomic<int> handled = 0;
  handlers_.on("order.*", [&](const ClaimedMessage&, HandlerContext&) { ++handled; });
  enqueue_many(2'000);
  const auto ending = start({.workers = 4});
  ASSERT_TRUE(eventually([&] { return handled > 500; }));
  ASSERT_TRUE(dispatcher_->stop().complete());
  const auto stats = dispatcher_->stats();
  EXPECT_EQ(stats.handled, static_cast<std::uint64_t>(handled));
  EXPECT_EQ(queue().claim({.owner = OwnerToken::generate(), .limit = 2'000}).size(),
            2'000U - stats.handled);
}

TEST_F(DispatcherStopTest, TheTokenIsRequestedWhenTheTimeIsOver) {
  handlers_.on("order.*", [&](const ClaimedMessage&, HandlerContext& context) {
    begun_.change([](int& begun) { ++begun; });
    EXPECT_TRUE(eventually([&] { return context.stop_token().stop_requested(); }));
    EXPECT_FALSE(context.lease_lost());
  });
  enqueue(message("m"));
  const auto ending = start();
  ASSERT_TRUE(begun_.wait_for(1));
  EXPECT_TRUE(
      dispatcher_->stop({.finish_within = Duration{1}, .interrupt_within = kPatience}).complete());
  EXPECT_EQ(record("m").status, Status::done) << "a handler that returns has handled its message";
}

TEST_F(DispatcherStopTest, AStragglerIsToldOfAndItsVerdictIsStillRecorded) {
  handle_at_the_gate();
  enqueue(message("m"));
  const auto ending = start();
  ASSERT_TRUE(begun_.wait_for(1));
  const StopResult result = dispatcher_->stop(kAtOnce);
  EXPECT_EQ(result.still_running, 1U);
  EXPECT_TRUE(
      logger_.contains("warning dispatcher not stopped in time store=inbox "
                       "still_running=1"));
  gate_.open();
  EXPECT_TRUE(wait_for_status("m", Status::done));
}

TEST_F(DispatcherStopTest, TheLeaseOfAStragglerIsKept) {
  handle_at_the_gate();
  enqueue(message("m"));
  const auto ending = start({.lease = seconds{30}});
  ASSERT_TRUE(begun_.wait_for(1));
  EXPECT_FALSE(dispatcher_->stop(kAtOnce).complete());
  for (std::uint64_t i = 1; i <= 5; ++i) {
    advance(seconds{10});
    ASSERT_TRUE(eventually([&] { return dispatcher_->stats().lease_extensions >= i; }));
  }
  gate_.open();
  EXPECT_TRUE(wait_for_status("m", Status::done));
}

TEST_F(DispatcherStopTest, AHandlerMayStopItsOwnDispatcher) {
  Watched<std::optional<StopResult>> result;
  handlers_.on("order.*", [&](const ClaimedMessage&, HandlerContext&) {
    const StopResult answer = dispatcher_->stop();
    result.change([&](auto& value) { value = answer; });
  });
  enqueue(message("m"));
  const auto ending = make_dispatcher();
  dispatcher_->start();
  ASSERT_TRUE(result.wait([](const auto& value) { return value.has_value(); }));
  EXPECT_EQ(result.get()->still_running, 1U);
  EXPECT_TRUE(dispatcher_->stop().complete());
  EXPECT_EQ(record("m").status, Status::done);
}

TEST_F(DispatcherStopTest, ItIsStartedOnceAndStoppedAsOftenAsOneLikes) {
  {
    const auto ending = make_dispatcher();
    EXPECT_TRUE(dispatcher_->stop().complete()) << "before start";
    expect_error(ErrorCode::conflict, [&] { dispatcher_->start(); });
  }
  const auto ending = start();
  expect_error(ErrorCode::conflict, [&] { dispatcher_->start(); });
  EXPECT_TRUE(dispatcher_->stop().complete());
  EXPECT_TRUE(dispatcher_->stop().complete());
  expect_error(ErrorCode::conflict, [&] { dispatcher_->start(); });
}

TEST_F(DispatcherStopTest, NothingIsAskedOfTheStoreAfterAStop) {
  handle_at_the_gate();
  gate_.open();
  enqueue(message("m"));
  const auto ending = start();
  ASSERT_TRUE(wait_for_status("m", Status::done));
  ASSERT_TRUE(dispatcher_->stop().complete());
  const int calls = probe_.calls();
  enqueue(message("late"));
  advance(std::chrono::hours{1});
  dispatcher_.reset();
  EXPECT_EQ(probe_.calls(), calls);
  EXPECT_EQ(record("late").history.deliveries, 0);
}

TEST_F(DispatcherStopTest, WhatAClaimBringsDuringAStopIsReleased) {
  handle_at_the_gate();
  enqueue(message("m"));
  Gate claim_gate;
  Watched<bool> claiming;
  probe_.set_plan([&](std::string_view call) {
    if (call == "claim") {
      claiming.change([](bool& value) { value = true; });
      claim_gate.pass();
    }
    return testing::Fault::none;
  });
  const auto ending = start();
  ASSERT_TRUE(claiming.wait_for(true));
  EXPECT_FALSE(dispatcher_->stop(kAtOnce).complete()) << "the claim may bring something";
  claim_gate.open();
  EXPECT_TRUE(dispatcher_->stop().complete());
  EXPECT_EQ(begun_.get(), 0);
  EXPECT_FALSE(record("m").lease);
  EXPECT_EQ(record("m").history.attempt, 0);
}

TEST_F(DispatcherStopTest, StartAndStopUnderLoadLoseNothing) {
  std::atomic<int> handled = 0;
  handlers_.on("order.*", [&](const ClaimedMessage&, HandlerContext&) { ++handled; });
  constexpr std::size_t kMessages = 5'000;
  enqueue_many(kMessages);
  std::uint64_t settled = 0;
  for (int round = 0; round < 25; ++round) {
    const auto ending = start({.workers = 3, .batch_size = 20});
    Dispatcher& dispatcher = *dispatcher_;
    std::vector<std::jthread> others;
    others.emplace_back([&] { dispatcher.pause("order.*"), dispatcher.resume("order.*"); });
    others.emplace_back([&] { dispatcher.wake(); });
    for (int i = 0; i < 2; ++i) {
      others.emplace_back([&] { EXPECT_TRUE(dispatcher.stop().complete()); });
    }
    others.clear();
    settled += dispatcher.stats().handled;
  }
  const auto ending = start();
  ASSERT_TRUE(eventually([&] { return settled + dispatcher_->stats().handled == kMessages; }));
  EXPECT_EQ(handled, static_cast<int>(kMessages)) << "none was lost, none came twice";
}

TEST_F(DispatcherStopTest, DestructionWithoutAStopIsOrderlyToo) {
  std::atomic<int> handled = 0;
  handlers_.on("order.*", [&](const ClaimedMessage&, HandlerContext&) { ++handled; });
  enqueue_many(500);
  for (int round = 0; round < 20; ++round) {
    const auto ending = start({.batch_size = 10});
  }
  const auto left = queue().claim({.owner = OwnerToken::generate(), .limit = 1'000});
  EXPECT_EQ(left.size(), 500U - static_cast<std::size_t>(handled));
}

}  // namespace
}  // namespace oncebox
