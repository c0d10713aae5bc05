#include <algorithm>
#include <functional>
#include <stdexcept>
#include <variant>

#include "dispatcher_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;

class NotingObserver final : public Observer {
 public:
  void on_handler_start(const ClaimedMessage& claimed, Duration waited) noexcept override {
    note("start " + claimed.message.key.message_id.str() + " " + std::to_string(waited.count()));
  }
  void on_handler_end(const ClaimedMessage& claimed, const Verdict& verdict,
                      std::chrono::nanoseconds took) noexcept override {
    EXPECT_GE(took.count(), 0);
    note("end " + claimed.message.key.message_id.str() + " " + std::to_string(verdict.index()));
  }
  void on_dead(const ClaimedMessage& claimed, std::string_view error) noexcept override {
    EXPECT_EQ(claimed.message.payload.bytes(), "s3cret payload of m");
    note("dead " + claimed.message.key.message_id.str() + " " + std::string(error));
  }

  Watched<std::vector<std::string>> notes;

 private:
  void note(std::string text) {
    notes.change([&](auto& all) { all.push_back(std::move(text)); });
  }
};

/// Lets the dispatcher claim the message again while it still records the failure of an attempt.
class EarlyClaims final : public Observer {
 public:
  /// `move_on` moves the clock, and tells the dispatcher.
  explicit EarlyClaims(std::function<void(Duration)> move_on) : move_on_(std::move(move_on)) {}

  void on_delivery(const ClaimedMessage&, Duration) noexcept override {
    deliveries.change([](int& count) { ++count; });
  }
  void on_claim(std::size_t messages, std::size_t) noexcept override {
    if (messages == 0 && deliveries.get() == 2) has_admitted_.change([](bool& has) { has = true; });
  }
  void on_settle(const Settlement& settlement, const SettleOutcome& outcome) noexcept override {
    verdicts.change([&](auto& all) { all.push_back(settlement.verdict.index()); });
    if (!std::holds_alternative<Abandon>(settlement.verdict)) return;
    EXPECT_TRUE(outcome.again_at);
    move_on_(std::chrono::seconds{30});
    EXPECT_TRUE(deliveries.wait([](int count) { return count >= 2; }));
    // The claim after it begins when the dispatcher has taken note of the message.
    EXPECT_TRUE(eventually([&] {
      move_on_(Duration{0});
      return has_admitted_.get();
    }));
  }

  Watched<int> deliveries{0};
  Watched<std::vector<std::size_t>> verdicts;

 private:
  const std::function<void(Duration)> move_on_;
  Watched<bool> has_admitted_{false};
};

class DispatcherObservationTest : public DispatcherTest {
 protected:
  Message sent() {
    Message sent = message("m");
    sent.headers = {{"correlationId", "corr-1"}, {"causationId", "cause-1"}, {"secret", "s3cret"}};
    sent.partition_key = "customer-7";
    return sent;
  }
};

TEST_F(DispatcherObservationTest, HandlerCallsAreLoggedAtInfoWithTopicIdAndStore) {
  RecordProperty("requirement", "IBX-110,IBX-090,IBX-113,MSG-10");
  handlers_.on("order.*", [](const ClaimedMessage&, HandlerContext&) {});
  enqueue(sent());
  const auto ending = start({.name = "tenant-a"});
  ASSERT_TRUE(wait_for_status("m", Status::done));
  EXPECT_TRUE(logger_.contains(
      "info handler called store=tenant-a topic=order.created source=shop message_id=m attempt=1 "
      "correlation_id=corr-1 causation_id=cause-1 partition=customer-7"));
}

TEST_F(DispatcherObservationTest, FailuresAreLoggedAtErrorWithTheirDetails) {
  RecordProperty("requirement", "IBX-111,MSG-10");
  handlers_.on("order.*", [](const ClaimedMessage&, HandlerContext&) {
    throw std::range_error("no such warehouse");
  });
  enqueue(sent());
  const auto ending = start();
  ASSERT_TRUE(logger_.wait_for(
      "error handler failed store=inbox topic=order.created source=shop message_id=m attempt=1 "
      "correlation_id=corr-1 causation_id=cause-1 partition=customer-7 type=std::range_error "
      "error=no such warehouse"));
}

TEST_F(DispatcherObservationTest, NoLineCarriesAPayloadOrAnotherHeader) {
  RecordProperty("requirement", "IBX-127,MSG-10");
  handlers_.on("order.created",
               [](const ClaimedMessage&, HandlerContext&) { throw std::runtime_error("failed"); });
  handlers_.on("order.dead", [](const ClaimedMessage&, HandlerContext&) {
    throw PermanentFailure("failed for good");
  });
  enqueue(sent());
  enqueue(message("dead", "order.dead"));
  enqueue(message("unknown", "unknown"));
  const auto ending = start();
  ASSERT_TRUE(eventually([&] {
    const RunningStats stats = dispatcher_->stats();
    return stats.retried == 2 && stats.dead == 1;
  }));
  dispatcher_->stop();
  EXPECT_FALSE(logger_.contains("s3cret")) << logger_.all();
}

