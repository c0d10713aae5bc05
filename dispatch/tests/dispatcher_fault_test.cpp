#include <algorithm>
#include <atomic>

#include "dispatcher_fixture.hpp"
#include "oncebox/driver/forwarding_queue_store.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;
using testing::Fault;

class DispatcherFaultTest : public DispatcherTest {
 protected:
  void handle(const TopicPattern& pattern = "*") {
    handlers_.on(pattern, [this](const ClaimedMessage&, HandlerContext&) {
      handled_.change([](int& handled) { ++handled; });
    });
  }
  /// The first calls of this name fail so.
  void fail(std::string call, Fault fault, int times) {
    probe_.set_plan([call = std::move(call), fault,
                     left = std::make_shared<std::atomic<int>>(times)](std::string_view name) {
      return name == call && left->fetch_sub(1) > 0 ? fault : Fault::none;
    });
  }
  /// Ends the pauses after failures until it holds.
  [[nodiscard]] bool wake_until(const std::function<bool()>& holds) {
    return eventually([&] {
      dispatcher_->wake();
      return holds();
    });
  }

  Watched<int> handled_;
};

TEST_F(DispatcherFaultTest, AFailingClaimIsTriedAgain) {
  handle();
  enqueue(message("m"));
  fail("claim", Fault::before, 3);
  const auto ending = start();
  ASSERT_TRUE(wake_until([&] { return record("m").status == Status::done; }));
  EXPECT_EQ(handled_.get(), 1);
  EXPECT_TRUE(logger_.contains("warning claim failed, will be tried again store=inbox"));
  EXPECT_GE(dispatcher_->stats().failed_store_calls, 3U);
}

TEST_F(DispatcherFaultTest, NotificationsDoNotHurryAStoreInTrouble) {
  handle();
  fail("claim", Fault::before, 1'000'000);
  const auto ending = start();
  ASSERT_TRUE(probe_.wait_for_calls("claim", 1));
  for (int i = 0; i < 1'000; ++i) enqueue(message(std::to_string(i)));
  EXPECT_LT(probe_.calls("claim"), 20) << "one after each pause of 100 ms and more";
}

TEST_F(DispatcherFaultTest, AClaimWhoseAnswerWasLostIsMadeGoodByItsLease) {
  handle();
  enqueue(message("m"));
  fail("claim", Fault::after, 1);
  const auto ending = start({.lease = seconds{30}});
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().failed_store_calls == 1; }));
  clock_.advance(seconds{30});
  ASSERT_TRUE(wake_until([&] { return record("m").status == Status::done; }));
  EXPECT_EQ(record("m").history.lapses, 1);
}

TEST_F(DispatcherFaultTest, AVerdictIsRecordedOnceTheStoreIsBack) {
  handle();
  enqueue(message("m"));
  fail("settle", Fault::before, 3);
  const auto ending = start();
  ASSERT_TRUE(wake_until([&] { return record("m").status == Status::done; }));
  EXPECT_EQ(handled_.get(), 1) << "a failure of the store is not one of the handler";
  EXPECT_EQ(record("m").history.attempt, 0);
  EXPECT_EQ(dispatcher_->stats().given_up, 0U);
}

TEST_F(DispatcherFaultTest, AVerdictWhoseAnswerWasLostIsNotALostLease) {
  handle();
  enqueue(message("m"));
  fail("settle", Fault::after, 1);
  const auto ending = start();
  ASSERT_TRUE(wake_until([&] { return probe_.calls("settle") >= 2; }));
  ASSERT_TRUE(dispatcher_->stop().complete());
  EXPECT_EQ(record("m").status, Status::done);
  EXPECT_EQ(dispatcher_->stats().leases_lost, 0U);
  EXPECT_EQ(handled_.get(), 1);
}

