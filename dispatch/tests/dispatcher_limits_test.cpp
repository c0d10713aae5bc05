#include <algorithm>
#include <atomic>

#include "dispatcher_fixture.hpp"
#include "expect_error.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;

class DispatcherLimitsTest : public DispatcherTest {
 protected:
  /// A handler that waits in the gate.
  void on(const TopicPattern& pattern, const HandlerOptions& options = {}) {
    handlers_.on(
        pattern,
        [this](const ClaimedMessage&, HandlerContext&) {
          running_.change([this](int& running) { most_ = std::max(most_.load(), ++running); });
          gate_.pass();
          running_.change([](int& running) { --running; });
          ended_.change([](int& ended) { ++ended; });
        },
        options);
  }
  void enqueue_one(const std::string& topic) {
    enqueue(message(topic + std::to_string(next_++), topic));
  }
  /// How many messages of the topic somebody else could claim now.
  [[nodiscard]] std::size_t left(const TopicPattern& topic) {
    return queue()
        .claim({.owner = OwnerToken::generate(), .limit = 1'000, .topics = {.only = {topic}}})
        .size();
  }

  Watched<int> running_;
  Watched<int> ended_;
  std::atomic<int> most_ = 0;
  int next_ = 0;
};

TEST_F(DispatcherLimitsTest, DifferentMessagesAreHandledAtOnceUpToTheNumberOfWorkers) {
  RecordProperty("requirement", "IBX-079");
  on("order.*");
  enqueue_many(10);
  const auto ending = start({.workers = 3});
  EXPECT_TRUE(running_.wait_for(3));
  gate_.open();
  EXPECT_TRUE(ended_.wait_for(10));
  EXPECT_EQ(most_, 3);
}

TEST_F(DispatcherLimitsTest, APatternHasItsOwnConcurrencyAndClaimsNoMoreThanItCanRun) {
  on("slow", {.max_concurrency = 2});
  on("*");
  for (int i = 0; i < 10; ++i) enqueue_one("slow");
  const auto ending = start({.workers = 8});
  ASSERT_TRUE(running_.wait_for(2));
  enqueue_one("other");
  EXPECT_TRUE(running_.wait_for(3)) << "another topic is not held up";
  EXPECT_EQ(dispatcher_->stats().buffered, 0U);
  EXPECT_EQ(left("slow"), 8U) << "others can have what this process cannot run";
}

TEST_F(DispatcherLimitsTest, AFreedPlaceIsUsedAtOnce) {
  on("slow", {.max_concurrency = 1});
  for (int i = 0; i < 200; ++i) enqueue_one("slow");
  gate_.open();
  const auto ending = start({.workers = 4});
  EXPECT_TRUE(ended_.wait_for(200));
  EXPECT_EQ(most_, 1);
}

TEST_F(DispatcherLimitsTest, ARateIsKeptByTheClock) {
  on("mail", {.rate = RateLimit{.count = 2, .per = seconds{1}, .burst = 3}});
  gate_.open();
  for (int i = 0; i < 9; ++i) enqueue_one("mail");
  const auto ending = start();
  ASSERT_TRUE(ended_.wait_for(3)) << "the burst";
  for (int expected = 5; expected <= 9; expected += 2) {
    advance(Duration{999});
    ASSERT_TRUE(ended_.wait_for(expected - 1));
    advance(Duration{1});
    ASSERT_TRUE(ended_.wait_for(expected));
  }
}

TEST_F(DispatcherLimitsTest, AnExhaustedRateLeavesMessagesToOthers) {
  on("mail", {.rate = RateLimit{.count = 1, .per = seconds{10}}});
  gate_.open();
  for (int i = 0; i < 5; ++i) enqueue_one("mail");
  const auto ending = start();
  ASSERT_TRUE(ended_.wait_for(1));
  EXPECT_EQ(left("mail"), 4U);
}

TEST_F(DispatcherLimitsTest, TheBufferIsBoundedByCount) {
  on("order.*");
  enqueue_many(100);
  const auto ending = start({.workers = 1, .batch_size = 10});
  ASSERT_TRUE(running_.wait_for(1));
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().buffered >= 10; }));
  EXPECT_LE(dispatcher_->stats().buffered, 20U);
  EXPECT_GE(left("order.*"), 100U - 21U);
}

