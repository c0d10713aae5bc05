#include "oncebox/dispatch/dispatch_pending.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "dispatcher_fixture.hpp"
#include "expect_error.hpp"
#include "oncebox/outbox.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;

class DispatchPendingTest : public DispatcherTest {
 protected:
  DispatchedPending dispatch(std::size_t limit, const DispatcherOptions& options = {}) {
    return dispatch_pending(probe_.store(), handlers_, limit, options,
                            {logger_, *observer_, clock_});
  }
  void note_calls() {
    handlers_.on("*", [this](const ClaimedMessage& claimed, HandlerContext&) { note(claimed); });
  }
  void note(const ClaimedMessage& claimed) {
    handled_.push_back(claimed.message.key.message_id.str());
  }

  std::vector<std::string> handled_;  // on one thread
};

TEST_F(DispatchPendingTest, HandlesWhatIsThereOnThisThreadAndReturns) {
  const auto self = std::this_thread::get_id();
  handlers_.on("*", [&](const ClaimedMessage& claimed, HandlerContext&) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    note(claimed);
  });
  enqueue_many(3);
  const DispatchedPending result = dispatch(100);
  EXPECT_EQ(result.handled, 3U);
  EXPECT_EQ(result.total(), 3U);
  EXPECT_EQ(handled_, (std::vector<std::string>{"m0", "m1", "m2"}));
  for (const char* id : {"m0", "m1", "m2"}) EXPECT_EQ(record(id).status, Status::done);
  EXPECT_EQ(dispatch(100).total(), 0U);
}

TEST_F(DispatchPendingTest, TakesNoMoreThanTheLimit) {
  note_calls();
  enqueue_many(25);
  EXPECT_EQ(dispatch(7, {.batch_size = 3}).handled, 7U);
  EXPECT_EQ(dispatch(100, {.batch_size = 3}).handled, 18U);
  EXPECT_EQ(handled_.size(), 25U);
}

TEST_F(DispatchPendingTest, SaysWhatBecameOfEach) {
  handlers_.on("order.good", [](const ClaimedMessage&, HandlerContext&) {});
  handlers_.on("order.bad", [](const ClaimedMessage&, HandlerContext&) {
    throw PermanentFailure("this cannot be handled");
  });
  handlers_.on("order.failing", [](const ClaimedMessage&, HandlerContext&) {
    throw std::runtime_error("this time it failed");
  });
  handlers_.on("order.busy", [](const ClaimedMessage&, HandlerContext&) {
    throw NotNow(seconds{5}, "the shop is closed");
  });
  handlers_.on("order.new", [this](const ClaimedMessage& claimed, HandlerContext&) {
    Message newer = claimed.message;
    newer.payload = "other content";
    enqueue(newer);
  });
  for (const char* topic : {"good", "bad", "failing", "busy", "new", "unknown"}) {
    enqueue(message(topic, std::string("order.") + topic));
  }
  const DispatchedPending result = dispatch(6);
  EXPECT_EQ(result.handled, 1U);
  EXPECT_EQ(result.dead, 1U);
  EXPECT_EQ(result.retried, 2U) << "that of the topic without handler, too";
  EXPECT_EQ(result.released, 1U);
  EXPECT_EQ(result.superseded, 1U);
  EXPECT_EQ(result.unsettled, 0U);
  EXPECT_EQ(record("good").status, Status::done);
  EXPECT_EQ(record("bad").status, Status::dead);
  EXPECT_EQ(record("failing").history.attempt, 1);
}

TEST_F(DispatchPendingTest, AMessageThatComesAgainAtOnceIsTriedOnce) {
  handlers_.on("*", [this](const ClaimedMessage& claimed, HandlerContext&) {
    note(claimed);
    clock_.advance(seconds{2});  // what was tried before can be claimed again
    throw RetryAfter(seconds{1}, "not yet");
  });
  enqueue_many(5);
  const DispatchedPending result = dispatch(100, {.batch_size = 1});
  EXPECT_EQ(result.retried, result.total());
  EXPECT_EQ(handled_.size(), result.total());
  std::sort(handled_.begin(), handled_.end());
  EXPECT_EQ(std::adjacent_find(handled_.begin(), handled_.end()), handled_.end());
  for (const std::string& id : handled_) EXPECT_FALSE(record(id).lease);
}

