#include "dispatcher_fixture.hpp"
#include "oncebox/driver/forwarding_queue_store.hpp"
#include "oncebox/testing/manual_clock.hpp"

namespace oncebox {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

/// Long intervals: what happens in these tests, happens without a poll.
class DispatcherWakeTest : public DispatcherTest {
 protected:
  static DispatcherOptions no_polls() {
    return {.poll_interval = hours{1}, .max_poll_interval = hours{2}, .reap_interval = {}};
  }
  void count_calls() {
    handlers_.on("*", [this](const ClaimedMessage&, HandlerContext&) {
      handled_.change([](int& handled) { ++handled; });
    });
  }
  /// Waits until the dispatcher has looked and found nothing: it asks when something is due, and
  /// claims once more.
  [[nodiscard]] bool wait_until_idle() {
    return probe_.wait_for_calls("next_due", 1) && probe_.wait_for_calls("claim", 2);
  }

  Watched<int> handled_;
};

TEST_F(DispatcherWakeTest, ANewMessageWakesIt) {
  count_calls();
  const auto ending = start(no_polls());
  ASSERT_TRUE(wait_until_idle());
  enqueue(message("m"));
  EXPECT_TRUE(handled_.wait_for(1));
}

TEST_F(DispatcherWakeTest, EachOfManyMessagesWakesIt) {
  count_calls();
  const auto ending = start(no_polls());
  for (int i = 1; i <= 500; ++i) {
    enqueue(message(std::to_string(i)));
    ASSERT_TRUE(handled_.wait_for(i));
  }
}

TEST_F(DispatcherWakeTest, AMessageThatBecomesDueIsNotWaitedForByPolling) {
  memory::MemoryStore store;  // on the machine's clock
  count_calls();
  Dispatcher dispatcher(store.inbox(), handlers_, no_polls());
  dispatcher.start();
  Message later = message("m");
  later.due_at = SystemClock::current() + Duration{30};
  store.inbox().enqueue(later);
  EXPECT_TRUE(handled_.wait_for(1));
  EXPECT_GE(SystemClock::current(), *later.due_at);
}

TEST_F(DispatcherWakeTest, ARetryIsNotWaitedForByPolling) {
  memory::MemoryStore store;
  Watched<int> calls;
  handlers_.on("*", [&](const ClaimedMessage& claimed, HandlerContext&) {
    calls.change([](int& count) { ++count; });
    if (claimed.history.attempt < 3) throw std::runtime_error("not yet");
  });
  DispatcherOptions options = no_polls();
  options.retries = RetryPolicies({.backoff = FixedDelay{Duration{5}}});
  Dispatcher dispatcher(store.inbox(), handlers_, options);
  dispatcher.start();
  store.inbox().enqueue(message("m"));
  EXPECT_TRUE(calls.wait_for(4));
}

/// A queue that tells nobody of what can be claimed.
class SilentQueue final : public ForwardingQueueStore {
 public:
  using ForwardingQueueStore::ForwardingQueueStore;

  /// Waits until so many claims have found nothing.
  [[nodiscard]] bool wait_for_empty_claims(int count) const {
    return empty_claims_.wait([&](int empty) { return empty >= count; });
  }

 private:
  ClaimResult do_claim(const ClaimRequest& request) override {
    ClaimResult claimed = ForwardingQueueStore::do_claim(request);
    if (claimed.empty()) empty_claims_.change([](int& count) { ++count; });
    return claimed;
  }
  void do_listen(std::weak_ptr<WorkListener>) override {}