TEST_F(DispatcherLimitsTest, OneMessageMayBeBufferedWhenThatIsAllThatIsAllowed) {
  on("order.*");
  enqueue_many(30);
  const auto ending = start({.workers = 1, .batch_size = 10, .max_buffered = 1});
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().buffered == 1; }));
  gate_.open();
  EXPECT_TRUE(ended_.wait_for(30));
}

TEST_F(DispatcherLimitsTest, TheBufferIsBoundedByBytes) {
  on("order.*");
  std::vector<Message> messages;
  for (int i = 0; i < 30; ++i) {
    messages.push_back(message("m" + std::to_string(i)));
    messages.back().payload = std::string(1'000, 'x');
  }
  messages[29].payload = std::string(50'000, 'x');  // more than is allowed, alone
  queue().enqueue(messages);
  const auto ending = start({.workers = 1, .batch_size = 50, .buffer_bytes = 10'000});
  ASSERT_TRUE(running_.wait_for(1));
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().buffered >= 9; }));
  EXPECT_LE(dispatcher_->stats().buffered, 9U);
  gate_.open();
  EXPECT_TRUE(ended_.wait_for(30));
}

TEST_F(DispatcherLimitsTest, HeadersCountInTheBytesOfTheBuffer) {
  on("order.*");
  std::vector<Message> messages;
  for (int i = 0; i < 30; ++i) {
    messages.push_back(message("m" + std::to_string(i)));
    messages.back().payload = {};
    messages.back().headers = {{"name", std::string(996, 'x')}};
  }
  queue().enqueue(messages);
  const auto ending = start({.workers = 1, .batch_size = 5, .buffer_bytes = 10'000});
  ASSERT_TRUE(running_.wait_for(1));
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().buffered >= 9; }));
  EXPECT_LE(dispatcher_->stats().buffered, 9U);
  gate_.open();
  EXPECT_TRUE(ended_.wait_for(30));
}

TEST_F(DispatcherLimitsTest, PauseReleasesWhatWaitsAndStartsNothing) {
  on("order.*");
  enqueue_many(5);
  // It is held up behind its first claim, so that no other one is under way when it is paused.
  Gate after_the_claim;
  probe_.set_plan([&](std::string_view call) {
    if (call == "next_due") after_the_claim.pass();
    return testing::Fault::none;
  });
  const auto ending = start({.workers = 1});
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().buffered == 4; }));
  dispatcher_->pause();
  after_the_claim.open();
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().released == 4; }));
  gate_.open();
  ASSERT_TRUE(ended_.wait_for(1));
  dispatcher_->wake();
  EXPECT_EQ(record("m1").history.attempt, 0);
  EXPECT_EQ(probe_.calls("claim"), 1);
  dispatcher_->resume();
  EXPECT_TRUE(ended_.wait_for(5));
}

TEST_F(DispatcherLimitsTest, ATopicCanBePausedAlone) {
  on("order.*");
  on("mail");
  gate_.open();
  const auto ending = make_dispatcher();
  dispatcher_->pause("order.p*");
  enqueue(message("paid", "order.paid"));
  enqueue(message("created", "order.created"));
  enqueue(message("mail", "mail"));
  dispatcher_->start();
  ASSERT_TRUE(ended_.wait_for(2));
  EXPECT_EQ(record("paid").history.deliveries, 0);
  dispatcher_->resume("order.p*");
  EXPECT_TRUE(ended_.wait_for(3));
}

TEST_F(DispatcherLimitsTest, OptionsAreChecked) {
  RecordProperty("requirement", "R-26");
  const DispatcherOptions defaults;
  EXPECT_EQ(defaults.batch_size, 50U);
  EXPECT_EQ(defaults.lease, seconds{30});
  EXPECT_EQ(defaults.poll_interval, Duration{500});
  for (const DispatcherOptions& bad : {
           DispatcherOptions{.workers = 0},
           DispatcherOptions{.batch_size = 0},
           DispatcherOptions{.max_buffered = 0},
           DispatcherOptions{.buffer_bytes = 0},
           DispatcherOptions{.lease = Duration{0}},
           DispatcherOptions{.poll_interval = Duration{0}},
           DispatcherOptions{.poll_interval = seconds{2}, .max_poll_interval = seconds{1}},
           DispatcherOptions{.reap_interval = Duration{0}},
           DispatcherOptions{.max_deliveries = 0},
       }) {
    expect_error(ErrorCode::out_of_range, [&] { (void)make_dispatcher(bad); });
  }
}

}  // namespace
}  // namespace oncebox
