#include "oncebox/prometheus/prometheus_metrics.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <semaphore>
#include <sstream>
#include <stdexcept>
#include <string>

#include "metric_names.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/driver/observed_queue_store.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/operate/housekeeping.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "watched.hpp"

namespace oncebox {
namespace {

using namespace std::chrono_literals;

/// Passes on what a queue does, and tells when deliveries are settled.
class SettledDeliveries final : public Observer {
 public:
  explicit SettledDeliveries(Observer& below) : below_(below) {}

  void on_store_call(std::string_view call, std::size_t items, std::chrono::nanoseconds took,
                     bool failed) noexcept override {
    below_.on_store_call(call, items, took, failed);
  }
  void on_claim(std::size_t messages, std::size_t limit) noexcept override {
    below_.on_claim(messages, limit);
  }
  void on_delivery(const ClaimedMessage& claimed, Duration waited) noexcept override {
    below_.on_delivery(claimed, waited);
  }
  void on_handler_start(const ClaimedMessage& claimed, Duration waited) noexcept override {
    below_.on_handler_start(claimed, waited);
  }
  void on_handler_end(const ClaimedMessage& claimed, const Verdict& verdict,
                      std::chrono::nanoseconds took) noexcept override {
    below_.on_handler_end(claimed, verdict, took);
  }
  void on_settle(const Settlement& settlement, const SettleOutcome& outcome) noexcept override {
    below_.on_settle(settlement, outcome);
    settled_.release();
  }
  [[nodiscard]] bool wait_for(int count) {
    for (; count > 0; --count) {
      if (!settled_.try_acquire_for(60s)) return false;
    }
    return true;
  }

 private:
  Observer& below_;
  std::counting_semaphore<> settled_{0};
};

class PrometheusMetricsTest : public ::testing::Test {
 protected:
  /// Of three messages one is done, one will be tried again and one is dead.
  void work() {
    Inbox inbox(store_, {}, {logger_, metrics_.observer({"shop"}), clock_});
    for (const char* id : {"good", "later", "never"}) {
      inbox.enqueue({.key = {"web", id}, .topic = "order.created", .payload = "{}"});
    }
    Handlers handlers;
    handlers.on("order.created", [](const ClaimedMessage& claimed, HandlerContext&) {
      const std::string& id = claimed.message.key.message_id.str();
      if (id == "later") throw std::runtime_error("not today");
      if (id == "never") throw PermanentFailure("no such customer");
    });
    SettledDeliveries settled(metrics_.observer({"shop"}));
    Dispatcher dispatcher(store_.inbox(), handlers, {.workers = 1}, {logger_, settled, clock_});
    dispatcher.start();
    ASSERT_TRUE(settled.wait_for(3));
    dispatcher.stop();
    metrics_.on_dispatcher("shop", dispatcher.stats());
  }

  /// The value of one series, or -1 when it is not there.
  [[nodiscard]] double value(const std::string& series) const {
    std::istringstream lines(metrics_.expose());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(series + " ")) return std::stod(line.substr(series.size() + 1));
    }
    return -1;
  }

  testing::FakeClock clock_;
  memory::MemoryStore store_{clock_};
  NullLogger logger_;
  PrometheusMetrics metrics_;
};

TEST_F(PrometheusMetricsTest, CountsAndTimesWhatADispatcherDoes) {
  RecordProperty("requirement", "MSG-09");
  work();
  const std::string both = R"({queue="inbox",store="shop"})";
  const std::string topic = R"({queue="inbox",store="shop",topic="order.created"})";
  EXPECT_EQ(value("oncebox_handler_duration_seconds_count" + topic), 3);
  EXPECT_EQ(value("oncebox_handler_latency_seconds_count" + both), 3);
  EXPECT_EQ(value("oncebox_delivery_latency_seconds_count" + both), 3);
  EXPECT_EQ(value("oncebox_messages_delivered_total" + topic), 3);
  EXPECT_EQ(value("oncebox_messages_retried_total" + both), 1);
  EXPECT_EQ(value(R"(oncebox_messages_dead_total{cause="failed",queue="inbox",store="shop"})"), 1);
  EXPECT_EQ(value(R"(oncebox_batch_items_sum{call="settle",queue="inbox",store="shop"})"), 3);
  EXPECT_EQ(value(R"(oncebox_batch_items_sum{call="claim",queue="inbox",store="shop"})"), 3);
}

