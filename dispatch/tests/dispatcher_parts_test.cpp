#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "claim_gate.hpp"
#include "in_flight.hpp"
#include "oncebox/histogram.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "ready_queue.hpp"
#include "routes.hpp"
#include "token_bucket.hpp"
#include "wake_signal.hpp"

namespace oncebox::dispatcher {
namespace {

using std::chrono::seconds;

constexpr TimePoint kStart = testing::FakeClock::kDefaultStart;
const Clock& kClock = SystemClock::shared();

TEST(DispatcherHistogram, EmptyHasNothing) {
  const Distribution none = Histogram().distribution();
  EXPECT_EQ(none.count, 0U);
  EXPECT_EQ(none.p99, 0U);
}

TEST(DispatcherHistogram, QuantilesAreAtMostASixteenthTooLarge) {
  Histogram histogram;
  for (std::uint64_t value = 1; value <= 100'000; ++value) histogram.record(value);
  const Distribution all = histogram.distribution();
  EXPECT_EQ(all.count, 100'000U);
  EXPECT_EQ(all.max, 100'000U);
  EXPECT_DOUBLE_EQ(all.mean, 50'000.5);
  for (const auto& [quantile, exact] :
       {std::pair{all.p50, 50'000U}, std::pair{all.p95, 95'000U}, std::pair{all.p99, 99'000U}}) {
    EXPECT_GE(quantile, exact);
    EXPECT_LE(quantile, exact + exact / 16);
  }
}

TEST(DispatcherHistogram, SmallValuesAreExactAndLargeOnesKeepTheirMaximum) {
  Histogram small;
  for (const std::uint64_t value : {0U, 3U, 15U}) small.record(value);
  EXPECT_EQ(small.distribution().p50, 3U);
  EXPECT_EQ(small.distribution().p99, 15U);

  Histogram large;
  large.record(~std::uint64_t{0});
  EXPECT_EQ(large.distribution().max, ~std::uint64_t{0});
}

TEST(DispatcherHistogram, AddsWhatAnotherHasCounted) {
  Histogram one;
  Histogram other;
  one.record(10);
  other.record(5'000);
  one.add(other);
  EXPECT_EQ(one.distribution().count, 2U);
  EXPECT_EQ(one.distribution().max, 5'000U);
}

TEST(DispatcherTokenBucket, FillsWithTimeUpToItsBurst) {
  TokenBucket bucket({.count = 10, .per = seconds{1}, .burst = 3}, kStart);
  EXPECT_EQ(bucket.available(kStart), 3U);
  for (int i = 0; i < 3; ++i) {
    bucket.reserve(kStart);
    bucket.spend(kStart);
  }
  EXPECT_EQ(bucket.available(kStart), 0U);
  EXPECT_EQ(bucket.next_at(kStart), kStart + Duration{100});
  EXPECT_EQ(bucket.available(kStart + Duration{99}), 0U);
  EXPECT_EQ(bucket.available(kStart + Duration{100}), 1U);
  EXPECT_EQ(bucket.available(kStart + std::chrono::days{3000}), 3U);
}

TEST(DispatcherTokenBucket, WhatIsReservedDoesNotFillAgainBeforeItIsSpent) {
  TokenBucket bucket({.count = 1, .per = seconds{1}, .burst = 2}, kStart);
  bucket.reserve(kStart);
  bucket.reserve(kStart);
  const TimePoint later = kStart + seconds{100};
  EXPECT_EQ(bucket.available(later), 0U) << "both wait for a worker: no third may start with them";
  EXPECT_EQ(bucket.next_at(later), kMaxTime);
  bucket.spend(later);
  EXPECT_EQ(bucket.next_at(later), later + seconds{1});
  bucket.give_back(later);
  EXPECT_EQ(bucket.available(later), 1U);
}

TEST(DispatcherTokenBucket, AClockThatGoesBackBringsNothing) {
  TokenBucket bucket({.count = 1, .per = seconds{1}}, kStart);
  bucket.reserve(kStart);
  bucket.spend(kStart);
  EXPECT_EQ(bucket.available(kStart - seconds{10}), 0U);
  EXPECT_EQ(bucket.available(kStart + seconds{1}), 1U);
}

TEST(DispatcherWakeSignal, KeepsWhatIsRaisedBeforeAnybodyWaits) {
  WakeSignal signal(kClock);
  signal.raise(1);
  signal.raise(2);
  EXPECT_EQ(signal.wait(2), 2U);
  EXPECT_EQ(signal.wait(1 | 4), 1U);
  EXPECT_EQ(signal.wait_until(1 | 2, kClock.steady()), 0U);
}

TEST(DispatcherWakeSignal, NoWakeUpIsLost) {
  constexpr int kRounds = 20'000;
  WakeSignal there(kClock);
  WakeSignal back(kClock);
  std::jthread echo([&] {
    for (int i = 0; i < kRounds; ++i) {
      there.wait(1);
      back.raise(1);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    there.raise(1);
    back.wait(1);
  }
}

TEST(DispatcherReadyQueue, EachIsTakenOnceInOrder) {
  constexpr std::size_t kCount = 20'000;
  constexpr std::size_t kBatch = 50;
  std::vector<InFlight> messages(kCount);
  ReadyQueue ready(2 * kBatch);
  std::vector<std::vector<InFlight*>> taken(4);
  {
    std::vector<std::jthread> workers;
    workers.reserve(taken.size());
    for (auto& mine : taken) {
      workers.emplace_back([&ready, &mine] {
        while (InFlight* message = ready.pop([] {})) mine.push_back(message);
      });
    }
    for (std::size_t i = 0; i < kCount; i += kBatch) {
      std::vector<InFlight*> batch;
      for (std::size_t k = i; k < i + kBatch; ++k) batch.push_back(&messages[k]);
      while (ready.size() > kBatch) std::this_thread::yield();
      ASSERT_TRUE(ready.push(batch));
    }
    while (ready.size() > 0) std::this_thread::yield();
    EXPECT_TRUE(ready.close().empty());
  }
  std::vector<InFlight*> all;
  for (const auto& mine : taken) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all.size(), kCount);
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(DispatcherReadyQueue, SomeCanBeTakenOutAndTheRestKeepsItsOrder) {
  std::vector<InFlight> messages(4);
  std::vector<InFlight*> all;
  all.reserve(messages.size());
  for (InFlight& message : messages) all.push_back(&message);
  messages[1].lease_lost = true;
  ReadyQueue ready(4);
  ready.push(all);
  const auto lost =
      ready.extract([](const InFlight& message) { return message.lease_lost.load(); });
  EXPECT_EQ(lost, std::vector<InFlight*>{all[1]});
  EXPECT_EQ(ready.try_pop(), all[0]);
  EXPECT_EQ(ready.close(), (std::vector<InFlight*>{all[2], all[3]}));
  EXPECT_FALSE(ready.push(all));
  EXPECT_EQ(ready.pop([] {}), nullptr);
}

TEST(DispatcherReadyQueue, WorkersAreIdleUntilThereIsAMessageForThem) {
  InFlight message;
  InFlight* const one = &message;
  ReadyQueue ready(4);
  EXPECT_EQ(ready.idle(), 0U);
  std::atomic<int> waits = 0;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 2; ++i) {
      workers.emplace_back([&] {
        static_cast<void>(ready.pop([&] {
          ++waits;
          waits.notify_one();
        }));
      });
    }
    for (int seen = 0; seen < 2; seen = waits) waits.wait(seen);
    EXPECT_EQ(ready.idle(), 2U);
    ready.push(std::span(&one, 1));
    EXPECT_EQ(ready.idle(), 1U) << "whether the other one has woken or not";
    ready.close();
  }
  EXPECT_EQ(ready.idle(), 0U);
}

TEST(DispatcherClaimGate, StopIsNotPassedOverWhenThereIsRoomAsWell) {
  InFlight message;
  InFlight* const one = &message;
  ReadyQueue ready(1);
  const InFlightTable table(1, kClock);
  IdleWatch idle(kClock);
  ClaimGate gate({.batch_size = 1, .max_buffered = 1, .buffer_bytes = 1'000}, ready, table, idle,
                 kClock);
  for (int round = 0; round < 300; ++round) {
    ready.push(std::span(&one, 1));
    bool has_room = false;
    {
      const std::jthread waiter([&] { has_room = gate.wait_for_room() == 0; });
      for (int i = 0; i < round; ++i) std::this_thread::yield();  // sometimes it sleeps by then
      ASSERT_NE(ready.try_pop(), nullptr);
      gate.signal().raise(ClaimReasons::kStop);
    }
    const auto left = gate.signal().wait_until(ClaimReasons::kStop, SteadyTime::min());
    EXPECT_EQ(has_room, left != 0) << "round " << round;
  }
}

TEST(DispatcherClaimGate, RoomThatIsMadeWhileItLooksIsNotMissed) {
  InFlight message;
  InFlight* const one = &message;
  ReadyQueue ready(1);
  const InFlightTable table(1, kClock);
  IdleWatch idle(kClock);
  ClaimGate gate({.batch_size = 1, .max_buffered = 1, .buffer_bytes = 1'000}, ready, table, idle,
                 kClock);
  for (int round = 0; round < 100; ++round) {
    ready.push(std::span(&one, 1));
    const std::jthread waiter([&] { (void)gate.wait_for_room(); });
    for (int i = 0; i < round % 10; ++i) std::this_thread::yield();  // sometimes it sleeps by then
    ASSERT_NE(ready.try_pop(), nullptr);
    gate.on_room();
  }
}

class DispatcherRoutes : public ::testing::Test {
 protected:
  void on(const TopicPattern& pattern, const HandlerOptions& options = {}) {
    handlers_.on(pattern, [](const ClaimedMessage&, HandlerContext&) {}, options);
  }
  Routes& make(NoHandlerPolicy no_handler = NoHandlerPolicy::ignore) {
    routes_.emplace(handlers_, no_handler, kStart);
    return *routes_;
  }
  [[nodiscard]] bool claims(std::string_view topic) {
    const ClaimPlans plans = routes_->plan(50, kStart);
    const bool unlimited = plans.unlimited && plans.unlimited->topics.matches(topic);
    const bool limited = plans.limited && plans.limited->topics.matches(topic);
    EXPECT_FALSE(unlimited && limited) << topic;
    return unlimited || limited;
  }

  Handlers handlers_;
  std::optional<Routes> routes_;
};

TEST_F(DispatcherRoutes, WithoutLimitsOneClaimTakesEverything) {
  on("order.*");
  const ClaimPlans plans = make(NoHandlerPolicy::abandon).plan(50, kStart);
  ASSERT_TRUE(plans.unlimited);
  EXPECT_TRUE(plans.unlimited->topics.only.empty());
  EXPECT_TRUE(plans.unlimited->topics.except.empty());
  EXPECT_EQ(plans.unlimited->limit, 50U);
  EXPECT_FALSE(plans.limited);
}

TEST_F(DispatcherRoutes, TopicsOfNobodyAreLeftOutWhenIgnored) {
  on("order.*");
  make();
  EXPECT_TRUE(claims("order.paid"));
  EXPECT_FALSE(claims("invoice"));
}

TEST_F(DispatcherRoutes, LimitedTopicsAreClaimedUpToTheTightestLimit) {
  on("order.*", {.max_concurrency = 5});
  on("order.paid");
  on("mail", {.rate = RateLimit{.count = 3}});
  const ClaimPlans plans = make(NoHandlerPolicy::abandon).plan(50, kStart);
  ASSERT_TRUE(plans.limited);
  EXPECT_EQ(plans.limited->limit, 3U);
  EXPECT_TRUE(plans.limited->topics.matches("order.created"));
  EXPECT_TRUE(plans.limited->topics.matches("mail"));
  EXPECT_FALSE(plans.limited->topics.matches("order.paid"));
  EXPECT_FALSE(plans.limited->topics.matches("invoice"));
  EXPECT_TRUE(plans.unlimited->topics.matches("order.paid"));
  EXPECT_TRUE(plans.unlimited->topics.matches("invoice"));
  EXPECT_FALSE(plans.unlimited->topics.matches("order.created"));
}

TEST_F(DispatcherRoutes, ASaturatedRouteIsNotClaimedFor) {
  on("order.*", {.max_concurrency = 1});
  on("order.paid");
  Routes& routes = make();
  Route* route = routes.find("order.created");
  route->admit(kStart);
  EXPECT_FALSE(claims("order.created"));
  EXPECT_TRUE(claims("order.paid"));
  EXPECT_TRUE(route->end()) << "somebody found no room";
  EXPECT_TRUE(claims("order.created"));
}

TEST_F(DispatcherRoutes, AnExhaustedRateSaysWhenItHasRoom) {
  on("mail", {.rate = RateLimit{.count = 1, .per = seconds{10}}});
  Routes& routes = make();
  Route* route = routes.find("mail");
  route->admit(kStart);
  route->begin(kStart);
  const ClaimPlans plans = routes.plan(50, kStart);
  EXPECT_FALSE(plans.limited);
  EXPECT_EQ(plans.room_at, kStart + seconds{10});
}

TEST_F(DispatcherRoutes, PausesHoldWhateverThePatternsOfTheHandlers) {
  on("order.*");
  on("order.paid");
  on("mail");
  Routes& routes = make();
  routes.pause("order.paid");
  EXPECT_FALSE(claims("order.paid"));
  EXPECT_TRUE(claims("order.created"));
  routes.resume("order.paid");
  routes.pause("order.p*");
  EXPECT_FALSE(claims("order.paid"));
  EXPECT_FALSE(claims("order.packed"));
  EXPECT_TRUE(claims("order.created"));
  EXPECT_TRUE(routes.is_paused("order.packed"));
  routes.pause("*");
  EXPECT_FALSE(claims("mail"));
  routes.resume("order.p*");
  routes.resume("*");
  EXPECT_TRUE(claims("order.paid"));
  EXPECT_FALSE(routes.any_paused());
}

ClaimedMessage delivery(const std::string& id, std::uint64_t number, int version) {
  return {.message = {.key = {"shop", id}, .topic = "order.created"},
          .history = {.content_version = version},
          .owner = OwnerToken::generate(),
          .delivery = DeliveryNumber{number}};
}

std::vector<ClaimedMessage> batch_of(ClaimedMessage message) {
  std::vector<ClaimedMessage> batch;
  batch.push_back(std::move(message));
  return batch;
}

TEST(DispatcherInFlightTable, ALaterDeliveryOfTheSameContentTakesOverTheVerdict) {
  InFlightTable table(4, kClock);
  InFlight* first = table.admit(batch_of(delivery("m", 1, 1)), kStart)[0];
  first->stage = InFlight::Stage::running;
  EXPECT_EQ(table.admit(batch_of(delivery("m", 2, 1)), kStart)[0], nullptr);
  EXPECT_EQ(table.size(), 1U);
  std::vector<Settlement> settlements;
  table.address({&first, 1}, settlements);
  EXPECT_EQ(settlements[0].delivery.number, DeliveryNumber{2});
  EXPECT_TRUE(std::holds_alternative<Ack>(settlements[0].verdict));
}

TEST(DispatcherInFlightTable, ALaterDeliveryOfOtherContentIsReleased) {
  InFlightTable table(4, kClock);
  InFlight* first = table.admit(batch_of(delivery("m", 1, 1)), kStart)[0];
  first->stage = InFlight::Stage::running;
  table.admit(batch_of(delivery("m", 2, 2)), kStart);
  EXPECT_FALSE(first->lease_lost);
  std::vector<Settlement> settlements;
  table.address({&first, 1}, settlements);
  EXPECT_EQ(settlements[0].delivery.number, DeliveryNumber{2});
  EXPECT_TRUE(std::holds_alternative<Release>(settlements[0].verdict));
}

TEST(DispatcherInFlightTable, OldContentThatNoHandlerHasBegunIsNotBegun) {
  InFlightTable table(4, kClock);
  InFlight* first = table.admit(batch_of(delivery("m", 1, 1)), kStart)[0];
  table.admit(batch_of(delivery("m", 2, 2)), kStart);
  EXPECT_TRUE(first->lease_lost);
}

TEST(DispatcherInFlightTable, ADeliveryThatCameDuringTheSettlementIsSettledToo) {
  InFlightTable table(4, kClock);
  InFlight* first = table.admit(batch_of(delivery("m", 1, 1)), kStart)[0];
  std::vector<Settlement> settlements;
  table.address({&first, 1}, settlements);
  table.admit(batch_of(delivery("m", 2, 1)), kStart);
  EXPECT_EQ(table.release({&first, 1}, settlements), std::vector<InFlight*>{first});
  table.address({&first, 1}, settlements);
  EXPECT_TRUE(table.release({&first, 1}, settlements).empty());
  EXPECT_TRUE(table.is_quiet());
}

TEST(DispatcherInFlightTable, ADeliveryThatFollowsARecordedVerdictIsRunOnItsOwn) {
  InFlightTable table(4, kClock);
  InFlight* first = table.admit(batch_of(delivery("m", 1, 1)), kStart)[0];
  first->verdict = Abandon{};
  std::vector<Settlement> settlements;
  table.address({&first, 1}, settlements);
  first->may_be_recorded = true;
  table.admit(batch_of(delivery("m", 2, 1)), kStart);
  EXPECT_EQ(table.release({&first, 1}, settlements), std::vector<InFlight*>{first});
  table.address({&first, 1}, settlements);
  EXPECT_EQ(settlements[0].delivery.number, DeliveryNumber{2});
  EXPECT_TRUE(std::holds_alternative<Release>(settlements[0].verdict)) << "not abandoned twice";
}

TEST(DispatcherInFlightTable, LeasesAreExtendedInTheSecondRound) {
  InFlightTable table(4, kClock);
  InFlight* message = table.admit(batch_of(delivery("m", 1, 1)), kStart)[0];
  std::vector<LeaseExtension> extensions;
  EXPECT_TRUE(table.due_for_renewal(1, seconds{30}, extensions).empty());
  const auto due = table.due_for_renewal(1, seconds{30}, extensions);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(extensions.at(0).delivery.number, DeliveryNumber{1});
  const ExtendOutcome extended{kStart + seconds{40}};
  EXPECT_TRUE(table.renewed(due, {&extended, 1}, kStart + seconds{40}).empty());
  EXPECT_EQ(message->lease_until.load(), kStart + seconds{40});
  EXPECT_TRUE(table.due_for_renewal(1, seconds{30}, extensions).empty());
}

TEST(DispatcherInFlightTable, ItGrowsWithWhatIsInFlight) {
  // There is not that much memory.
  InFlightTable table(std::size_t{1} << 48, kClock);
  constexpr std::uint64_t kCount = 300;
  std::vector<InFlight*> all;
  for (std::uint64_t i = 1; i <= kCount; ++i) {
    all.push_back(table.admit(batch_of(delivery("m" + std::to_string(i), i, 1)), kStart)[0]);
  }
  EXPECT_EQ(table.size(), kCount);
  for (std::uint64_t i = 1; i <= kCount; ++i) {
    auto again = batch_of(delivery("m" + std::to_string(i), kCount + i, 1));
    EXPECT_EQ(table.admit(std::move(again), kStart)[0], nullptr) << "it is known";
  }
  std::vector<LeaseExtension> extensions;
  EXPECT_EQ(table.due_for_renewal(2, seconds{30}, extensions).size(), kCount);
  std::vector<Settlement> settlements;
  table.address(all, settlements);
  EXPECT_TRUE(table.release(all, settlements).empty());
  EXPECT_TRUE(table.is_quiet());
}

TEST(DispatcherInFlightTable, AFinishedMessageHasNoLeaseToLose) {
  InFlightTable table(4, kClock);
  InFlight* message = table.admit(batch_of(delivery("m", 1, 1)), kStart)[0];
  std::vector<LeaseExtension> extensions;
  const auto due = table.due_for_renewal(2, seconds{30}, extensions);
  message->stage = InFlight::Stage::finished;
  const ExtendOutcome lost;
  EXPECT_TRUE(table.renewed(due, {&lost, 1}, kStart).empty());
  message->stage = InFlight::Stage::running;
  EXPECT_EQ(table.renewed(due, {&lost, 1}, kStart), std::vector<std::size_t>{0});
  EXPECT_TRUE(message->lease_lost);
}

}  // namespace
}  // namespace oncebox::dispatcher