TEST_F(DispatchPendingTest, MessagesOfAPartitionFollowEachOther) {
  note_calls();
  for (int i = 0; i < 5; ++i) {
    Message next = message(std::to_string(i));
    next.partition_key = "p";
    enqueue(next);
  }
  EXPECT_EQ(dispatch(100).handled, 5U);
  EXPECT_EQ(handled_, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
}

TEST_F(DispatchPendingTest, EachVerdictIsRecordedBeforeTheNextHandlerBegins) {
  handlers_.on("*", [this](const ClaimedMessage& claimed, HandlerContext&) {
    for (const std::string& id : handled_) EXPECT_EQ(record(id).status, Status::done);
    note(claimed);
  });
  enqueue_many(4);
  EXPECT_EQ(dispatch(4).handled, 4U);
}

TEST_F(DispatchPendingTest, AStoreThatFailsAtTheFirstClaimIsAnError) {
  note_calls();
  enqueue_many(1);
  probe_.set_plan([](std::string_view) { return testing::Fault::before; });
  expect_error(ErrorCode::unavailable, [&] { dispatch(1); });
  EXPECT_TRUE(handled_.empty());
}

TEST_F(DispatchPendingTest, WhenTheStoreFailsLaterWhatWasDoneIsTold) {
  note_calls();
  enqueue_many(4);
  probe_.set_plan([&](std::string_view call) {
    const bool fails = call == "claim" && handled_.size() == 2;
    return fails ? testing::Fault::before : testing::Fault::none;
  });
  EXPECT_EQ(dispatch(4, {.batch_size = 2}).handled, 2U);
  EXPECT_TRUE(logger_.contains("claim failed, what is pending is left"));
}

TEST_F(DispatchPendingTest, AVerdictThatIsNotTakenAtFirstIsRepeated) {
  note_calls();
  enqueue_many(1);
  int settlements = 0;
  probe_.set_plan([&](std::string_view call) {
    const bool fails = call == "settle" && ++settlements <= 2;
    return fails ? testing::Fault::before : testing::Fault::none;
  });
  EXPECT_EQ(dispatch(1).handled, 1U);
  EXPECT_EQ(record("m0").status, Status::done);
}

TEST_F(DispatchPendingTest, WhoHandlesLongerThanTheLeaseKeepsIt) {
  Watched<bool> was_extended{false};
  probe_.set_plan([&](std::string_view call) {
    if (call == "extend") was_extended.change([](bool& extended) { extended = true; });
    return testing::Fault::none;
  });
  handlers_.on("*", [&](const ClaimedMessage&, HandlerContext& context) {
    EXPECT_TRUE(was_extended.wait_for(true));
    EXPECT_FALSE(context.lease_lost());
  });
  enqueue_many(1);
  EXPECT_EQ(dispatch(1, {.lease = Duration{60}}).handled, 1U);
}

TEST_F(DispatchPendingTest, RefusesWhatADispatcherRefuses) {
  expect_error(ErrorCode::out_of_range, [&] { dispatch(0); });
  expect_error(ErrorCode::out_of_range, [&] { dispatch(1, {.lease = Duration{0}}); });
}

TEST_F(DispatchPendingTest, PublishesWhatIsPendingInAnOutbox) {
  RecordProperty("requirement", "PKT-08");
  Outbox outbox(store_, {.source = "shop"}, {logger_, *observer_, clock_});
  outbox.enqueue({.topic = "order.placed", .payload = "p", .id = "1"});
  outbox.enqueue({.topic = "order.poison", .payload = "p", .id = "2"});
  outbox.enqueue({.topic = "order.placed", .payload = "p", .id = "3"});
  Publishers publishers;
  publishers.on("order.placed",
                [this](const ClaimedMessage& claimed, HandlerContext&) { note(claimed); });
  publishers.on("order.poison", [](const ClaimedMessage&, HandlerContext&) {
    throw PermanentFailure("nobody takes this");
  });
  const DispatchedPending result =
      dispatch_pending(store_.outbox(), publishers, 100, {}, {logger_, *observer_, clock_});
  EXPECT_EQ(result.handled, 2U);
  EXPECT_EQ(result.dead, 1U);
  EXPECT_EQ(handled_, (std::vector<std::string>{"1", "3"}));
  EXPECT_TRUE(outbox.find("3")->dispatched_at);
  EXPECT_EQ(outbox.find("2")->last_error, "nobody takes this");
}

}  // namespace
}  // namespace oncebox
