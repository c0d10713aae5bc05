#include <atomic>

#include "dispatcher_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;

/// Handlers that wait in a gate, count themselves, and tell what they saw.
class DispatcherLeaseTest : public DispatcherTest {
 protected:
  void handle_at_the_gate() {
    handlers_.on("order.*", [this](const ClaimedMessage& claimed, HandlerContext&) {
      begun_.change([&](auto& begun) { begun.push_back(claimed.message.payload.bytes()); });
      gate_.pass();
    });
  }
  [[nodiscard]] bool wait_for_begun(std::size_t count) const {
    return begun_.wait([&](const auto& begun) { return begun.size() >= count; });
  }

  Watched<std::vector<std::string>> begun_;
  OwnerToken stranger_ = OwnerToken::generate();
};

TEST_F(DispatcherLeaseTest, LeasesOfRunningAndWaitingMessagesAreExtended) {
  handle_at_the_gate();
  enqueue_many(3);
  const auto ending = start({.workers = 1, .lease = seconds{30}});
  ASSERT_TRUE(wait_for_begun(1));
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().buffered == 2; }));
  for (int i = 1; i <= 6; ++i) {
    advance(seconds{10});
    ASSERT_TRUE(eventually([&] {
      return dispatcher_->stats().lease_extensions >= static_cast<std::uint64_t>(3 * i);
    }));
  }
  EXPECT_TRUE(queue().claim({.owner = stranger_}).empty());
  EXPECT_EQ(record("m0").history.lapses, 0);
  gate_.open();
  for (const char* id : {"m0", "m1", "m2"}) EXPECT_TRUE(wait_for_status(id, Status::done)) << id;
  EXPECT_EQ(begun_.get().size(), 3U);
}

TEST_F(DispatcherLeaseTest, LeasesAreKeptWhileALargeBacklogIsReaped) {
  RecordProperty("requirement", "IBX-072");
  handle_at_the_gate();
  enqueue_many(1);
  std::vector<Message> expiring;
  for (int i = 0; i < 4'500; ++i) {
    expiring.push_back(message("old" + std::to_string(i), "stock.low"));
    expiring.back().expires_at = clock_.now() + seconds{1};
  }
  queue().enqueue(expiring);
  // Each step of the reaper takes a third of the lease; no claim does its work for it. The
  // machine's own time counts as well: it must not reap by that before the message is held.
  std::atomic<int> claims = 0;
  std::atomic<int> reaps = 0;
  probe_.set_plan([&](std::string_view call) {
    if (call == "reap" && reaps++ < 5) clock_.advance(seconds{100});
    return call == "claim" && claims++ > 0 ? testing::Fault::before : testing::Fault::none;
  });
  const auto ending = start({.workers = 1,
                             .batch_size = 1,
                             .lease = seconds{300},
                             .reap_interval = seconds{100},
                             .no_handler = NoHandlerPolicy::ignore});
  ASSERT_TRUE(wait_for_begun(1));
  advance(seconds{101});
  ASSERT_TRUE(probe_.wait_for_calls("reap", 5));
  EXPECT_EQ(dispatcher_->stats().leases_lost, 0U);
  EXPECT_EQ(record("m0").history.lapses, 0);
  gate_.open();
  EXPECT_TRUE(wait_for_status("m0", Status::done));
}