  Watched<int> empty_claims_;
};

TEST_F(DispatcherWakeTest, ATimeThatTheStoreSetsIsNotWaitedForByPolling) {
  RecordProperty("requirement", "R-31,R-35");
  constexpr seconds kDelay{10};  // before the lease would have ended, which the store told before
  testing::ManualClock clock;
  memory::MemoryStore store(clock);
  store.policies().update(QueueKind::inbox, "*", {.delays = {kDelay}});
  SilentQueue queue(store.inbox());
  handlers_.on("*", [&](const ClaimedMessage&, HandlerContext&) {
    const int tries = handled_.get() + 1;
    // By then the dispatcher has asked when something is due, and sleeps.
    EXPECT_TRUE(tries == 3 || queue.wait_for_empty_claims(tries));
    handled_.change([](int& handled) { ++handled; });
    if (tries == 1) throw std::runtime_error("not yet");
    if (tries == 2) throw NotNow(kDelay, "not now");
  });
  store.inbox().enqueue(message("m"));
  Dispatcher dispatcher(queue, handlers_, no_polls(), {logger_, *observer_, clock});
  dispatcher.start();
  for (int tries = 1; tries <= 2; ++tries) {
    ASSERT_TRUE(handled_.wait_for(tries));
    ASSERT_TRUE(eventually([&] { return !store.inbox().find(message("m").key)->lease; }));
    clock.advance(kDelay);
  }
  EXPECT_TRUE(handled_.wait_for(3));
}

TEST_F(DispatcherWakeTest, TheNextOfAPartitionComesWhenTheFirstIsSettled) {
  count_calls();
  for (int i = 0; i < 50; ++i) {
    Message ordered = message(std::to_string(i));
    ordered.partition_key = "customer-7";
    enqueue(ordered);
  }
  const auto ending = start(no_polls());
  EXPECT_TRUE(handled_.wait_for(50));
}

TEST_F(DispatcherWakeTest, ADueTimeThatWasAskedForBeforeFullClaimsIsAskedForAgain) {
  count_calls();
  const TimePoint begin = clock_.now();
  for (const auto& [id, due] : {std::pair{"first", 5}, {"second", 5}, {"later", 10}}) {
    Message waiting = message(id);
    waiting.due_at = begin + Duration{due};
    enqueue(waiting);
  }
  // The third claim follows the wait for the first message: by then the question was answered.
  probe_.set_plan([&](std::string_view call) {
    if (call == "claim" && probe_.calls("claim") == 3) clock_.set(begin + Duration{5});
    return testing::Fault::none;
  });
  DispatcherOptions options = no_polls();
  options.batch_size = 1;
  const auto ending = start(options);
  ASSERT_TRUE(handled_.wait_for(2));
  ASSERT_TRUE(probe_.wait_for_calls("next_due", 3));
  clock_.set(begin + Duration{10});
  EXPECT_TRUE(handled_.wait_for(3));
}

TEST_F(DispatcherWakeTest, AStoreWhoseClockIsBehindIsAskedAgainSoon) {
  testing::FakeClock clock_of_store;
  memory::MemoryStore store(clock_of_store);
  StoreProbe probe(store.inbox());
  count_calls();
  Message waiting = message("m");
  waiting.due_at = clock_of_store.now() + seconds{1};
  store.inbox().enqueue(waiting);
  clock_.advance(seconds{2});
  Dispatcher dispatcher(probe.store(), handlers_, no_polls(), {logger_, *observer_, clock_});
  dispatcher.start();
  ASSERT_TRUE(probe.wait_for_calls("claim", 4)) << "no poll is needed";
  clock_of_store.advance(seconds{1});
  EXPECT_TRUE(handled_.wait_for(1));
}

TEST_F(DispatcherWakeTest, WakeLooksAtTheClockAgain) {
  count_calls();
  Message later = message("m");
  later.due_at = clock_.now() + seconds{100};
  enqueue(later);
  const auto ending = start(no_polls());
  ASSERT_TRUE(wait_until_idle());
  EXPECT_EQ(handled_.get(), 0);
  advance(seconds{100});
  EXPECT_TRUE(handled_.wait_for(1));
}

TEST_F(DispatcherWakeTest, AnIdleDispatcherAsksNothingBetweenPolls) {
  RecordProperty("requirement", "IBX-124");
  count_calls();
  const auto ending = start(no_polls());
  ASSERT_TRUE(wait_until_idle());
  const int calls = probe_.calls();
  // Clock and stats are looked at; the store is not.
  for (int i = 0; i < 1'000; ++i) (void)dispatcher_->stats();
  EXPECT_EQ(probe_.calls(), calls);
  EXPECT_EQ(probe_.calls("claim"), 2);
  EXPECT_EQ(probe_.calls("next_due"), 1);
}

TEST_F(DispatcherWakeTest, PollsBackOffWhenThereIsNothing) {
  RecordProperty("requirement", "IBX-124");
  count_calls();
  std::mutex mutex;
  std::vector<std::chrono::steady_clock::time_point> claims;
  probe_.set_plan([&](std::string_view call) {
    const std::lock_guard lock(mutex);
    if (call == "claim") claims.push_back(std::chrono::steady_clock::now());
    return testing::Fault::none;
  });
  const auto ending = start({.poll_interval = Duration{10}, .max_poll_interval = Duration{40}});
  ASSERT_TRUE(probe_.wait_for_calls("claim", 6));
  dispatcher_->stop();
  // The first two belong together; then come pauses of 10, 20, 40, 40.
  EXPECT_GE(claims[2] - claims[1], Duration{10});
  EXPECT_GE(claims[3] - claims[2], Duration{20});
  EXPECT_GE(claims[4] - claims[3], Duration{40});
  EXPECT_GE(claims[5] - claims[4], Duration{40});
}

TEST_F(DispatcherWakeTest, ItReapsAtItsOwnInterval) {
  RecordProperty("requirement", "IBX-072,R-23");
  // Nobody here handles it, and it is never claimed: only a reaper can free it.
  enqueue(message("m", "of another process"));
  ASSERT_EQ(queue().claim({.owner = OwnerToken::generate(), .lease = seconds{5}}).size(), 1U);
  DispatcherOptions options = no_polls();
  options.reap_interval = seconds{60};
  options.no_handler = NoHandlerPolicy::ignore;
  const auto ending = start(options);
  advance(seconds{59});
  EXPECT_EQ(probe_.calls("reap"), 0);
  advance(seconds{1});
  EXPECT_TRUE(eventually([&] { return !record("m").lease; }));
  EXPECT_TRUE(logger_.wait_for("info leases reaped store=inbox released=1"));
  advance(seconds{60});
  EXPECT_TRUE(probe_.wait_for_calls("reap", 2));
}

TEST_F(DispatcherWakeTest, ReapingCanBeLeftToOthers) {
  const auto ending = start(no_polls());
  ASSERT_TRUE(wait_until_idle());
  advance(hours{24});
  ASSERT_TRUE(probe_.wait_for_calls("claim", 3));
  EXPECT_EQ(probe_.calls("reap"), 0);
}

}  // namespace
}  // namespace oncebox