TEST_F(DispatcherObservationTest, TheObserverHearsOfStartEndAndDeath) {
  RecordProperty("requirement", "MSG-09");
  NotingObserver observer;
  observer_ = &observer;
  handlers_.on("order.*", [](const ClaimedMessage&, HandlerContext&) {
    throw PermanentFailure("no such customer");
  });
  enqueue(sent());
  clock_.advance(seconds{3});
  const auto ending = start();
  EXPECT_TRUE(observer.notes.wait_for({"start m 3000", "end m 2", "dead m no such customer"}));
}

TEST_F(DispatcherObservationTest, AMessageThatFailsForTheLastTimeIsShownWholeToo) {
  RecordProperty("requirement", "MSG-09,R-11");
  NotingObserver observer;
  observer_ = &observer;
  handlers_.on("order.*",
               [](const ClaimedMessage&, HandlerContext&) { throw std::runtime_error("no luck"); });
  enqueue(sent());
  const auto ending = start({.retries = RetryPolicies({.max_attempts = 1})});
  EXPECT_TRUE(observer.notes.wait_for({"start m 0", "end m 1", "dead m no luck"}));
}

TEST_F(DispatcherObservationTest, StatsTellLatencyDurationThroughputAndBatches) {
  RecordProperty("requirement", "MSG-09");
  handlers_.on("order.created", [](const ClaimedMessage&, HandlerContext&) {});
  handlers_.on("order.failing", [](const ClaimedMessage& claimed, HandlerContext&) {
    if (claimed.message.key.message_id == "retried") throw std::runtime_error("later");
    throw PermanentFailure("never");
  });
  enqueue_many(100);
  enqueue(message("retried", "order.failing"));
  enqueue(message("dead", "order.failing"));
  clock_.advance(Duration{250});
  const auto ending = start({.batch_size = 20});
  ASSERT_TRUE(eventually([&] {
    const RunningStats stats = dispatcher_->stats();
    return stats.handled == 100 && stats.retried == 1 && stats.dead == 1;
  }));
  ASSERT_TRUE(dispatcher_->stop().complete());
  const RunningStats stats = dispatcher_->stats();
  EXPECT_EQ(stats.delivery_latency_ms.count, 102U);
  EXPECT_EQ(stats.delivery_latency_ms.p50, 250U);
  EXPECT_EQ(stats.delivery_latency_ms.p99, 250U);
  EXPECT_EQ(stats.handler_duration_ns.count, 102U);
  EXPECT_GT(stats.handler_duration_ns.max, 0U);
  EXPECT_EQ(stats.claim_batch.max, 20U);
  EXPECT_GE(stats.claims, 6U);
  EXPECT_GE(stats.settle_batch.max, 1U);
  EXPECT_GE(stats.prefetch_hits + stats.prefetch_misses, 102U);
  EXPECT_EQ(stats.running + stats.buffered + stats.unsettled, 0U);
}

TEST_F(DispatcherObservationTest, AMessageMayComeAgainSoHandlersAreIdempotent) {
  RecordProperty("requirement", "IBX-077");
  // The process dies after the handler has run and before that is recorded.
  Watched<int> effects;
  handlers_.on("order.*", [&](const ClaimedMessage&, HandlerContext&) {
    effects.change([](int& count) { ++count; });
  });
  enqueue(message("m"));
  probe_.set_plan([](std::string_view call) {
    return call == "settle" ? testing::Fault::before : testing::Fault::none;
  });
  {
    const auto ending = start({.lease = seconds{30}});
    ASSERT_TRUE(effects.wait_for(1));
  }
  probe_.set_plan({});
  clock_.advance(seconds{30});
  const auto ending = start();
  EXPECT_TRUE(effects.wait_for(2));
  EXPECT_TRUE(wait_for_status("m", Status::done));
}

TEST_F(DispatcherObservationTest, AMessageThatComesAgainWhileItIsRecordedIsReleasedAndTold) {
  RecordProperty("requirement", "R-35");
  EarlyClaims observer([this](Duration by) { advance(by); });
  observer_ = &observer;
  Watched<std::vector<int>> attempts;
  handlers_.on("order.*", [&](const ClaimedMessage& claimed, HandlerContext&) {
    attempts.change([&](auto& all) { all.push_back(claimed.history.attempt); });
    if (claimed.history.attempt == 0) throw RetryAfter(seconds{30}, "busy");
  });
  enqueue(message("m"));
  const auto ending = start();
  ASSERT_TRUE(wait_for_status("m", Status::done));
  const std::size_t ack = Verdict(Ack{}).index();
  ASSERT_TRUE(observer.verdicts.wait([&](const auto& all) { return all.back() == ack; }));
  const std::vector<std::size_t> verdicts = observer.verdicts.get();
  // It may come again while the release is recorded, too.
  const auto releases =
      static_cast<std::size_t>(std::ranges::count(verdicts, Verdict(Release{}).index()));
  EXPECT_GE(releases, 1U);
  EXPECT_EQ(verdicts.size(), releases + 2);
  EXPECT_EQ(verdicts.front(), Verdict(Abandon{}).index());
  EXPECT_EQ(attempts.get(), (std::vector<int>{0, 1})) << "a release is no attempt";
  EXPECT_EQ(observer.deliveries.get(), static_cast<int>(verdicts.size()));
  EXPECT_TRUE(eventually([&] { return dispatcher_->stats().released == releases; }));
}

}  // namespace
}  // namespace oncebox