TEST_F(DispatcherLeaseTest, AHandlerIsToldThatItsLeaseIsLost) {
  Watched<bool> told;
  handlers_.on("order.*", [&](const ClaimedMessage&, HandlerContext& context) {
    begun_.change([](auto& begun) { begun.emplace_back(); });
    Watched<bool> stopped;
    const std::stop_callback on_stop(context.stop_token(),
                                     [&] { stopped.change([](bool& value) { value = true; }); });
    EXPECT_TRUE(stopped.wait_for(true));
    told.change([&](bool& value) { value = context.lease_lost(); });
  });
  Message ordered = message("m");
  ordered.partition_key = "customer-7";
  ordered.headers = {{"correlationId", "c1"}};
  enqueue(ordered);
  const auto ending = start({.lease = seconds{30}, .reap_interval = {}});
  ASSERT_TRUE(wait_for_begun(1));
  // Somebody takes the message away without the dispatcher's doing.
  queue().mark({.key = {"shop", "m"}, .as = MarkAs::dead, .error = "by an operator"});
  advance(seconds{10});
  EXPECT_TRUE(told.wait_for(true));
  EXPECT_TRUE(eventually([&] { return dispatcher_->stats().leases_lost == 1; }));
  EXPECT_TRUE(logger_.wait_for(
      "warning lease lost store=inbox topic=order.created source=shop message_id=m "
      "delivery=1 correlation_id=c1 partition=customer-7"));
  EXPECT_TRUE(dispatcher_->stop().complete());
  EXPECT_EQ(record("m").status, Status::dead) << "the verdict of a lost lease has no effect";
}

TEST_F(DispatcherLeaseTest, TheStopTokenOfTheNextMessageIsFresh) {
  Watched<int> handled;
  handlers_.on("order.*", [&](const ClaimedMessage& claimed, HandlerContext& context) {
    begun_.change([](auto& begun) { begun.emplace_back(); });
    if (claimed.message.key.message_id == "first") {
      EXPECT_TRUE(eventually([&] { return context.stop_token().stop_requested(); }));
    } else {
      EXPECT_FALSE(context.stop_token().stop_requested());
    }
    handled.change([](int& count) { ++count; });
  });
  enqueue(message("first"));
  const auto ending = start({.workers = 1, .lease = seconds{30}});
  ASSERT_TRUE(wait_for_begun(1));
  queue().mark({.key = {"shop", "first"}, .as = MarkAs::dead});
  advance(seconds{10});
  enqueue(message("second"));
  EXPECT_TRUE(handled.wait_for(2));
  EXPECT_TRUE(wait_for_status("second", Status::done));
}

TEST_F(DispatcherLeaseTest, AWaitingMessageWhoseLeaseWasLostIsNeverRun) {
  handle_at_the_gate();
  enqueue_many(3);
  const auto ending = start({.workers = 1, .lease = seconds{30}});
  ASSERT_TRUE(wait_for_begun(1));
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().buffered == 2; }));
  queue().mark({.key = {"shop", "m1"}, .as = MarkAs::processed});
  advance(seconds{10});
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().leases_lost == 1; }));
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().buffered == 1; }));
  gate_.open();
  EXPECT_TRUE(wait_for_status("m2", Status::done));
  EXPECT_EQ(begun_.get().size(), 2U);
}

TEST_F(DispatcherLeaseTest, AnInterruptedHandlerCountsNoAttempt) {
  handlers_.on("order.*", [&](const ClaimedMessage&, HandlerContext& context) {
    begun_.change([](auto& begun) { begun.emplace_back(); });
    EXPECT_TRUE(eventually([&] { return context.stop_token().stop_requested(); }));
    throw std::runtime_error("told to stop");
  });
  enqueue(message("m"));
  const auto ending = start();
  ASSERT_TRUE(wait_for_begun(1));
  EXPECT_TRUE(dispatcher_->stop_now().complete());
  EXPECT_EQ(record("m").status, Status::processing);
  EXPECT_EQ(record("m").history.attempt, 0);
  EXPECT_FALSE(record("m").lease);
}

/// The store forgets the lease of a running message, and hands it out again.
class DispatcherRedeliveryTest : public DispatcherLeaseTest {
 protected:
  Ending begin() {
    handle_at_the_gate();
    enqueue(message("m"));
    return start({.workers = 2, .lease = seconds{30}, .reap_interval = {}});
  }
  void hand_out_again() {
    ASSERT_TRUE(wait_for_begun(1));
    const int deliveries = record("m").history.deliveries;
    queue().mark({.key = {"shop", "m"}, .as = MarkAs::processing});
    dispatcher_->wake();
    ASSERT_TRUE(eventually([&] { return record("m").history.deliveries == deliveries + 1; }));
    // The next claim begins when the dispatcher has taken note of what this one brought.
    const int claims = probe_.calls("claim");
    dispatcher_->wake();
    ASSERT_TRUE(probe_.wait_for_calls("claim", claims + 1));
  }
};