TEST_F(PrometheusMetricsTest, ShowsHowWellADispatcherStaysAhead) {
  RecordProperty("requirement", "MSG-09");
  RunningStats stats{.buffered = 4, .running = 2, .prefetch_hits = 90, .prefetch_misses = 10};
  metrics_.on_dispatcher("shop", stats);
  stats.prefetch_hits = 100;
  stats.buffered = 0;
  metrics_.on_dispatcher("shop", stats);
  const std::string prefetches = "oncebox_dispatcher_prefetches_total";
  EXPECT_EQ(value(prefetches + R"({dispatcher="shop",outcome="hit"})"), 100);
  EXPECT_EQ(value(prefetches + R"({dispatcher="shop",outcome="miss"})"), 10);
  const std::string messages = "oncebox_dispatcher_messages";
  EXPECT_EQ(value(messages + R"({dispatcher="shop",state="buffered"})"), 0);
  EXPECT_EQ(value(messages + R"({dispatcher="shop",state="running"})"), 2);
}

TEST_F(PrometheusMetricsTest, DispatchersAndStoresBeyondTheLimitCountTogether) {
  for (int i = 0; i < 150; ++i) metrics_.on_dispatcher("d" + std::to_string(i), {.running = 1});
  EXPECT_EQ(value(R"(oncebox_dispatcher_messages{dispatcher="d99",state="running"})"), 1);
  EXPECT_EQ(value(R"(oncebox_dispatcher_messages{dispatcher="d100",state="running"})"), -1);
  EXPECT_EQ(value(R"(oncebox_dispatcher_messages{dispatcher="other",state="running"})"), 1);
  Observer& first = metrics_.observer({"s"});
  for (int i = 0; i < 5'000; ++i) (void)metrics_.observer({std::to_string(i)});
  EXPECT_EQ(&metrics_.observer({"s"}), &first);
  EXPECT_EQ(&metrics_.observer({"4998"}), &metrics_.observer({"4999"}));
}

TEST_F(PrometheusMetricsTest, CountsWhatHousekeepingBuriesInTheStoresOfASet) {
  RecordProperty("requirement", "R-33,MSG-09");
  StoreSet stores(
      [] { return std::vector<StoreLocation>{{"shop", "memory:"}}; },
      [this](const StoreLocation&) {
        auto store = std::make_unique<memory::MemoryStore>(clock_);
        const Message late{
            .key = {"web", "late"}, .topic = "t", .payload = "x", .expires_at = clock_.now() + 1s};
        for (QueueStore* queue : {&store->inbox(), &store->outbox()}) {
          queue->enqueue(late);
        }
        clock_.advance(1s);
        return store;
      },
      {}, {.logger = logger_});
  Housekeeping housekeeping({.reap_interval = 1ms},
                            {.logger = logger_,
                             .observers = {.inbox = metrics_.observers(),
                                           .outbox = metrics_.observers(QueueKind::outbox)},
                             .clock = clock_});
  housekeeping.follow(stores);
  const auto is_buried = [&](const std::string& queue) {
    return value(R"(oncebox_messages_dead_total{cause="expired_or_lapsed",queue=")" + queue +
                 R"(",store="shop"})") == 1;
  };
  EXPECT_TRUE(eventually([&] { return is_buried("inbox"); })) << metrics_.expose();
  EXPECT_TRUE(eventually([&] { return is_buried("outbox"); })) << metrics_.expose();
}

TEST_F(PrometheusMetricsTest, NamesTypesAndLabelsAreThoseOfTheGoldenFile) {
  RecordProperty("requirement", "MSG-09");
  work();
  ObservedQueueStore outbox(store_.outbox(), "shop/outbox",
                            {logger_, metrics_.observer({"shop", QueueKind::outbox}), clock_});
  outbox.observe({.key = {"web", "1"}});
  metrics_.observer({"shop"}).on_lease_lost({"web", "1"});
  metrics_.on_stats({"shop"}, store_.inbox_operator().stats(), clock_.now());
  std::ostringstream golden;
  golden << std::ifstream(ONCEBOX_METRIC_NAMES).rdbuf();
  EXPECT_EQ(metric_names(metrics_.expose()), golden.str());
}

}  // namespace
}  // namespace oncebox
