// Several at once: leases that are kept and lost, and duplicates of what runs.

#include <future>
#include <latch>
#include <stop_token>
#include <thread>

#include "counted_allocations.hpp"
#include "receiver_fixture.hpp"

namespace oncebox {
namespace {

using namespace std::chrono_literals;

/// The handler waits in the gate.
class ReceiverLeaseTest : public ReceiverOnEachStore {
 protected:
  [[nodiscard]] auto gated() {
    return [this](const Order& order, ReceiveContext& context) -> std::string {
      began_.change([](int& count) { ++count; });
      std::stop_callback told(context.stop_token(), [&] {
        lost_ = context.lease_lost();
        told_.open();
      });
      gate_.pass();
      if (order.amount == 0) throw std::runtime_error("nothing to pay");
      return "receipt " + std::to_string(++handled_);
    };
  }

  [[nodiscard]] static std::future<Received<std::string>> receive(
      Receiver& receiver, const Envelope<Order>& message, const ReceiveOptions& options = {}) {
    return std::async(std::launch::async,
                      [&, options] { return receiver.receive(message, options); });
  }

  Gate gate_;
  Gate told_;  ///< opened when a handler is asked to stop
  std::atomic<bool> lost_ = false;
  Watched<int> began_{0};
};
ONCEBOX_ON_EACH_STORE(ReceiverLeaseTest);

TEST_P(ReceiverLeaseTest, LeaseIsExtendedWhileTheHandlerRuns) {
  RecordProperty("requirement", "PKT-05");
  Receiver receiver = builder(gated()).lease(60s).build();
  auto answer = receive(receiver, message_);
  ASSERT_TRUE(began_.wait_for(1));
  for (int round = 1; round <= 4; ++round) {
    clock_.advance(30s);
    receiver.wake();
    ASSERT_TRUE(
        eventually([&] { return record("accept-42").value().lease_until == clock_.now() + 60s; }));
  }
  EXPECT_EQ(receiver.receive(message_).original, OriginalState::running);
  gate_.open();
  EXPECT_EQ(answer.get().status, ReceiveStatus::processed);
}

TEST_P(ReceiverLeaseTest, LostLeaseIsToldToTheHandlerAndItsLateSuccessIsNotStored) {
  RecordProperty("requirement", "PKT-05");
  Gate other_began;  // before any extension, also one of a thread that starts late
  probe_.on("extend", [&] { other_began.pass(); });
  Receiver receiver = builder(gated()).lease(60s).build();
  auto answer = receive(receiver, message_);
  ASSERT_TRUE(began_.wait_for(1));
  clock_.advance(60s);
  const BeginOutcome other = store_->keys().begin({.key = "accept-42", .owner = "another"});
  ASSERT_EQ(other.status, BeginStatus::acquired);
  other_began.open();
  receiver.wake();
  told_.pass();
  EXPECT_TRUE(lost_);
  gate_.open();
  const Received<std::string> late = answer.get();
  EXPECT_EQ(late.status, ReceiveStatus::processed);
  EXPECT_TRUE(late.lease_lost);
  EXPECT_EQ(status("accept-42"), KeyStatus::in_progress) << "it belongs to the other one";
  EXPECT_TRUE(logger_.contains("lease of a key lost"));
}

TEST_P(ReceiverLeaseTest, LeaseCountsAsLostWhenTheStoreIsAwayForItsWholeLength) {
  RecordProperty("requirement", "PKT-05");
  Receiver receiver = builder(gated()).lease(60s).build();
  auto answer = receive(receiver, message_);
  ASSERT_TRUE(began_.wait_for(1));
  probe_.fail("extend", 2, testing::Fault::before);
  clock_.advance(30s);
  receiver.wake();
  ASSERT_TRUE(logger_.wait_for("warning leases of keys could not be extended"));
  EXPECT_FALSE(lost_) << "half of the lease is left";
  clock_.advance(30s);
  receiver.wake();
  told_.pass();
  EXPECT_TRUE(lost_);
  gate_.open();
  const Received<std::string> late = answer.get();
  EXPECT_FALSE(late.lease_lost) << "nobody else has begun it";
  EXPECT_EQ(status("accept-42"), KeyStatus::processed);
}

TEST_P(ReceiverLeaseTest, LeaseIsKeptWhileASuccessIsOfferedToAStoreThatIsAway) {
  RecordProperty("requirement", "PKT-05");
  Receiver receiver =
      builder().lease(60s).verdict_tries({.count = 100, .first_pause = 5ms}).build();
  probe_.fail("complete", 3, testing::Fault::before);
  probe_.on("complete", [&] {
    clock_.advance(30s);
    receiver.wake();
    const TimePoint end = clock_.now() + 60s;
    EXPECT_TRUE(eventually([&] { return record("accept-42").value().lease_until == end; }));
  });
  EXPECT_EQ(receiver.receive(message_).status, ReceiveStatus::processed);
  EXPECT_EQ(probe_.calls("complete"), 4);
  EXPECT_EQ(status("accept-42"), KeyStatus::processed);
}

TEST_P(ReceiverLeaseTest, LeasesAreExtendedAgainAfterAnExceptionOfAnyType) {
  RecordProperty("requirement", "PKT-05");
  Receiver receiver = builder(gated()).lease(60s).build();
  auto answer = receive(receiver, message_);
  ASSERT_TRUE(began_.wait_for(1));
  probe_.fail_strangely("extend");
  clock_.advance(20s);
  receiver.wake();
  ASSERT_TRUE(logger_.wait_for("warning leases of keys could not be extended"));
  clock_.advance(20s);
  receiver.wake();
  EXPECT_TRUE(
      eventually([&] { return record("accept-42").value().lease_until == clock_.now() + 60s; }));
  gate_.open();
  EXPECT_EQ(answer.get().status, ReceiveStatus::processed);
}

TEST(ReceiverLeaseMemory, LeasesAreExtendedAgainAfterMemoryRanOut) {
  RecordProperty("requirement", "PKT-05");
  testing::FakeClock clock;
  memory::MemoryStore store(clock);
  RecordingLogger logger;
  Gate gate;
  Watched<bool> began{false};
  auto receiver = IdempotentReceiver<Order, std::string>::over(
                      store.keys(),
                      [&](const Order& order) {
                        began.change([](bool& value) { value = true; });
                        gate.pass();
                        return order.id;
                      })
                      .clock(clock)
                      .log_to(logger)
                      .lease(60s)
                      .build();
  const Order order;
  const Headers headers{{"idempotencyKey", "accept-42"}};
  auto answer = std::async(std::launch::async, [&] { return receiver.receive({headers, order}); });
  ASSERT_TRUE(began.wait_for(true));
  clock.advance(20s);
  fail_next_allocation_of_others();
  receiver.wake();
  ASSERT_TRUE(logger.wait_for("warning leases of keys could not be extended"));
  receiver.wake();
  EXPECT_TRUE(eventually(
      [&] { return store.keys().find("accept-42").value().lease_until == clock.now() + 60s; }));
  gate.open();
  EXPECT_EQ(answer.get().status, ReceiveStatus::processed);
}

TEST_P(ReceiverLeaseTest, DuplicateOfWhatRunsIsSuppressedOrToldThatItIsBusy) {
  RecordProperty("requirement", "PKT-01");
  Receiver receiver = builder(gated()).build();
  Receiver busy = builder(gated()).on_running(RunningPolicy::busy).build();
  auto answer = receive(receiver, message_);
  ASSERT_TRUE(began_.wait_for(1));
  const Received<std::string> suppressed = receiver.receive(message_);
  EXPECT_EQ(suppressed.status, ReceiveStatus::duplicate);
  EXPECT_EQ(suppressed.original, OriginalState::running);
  EXPECT_FALSE(suppressed.done());
  const Received<std::string> told = busy.receive(message_);
  EXPECT_EQ(told.status, ReceiveStatus::busy);
  EXPECT_EQ(told.original, OriginalState::running);
  EXPECT_FALSE(told.done());
  gate_.open();
  answer.get();
  EXPECT_EQ(handled_, 1);
}

TEST_P(ReceiverLeaseTest, DuplicateThatWaitsGetsTheResultOfTheFirst) {
  RecordProperty("requirement", "PKT-01,PKT-03");
  Receiver receiver = builder(gated())
                          .on_running(RunningPolicy::wait)
                          .on_duplicate(DuplicatePolicy::replay_completed)
                          .build();
  auto first = receive(receiver, message_);
  ASSERT_TRUE(began_.wait_for(1));
  auto second = receive(receiver, message_);
  ASSERT_TRUE(probe_.wait_for_calls("find", 1)) << "it waits";
  gate_.open();
  EXPECT_EQ(first.get().result, "receipt 1");
  const Received<std::string> replayed = second.get();
  EXPECT_EQ(replayed.status, ReceiveStatus::replayed);
  EXPECT_EQ(replayed.result, "receipt 1");
}

TEST_P(ReceiverLeaseTest, DuplicateThatWaitsIsHandledWhenTheFirstFails) {
  RecordProperty("requirement", "PKT-05");
  Receiver receiver = builder(gated()).on_running(RunningPolicy::wait).build();
  const Order nothing{.amount = 0};
  const Envelope<Order> fails{headers_, nothing};
  auto first = receive(receiver, fails);
  ASSERT_TRUE(began_.wait_for(1));
  auto second = receive(receiver, message_);
  ASSERT_TRUE(probe_.wait_for_calls("find", 1)) << "it waits";
  gate_.open();
  EXPECT_THROW(first.get(), std::runtime_error);
  EXPECT_EQ(second.get().status, ReceiveStatus::processed);
}

TEST_P(ReceiverLeaseTest, WaitEndsWithItsTimeOrTheStopToken) {
  Receiver receiver = builder(gated()).on_running(RunningPolicy::wait).wait_at_most(10s).build();
  auto first = receive(receiver, message_);
  ASSERT_TRUE(began_.wait_for(1));
  auto timed = receive(receiver, message_);
  ASSERT_TRUE(probe_.wait_for_calls("find", 1)) << "it waits";
  clock_.advance(10s);
  receiver.wake();
  const Received<std::string> late = timed.get();
  EXPECT_EQ(late.status, ReceiveStatus::busy);
  EXPECT_EQ(late.original, OriginalState::running);
  std::stop_source stop;
  const int finds = probe_.calls("find");
  auto stopped = receive(receiver, message_, {.stop = stop.get_token()});
  ASSERT_TRUE(probe_.wait_for_calls("find", finds + 1)) << "it waits";
  stop.request_stop();
  EXPECT_EQ(stopped.get().status, ReceiveStatus::busy);
  gate_.open();
  first.get();
}

TEST_P(ReceiverLeaseTest, OfManyAtOnceOneIsHandledAndTheOthersGetItsResult) {
  RecordProperty("requirement", "PKT-01,PKT-06");
  constexpr int kCallers = 8;
  gate_.open();
  Receiver receiver = builder(gated())
                          .on_running(RunningPolicy::wait)
                          .on_duplicate(DuplicatePolicy::replay_completed)
                          .build();
  std::latch start(kCallers);
  std::vector<std::future<Received<std::string>>> answers;
  for (int i = 0; i < kCallers; ++i) {
    answers.push_back(std::async(std::launch::async, [&] {
      start.arrive_and_wait();
      return receiver.receive(message_);
    }));
  }
  int processed = 0;
  for (auto& answer : answers) {
    const Received<std::string> got = answer.get();
    EXPECT_EQ(got.result, "receipt 1");
    if (got.status == ReceiveStatus::processed) ++processed;
  }
  EXPECT_EQ(processed, 1);
  EXPECT_EQ(handled_, 1);
}

}  // namespace
}  // namespace oncebox