TEST_F(DispatcherRedeliveryTest, NoHandlerRunsTwiceAtOnceAndOneVerdictSettlesTheLaterDelivery) {
  RecordProperty("requirement", "IBX-078");
  const auto ending = begin();
  hand_out_again();
  hand_out_again();
  EXPECT_EQ(begun_.get().size(), 1U);
  gate_.open();
  EXPECT_TRUE(wait_for_status("m", Status::done));
  EXPECT_TRUE(dispatcher_->stop().complete());
  EXPECT_EQ(begun_.get().size(), 1U);
}

TEST_F(DispatcherRedeliveryTest, TheLeaseOfTheLaterDeliveryIsKept) {
  RecordProperty("requirement", "IBX-078");
  const auto ending = begin();
  hand_out_again();
  for (int i = 0; i < 6; ++i) {
    const auto before = dispatcher_->stats().lease_extensions;
    advance(seconds{10});
    ASSERT_TRUE(eventually([&] { return dispatcher_->stats().lease_extensions > before; }));
  }
  EXPECT_TRUE(queue().claim({.owner = stranger_}).empty());
  EXPECT_EQ(dispatcher_->stats().leases_lost, 0U);
}

TEST_F(DispatcherRedeliveryTest, ALaterDeliveryOfNewContentRunsAfterTheFirst) {
  RecordProperty("requirement", "IBX-078,R-07");
  const auto ending = begin();
  ASSERT_TRUE(wait_for_begun(1));
  Message changed = message("m");
  changed.payload = "new content";
  enqueue(changed);
  hand_out_again();
  EXPECT_EQ(begun_.get().size(), 1U);
  gate_.open();
  EXPECT_TRUE(wait_for_status("m", Status::done));
  EXPECT_EQ(begun_.get(), (std::vector<std::string>{"s3cret payload of m", "new content"}));
  EXPECT_EQ(record("m").history.attempt, 0);
}

TEST_F(DispatcherLeaseTest, NewContentThatComesWhileTheHandlerRunsIsHandledToo) {
  RecordProperty("requirement", "R-07");
  handle_at_the_gate();
  enqueue(message("m"));
  const auto ending = start();
  ASSERT_TRUE(wait_for_begun(1));
  Message changed = message("m");
  changed.payload = "new content";
  enqueue(changed);
  gate_.open();
  EXPECT_TRUE(wait_for_status("m", Status::done));
  EXPECT_EQ(begun_.get().size(), 2U);
  EXPECT_EQ(dispatcher_->stats().superseded, 1U);
}

TEST_F(DispatcherLeaseTest, AMessageThatKillsItsWorkersIsBuriedInTheEnd) {
  RecordProperty("requirement", "R-10");
  handle_at_the_gate();
  enqueue(message("m"));
  // Workers that died: they claimed and never settled.
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(queue().claim({.owner = stranger_, .lease = seconds{1}}).size(), 1U);
    clock_.advance(seconds{1});
  }
  const auto ending = start({.max_deliveries = 4});
  EXPECT_TRUE(wait_for_status("m", Status::dead));
  EXPECT_TRUE(begun_.get().empty());
  EXPECT_EQ(record("m").history.attempt, 0) << "nothing was tried";
  EXPECT_EQ(record("m").history.last_error, "lease expired 4 times");
  for (const Attempt& attempt : record("m").attempts) {
    EXPECT_EQ(attempt.outcome, AttemptOutcome::lapsed);
  }
}

}  // namespace
}  // namespace oncebox