TEST_F(DispatcherFaultTest, VerdictsThatGatherDuringAnOutageAreBounded) {
  handle();
  enqueue_many(1'000);
  std::atomic<bool> down = true;
  probe_.set_plan([&](std::string_view call) {
    return call == "settle" && down ? Fault::before : Fault::none;
  });
  const auto ending = start({.workers = 2, .batch_size = 20});
  ASSERT_TRUE(handled_.wait([](int handled) { return handled >= 60; }));
  EXPECT_LE(handled_.get(), 20 * 4 + 2);
  down = false;
  ASSERT_TRUE(wake_until([&] { return dispatcher_->stats().handled == 1'000; }));
  EXPECT_EQ(handled_.get(), 1'000);
}

TEST_F(DispatcherFaultTest, AVerdictThatTheStoreNeverTakesIsLoggedInTheEnd) {
  handle();
  enqueue(message("m"));
  fail("settle", Fault::before, 1'000'000);
  const auto ending = start();
  ASSERT_TRUE(probe_.wait_for_calls("settle", 1));
  const StopResult result =
      dispatcher_->stop({.finish_within = Duration::zero(), .interrupt_within = Duration::zero()});
  EXPECT_EQ(result.unsettled, 1U);
  EXPECT_EQ(result.still_running, 0U);
  dispatcher_.reset();
  EXPECT_TRUE(
      logger_.contains("error verdict not recorded, the lease will lapse store=inbox "
                       "topic=order.created source=shop message_id=m"));
  EXPECT_EQ(record("m").status, Status::processing);
}

/// Refuses every settlement of one message, for good.
class RefusingStore final : public ForwardingQueueStore {
 public:
  RefusingStore(QueueStore& below, std::string refused)
      : ForwardingQueueStore(below), refused_(std::move(refused)) {}

 private:
  std::vector<SettleOutcome> do_settle(std::span<const Settlement> settlements) override {
    const auto is_refused = [&](const Settlement& settlement) {
      return settlement.delivery.key.message_id.str() == refused_;
    };
    if (std::any_of(settlements.begin(), settlements.end(), is_refused)) {
      throw Error(ErrorCode::corrupt, "a row contradicts itself");
    }
    return below().settle(settlements);
  }

  std::string refused_;
};

TEST_F(DispatcherFaultTest, OneBadSettlementDoesNotHoldUpTheOthers) {
  handlers_.on("*", [this](const ClaimedMessage&, HandlerContext&) { gate_.pass(); });
  enqueue_many(20);
  RefusingStore refusing(queue(), "m7");
  dispatcher_ = std::make_unique<Dispatcher>(refusing, handlers_, DispatcherOptions{.workers = 20},
                                             Surroundings{logger_, *observer_, clock_});
  const Ending ending(*this);
  dispatcher_->start();
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().running == 20; }));
  gate_.open();
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().handled == 19; }));
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().given_up == 1; }));
  EXPECT_EQ(record("m7").status, Status::processing);
  EXPECT_TRUE(logger_.contains("message_id=m7 reason=a row contradicts itself"));
}

TEST_F(DispatcherFaultTest, AFailingExtensionIsRepeatedInTheNextRound) {
  handlers_.on("*", [this](const ClaimedMessage&, HandlerContext&) {
    handled_.change([](int& handled) { ++handled; });
    gate_.pass();
  });
  enqueue(message("m"));
  fail("extend", Fault::before, 1);
  const auto ending = start({.lease = seconds{30}});
  ASSERT_TRUE(handled_.wait_for(1));
  advance(seconds{10});
  ASSERT_TRUE(probe_.wait_for_calls("extend", 1));
  advance(seconds{5});
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().lease_extensions >= 1; }));
  gate_.open();
  EXPECT_TRUE(wait_for_status("m", Status::done));
}

TEST_F(DispatcherFaultTest, WorkGoesOnThroughAStoreThatFailsAtRandom) {
  handle();
  std::atomic<unsigned> random = 12'345;
  probe_.set_plan([&](std::string_view call) {
    if (call == "listen") return Fault::none;
    const unsigned dice = random.fetch_add(0x9e3779b9U) >> 24;
    if (dice < 40) return Fault::before;
    return dice < 80 && call == "settle" ? Fault::after : Fault::none;
  });
  enqueue_many(500);
  const auto ending = start({.workers = 3, .batch_size = 10});
  const auto count_done = [&] {
    std::size_t done = 0;
    for (int i = 0; i < 500; ++i) {
      if (record("m" + std::to_string(i)).status == Status::done) ++done;
    }
    return done;
  };
  EXPECT_TRUE(wake_until([&] { return count_done() == 500; }));
  EXPECT_EQ(handled_.get(), 500);
}

}  // namespace
}  // namespace oncebox
