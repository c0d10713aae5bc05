// What should not be so, found and reported.

#include "oncebox/operate/watchdog.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>

#include "expect_error.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "recovery_fixture.hpp"
#include "watch_rules.hpp"

namespace oncebox {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::size_t times_in(const std::string& text, std::string_view part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++times;
  return times;
}

class WatchRulesTest : public OnEachStore {
 protected:
  std::vector<Symptom> look() {
    const QueueStats stats = store_->inbox_operator().stats();
    return rules_.look({name_, "inbox", store_->inbox_operator(), stats, clock_.now()});
  }
  std::optional<Symptom> look_for(FindingCode code) {
    for (Symptom& symptom : look()) {
      if (symptom.code == code) return std::move(symptom);
    }
    return std::nullopt;
  }
  static Level level(const std::optional<Symptom>& symptom) {
    return symptom ? symptom->level : Level::good;
  }
  std::vector<ClaimedMessage> claim(std::size_t limit = 1, Duration lease = minutes{1}) {
    return store_->inbox().claim({.owner = OwnerToken::generate(), .lease = lease, .limit = limit});
  }
  void finish(const std::string& id, MarkAs as) {
    store_->inbox().enqueue(message_of(id));
    store_->inbox().mark(Mark{.key = {"shop", id}, .as = as, .error = "broken"});
  }

  int sent_ = 0;
  const std::string name_ = "a";
  const WatchdogOptions options_ = {.backlog = 3, .growing_looks = 3};
  QueueRules rules_{options_};
  std::unique_ptr<Store> store_ = make_store();
};
ONCEBOX_ON_EACH_STORE(WatchRulesTest);

TEST_P(WatchRulesTest, AnEmptyAndAMerelyBusyQueueAreFine) {
  EXPECT_THAT(look(), IsEmpty());
  for (int i = 0; i < 30; ++i) {
    store_->inbox().enqueue(message_of("m" + std::to_string(i)));
    if (i % 2 == 0) finish("done" + std::to_string(i), MarkAs::processed);
    if (i % 10 == 0) finish("dead" + std::to_string(i), MarkAs::dead);
    for (const ClaimedMessage& claimed : claim()) {
      clock_.advance(seconds{30});
      EXPECT_THAT(look(), IsEmpty()) << i;
      store_->inbox().settle(Settlement{.delivery = delivery_of(claimed)});
    }
  }
}

TEST_P(WatchRulesTest, AMessageThatOneWorkerHoldsForManyTimesItsLeaseIsStuck) {
  store_->inbox().enqueue(message_of("m"));
  const ClaimedMessage claimed = claim(1, minutes{1}).front();
  const auto hold = [&](int for_minutes) {
    for (int i = 0; i < 2 * for_minutes; ++i) {
      clock_.advance(seconds{30});
      store_->inbox().extend(LeaseExtension{.delivery = delivery_of(claimed), .lease = minutes{1}});
    }
  };
  const TimePoint first_look = clock_.now();
  EXPECT_FALSE(look_for(FindingCode::lease_stuck));
  hold(4);
  EXPECT_FALSE(look_for(FindingCode::lease_stuck));
  hold(5);
  EXPECT_EQ(level(look_for(FindingCode::lease_stuck)), Level::unclear);
  hold(1);
  const std::optional<Symptom> stuck = look_for(FindingCode::lease_stuck);
  ASSERT_EQ(level(stuck), Level::bad);
  EXPECT_EQ(stuck->topic, Topic("t"));
  EXPECT_EQ(stuck->since, first_look);
  EXPECT_EQ(stuck->detail, "a message has been held by one worker for 10 min");
  // Another delivery counts anew.
  store_->inbox().settle(Settlement{.delivery = delivery_of(claimed), .verdict = Release{}});
  (void)claim();
  EXPECT_FALSE(look_for(FindingCode::lease_stuck));
}

TEST_P(WatchRulesTest, WhereLeasesAreLongAMessageMayBeHeldForLong) {
  store_->inbox().enqueue(message_of("m"));
  const ClaimedMessage claimed = claim(1, hours{2}).front();
  EXPECT_FALSE(look_for(FindingCode::lease_stuck));
  // Little of it is left at this look, but the one before has seen how long it is.
  clock_.advance(minutes{119});
  EXPECT_FALSE(look_for(FindingCode::lease_stuck));
}

TEST_P(WatchRulesTest, ShortLeasesMayBeExtendedManyTimes) {
  store_->inbox().enqueue(message_of("m"));
  const ClaimedMessage claimed = claim(1, seconds{1}).front();
  EXPECT_FALSE(look_for(FindingCode::lease_stuck));
  for (int i = 0; i < 140; ++i) {
    clock_.advance(Duration{900});
    store_->inbox().extend(LeaseExtension{.delivery = delivery_of(claimed), .lease = seconds{1}});
  }
  EXPECT_FALSE(look_for(FindingCode::lease_stuck)) << "not yet for five minutes";
}

TEST_P(WatchRulesTest, WhatIsNotLookedForBecauseThereIsTooMuchStaysAsItIs) {
  store_->inbox().enqueue(message_of("m", "held"));
  const ClaimedMessage claimed = claim(1, minutes{1}).front();
  const TimePoint first_look = clock_.now();
  const auto hold = [&](int for_minutes) {
    for (int i = 0; i < 2 * for_minutes; ++i) {
      clock_.advance(seconds{30});
      store_->inbox().extend(LeaseExtension{.delivery = delivery_of(claimed), .lease = minutes{1}});
    }
  };
  EXPECT_FALSE(look_for(FindingCode::lease_stuck));
  hold(10);
  EXPECT_EQ(level(look_for(FindingCode::lease_stuck)), Level::bad);

  std::vector<Message> many;
  std::vector<Mark> done;
  for (int i = 0; i < 10'000; ++i) {
    many.push_back(message_of("m" + std::to_string(i), "many"));
    done.push_back({.key = many.back().key, .as = MarkAs::processed});
  }
  const auto by_thousands = [](const auto& all, auto call) {
    for (std::size_t at = 0; at < all.size(); at += 1'000) call(std::span(all).subspan(at, 1'000));
  };
  by_thousands(many, [&](auto part) { store_->inbox().enqueue(part); });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(level(look_for(FindingCode::lease_stuck)), Level::unclear) << "nobody knows";
  }
  by_thousands(done, [&](auto part) { store_->inbox().mark(part); });
  hold(1);
  const std::optional<Symptom> stuck = look_for(FindingCode::lease_stuck);
  ASSERT_EQ(level(stuck), Level::bad);
  EXPECT_EQ(stuck->since, first_look) << "it was not forgotten";
}

TEST_P(WatchRulesTest, ALeaseThatEndedLongAgoAndNobodyTookOverIsStuck) {
  store_->inbox().enqueue(message_of("m"));
  (void)claim(1, minutes{1});
  clock_.advance(minutes{5});
  EXPECT_FALSE(look_for(FindingCode::lease_stuck));
  clock_.advance(minutes{6});
  const std::optional<Symptom> stuck = look_for(FindingCode::lease_stuck);
  ASSERT_EQ(level(stuck), Level::bad);
  EXPECT_EQ(stuck->since, clock_.now() - minutes{10});
  store_->inbox().reap({});
  EXPECT_FALSE(look_for(FindingCode::lease_stuck));
}

TEST_P(WatchRulesTest, AMessageThatNobodyClaimsIsLateFromWhenItWasDue) {
  RecordProperty("requirement", "MSG-08");
  Message later = message_of("m");
  later.due_at = clock_.now() + hours{1};
  store_->inbox().enqueue(later);
  clock_.advance(hours{1});
  EXPECT_FALSE(look_for(FindingCode::ready_late));
  clock_.advance(minutes{15});
  const std::optional<Symptom> late = look_for(FindingCode::ready_late);
  ASSERT_EQ(level(late), Level::bad);
  EXPECT_EQ(late->topic, Topic("t"));
  EXPECT_EQ(late->since, *later.due_at);
  EXPECT_EQ(late->detail,
            "a message has been ready for 15 min; 1 are ready and 0 are being handled");
}

TEST_P(WatchRulesTest, ABacklogThatGrowsWithEveryLookIsALag) {
  RecordProperty("requirement", "MSG-08");
  const auto enqueue = [&](int count) {
    for (int i = 0; i < count; ++i) {
      store_->inbox().enqueue(message_of("m" + std::to_string(++sent_)));
    }
    clock_.advance(seconds{30});
  };
  enqueue(5);
  const TimePoint first = clock_.now();
  EXPECT_EQ(level(look_for(FindingCode::store_lagging)), Level::unclear);
  for (int i = 0; i < 2; ++i) {
    enqueue(1);
    EXPECT_EQ(level(look_for(FindingCode::store_lagging)), Level::unclear);
  }
  enqueue(1);
  const std::optional<Symptom> lag = look_for(FindingCode::store_lagging);
  ASSERT_EQ(level(lag), Level::bad);
  EXPECT_EQ(lag->since, first);
  // It does not grow any more, but is large.
  EXPECT_EQ(level(look_for(FindingCode::store_lagging)), Level::unclear);
  for (const ClaimedMessage& claimed : claim(6)) {
    store_->inbox().settle(Settlement{.delivery = delivery_of(claimed)});
  }
  EXPECT_FALSE(look_for(FindingCode::store_lagging));
}

TEST_P(WatchRulesTest, ATopicOfWhichHalfDiesIsPoison) {
  for (int i = 0; i < 9; ++i) finish("done" + std::to_string(i), MarkAs::processed);
  for (int i = 0; i < 9; ++i) finish("dead" + std::to_string(i), MarkAs::dead);
  EXPECT_EQ(level(look_for(FindingCode::topic_poison)), Level::unclear) << "too few";
  finish("dead-10", MarkAs::dead);
  const std::optional<Symptom> poison = look_for(FindingCode::topic_poison);
  ASSERT_EQ(level(poison), Level::bad);
  EXPECT_EQ(poison->topic, Topic("t"));
  EXPECT_EQ(poison->detail, "10 of 19 messages that ended in the last 15 min died");
  // What retention removes does not count for the dead.
  for (int i = 0; i < 20; ++i) finish("more" + std::to_string(i), MarkAs::processed);
  EXPECT_EQ(level(look_for(FindingCode::topic_poison)), Level::unclear) << "a quarter";
  for (int i = 0; i < 10; ++i) finish("again" + std::to_string(i), MarkAs::processed);
  EXPECT_FALSE(look_for(FindingCode::topic_poison));
}

TEST_P(WatchRulesTest, DeathsOfLongAgoAreNoPoison) {
  for (int i = 0; i < 20; ++i) finish("dead" + std::to_string(i), MarkAs::dead);
  EXPECT_EQ(level(look_for(FindingCode::topic_poison)), Level::bad);
  clock_.advance(minutes{16});
  EXPECT_FALSE(look_for(FindingCode::topic_poison));
}

TEST(FindingsTest, AppearAtOnceAndGoAfterTwoGoodLooks) {
  Findings findings;
  const std::vector<Symptom> bad = {{FindingCode::ready_late, Topic("t"), Level::bad}};
  const std::vector<Symptom> unclear = {{FindingCode::ready_late, Topic("t"), Level::unclear}};
  EXPECT_THAT(findings.update("a", "inbox", unclear), IsEmpty());
  ASSERT_EQ(findings.update("a", "inbox", bad).size(), 1U);
  EXPECT_THAT(findings.update("a", "inbox", bad), IsEmpty()) << "told once";
  EXPECT_THAT(findings.update("a", "inbox", {}), IsEmpty());
  EXPECT_THAT(findings.update("a", "inbox", unclear), IsEmpty()) << "not good enough";
  EXPECT_THAT(findings.update("a", "inbox", {}), IsEmpty());
  EXPECT_THAT(findings.update("a", "outbox", {}), IsEmpty()) << "another queue";
  EXPECT_EQ(findings.all().size(), 1U);
  const auto gone = findings.update("a", "inbox", {});
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_FALSE(gone.front().appeared);
  EXPECT_THAT(findings.all(), IsEmpty());
}

/// A memory store that answers for its health as a test says.
class TroubledStore final : public ForwardingStore {
 public:
  using AskHealth = std::function<Health()>;
  TroubledStore(const Clock& clock, AskHealth ask)
      : ForwardingStore(std::make_unique<memory::MemoryStore>(clock)), ask_(std::move(ask)) {}

  [[nodiscard]] Health health() noexcept override { return ask_(); }

 private:
  AskHealth ask_;
};

class WatchdogTest : public ::testing::Test {
 protected:
  [[nodiscard]] Watchdog make() {
    return Watchdog({.interval = Duration{1}, .poison_deaths = 1}, {},
                    {.logger = logger_, .clock = clock_});
  }

  testing::FakeClock clock_;
  std::ostringstream log_;
  TextLogger logger_{log_, clock_};
};

TEST_F(WatchdogTest, AFindingIsLoggedOnceAndMakesHealthDegradedUntilItIsOver) {
  memory::MemoryStore store(clock_);
  store.outbox().enqueue(message_of("m", "mail"));
  clock_.advance(hours{1});
  Watchdog watchdog = make();
  watchdog.add({.name = "a", .store = store});
  ASSERT_TRUE(eventually([&] { return !watchdog.report().findings.empty(); }));
  const WatchdogReport report = watchdog.report();
  EXPECT_EQ(report.status, HealthStatus::degraded);
  const Finding& finding = report.findings.front();
  EXPECT_EQ(finding.code, FindingCode::ready_late);
  EXPECT_EQ(finding.store, "a");
  EXPECT_EQ(finding.queue, "outbox");
  EXPECT_EQ(finding.topic, Topic("mail"));
  EXPECT_EQ(report.detail(), "a/outbox: " + finding.detail);

  for (const ClaimedMessage& claimed : store.outbox().claim({.owner = OwnerToken::generate()})) {
    store.outbox().settle(Settlement{.delivery = delivery_of(claimed)});
  }
  EXPECT_TRUE(eventually([&] { return watchdog.report().status == HealthStatus::healthy; }));
  watchdog.stop();
  EXPECT_EQ(times_in(log_.str(), "needs attention"), 1U) << log_.str();
  EXPECT_EQ(times_in(log_.str(), "has recovered"), 1U);
}

TEST_F(WatchdogTest, AStoreThatFailsTwiceLagsAndItsHealthIsTold) {
  RecordProperty("requirement", "MSG-08");
  std::atomic<bool> is_down = true;
  TroubledStore store(
      clock_, [&] { return is_down ? Health{HealthStatus::unavailable, "told so"} : Health{}; });
  memory::MemoryStore fine(clock_);
  Watchdog watchdog = make();
  watchdog.add({.name = "down", .store = store});
  watchdog.add({.name = "fine", .store = fine});
  ASSERT_TRUE(eventually([&] { return !watchdog.report().findings.empty(); }));
  const WatchdogReport report = watchdog.report();
  EXPECT_EQ(report.findings.front().code, FindingCode::store_lagging);
  // At the second time; it may have failed again since.
  EXPECT_THAT(report.findings.front().detail,
              ::testing::MatchesRegex("the store has failed [2-9][0-9]* times in a row|"
                                      "the store has failed 1[0-9]+ times in a row"));
  EXPECT_THAT(report.detail(), HasSubstr("store down: told so"));
  is_down = false;
  EXPECT_TRUE(eventually([&] {
    const WatchdogReport now = watchdog.report();
    return now.status == HealthStatus::healthy && now.stores.size() == 2;
  }));
}

TEST_F(WatchdogTest, AStoreThatTakesLongTwiceLags) {
  TroubledStore store(clock_, [&] {
    clock_.advance(seconds{5});
    return Health{};
  });
  Watchdog watchdog = make();
  watchdog.add({.name = "slow", .store = store});
  ASSERT_TRUE(eventually([&] { return !watchdog.report().findings.empty(); }));
  EXPECT_THAT(watchdog.report().findings.front().detail, HasSubstr(" s to count its messages"));
}

TEST_F(WatchdogTest, AStoreThatDoesNotAnswerIsFoundByTheOthers) {
  std::promise<void> let_go;
  std::promise<void> hangs;
  std::atomic<int> looks = 0;
  TroubledStore store(clock_, [&] {
    if (looks++ == 0) {
      hangs.set_value();
      let_go.get_future().wait();
    }
    return Health{};
  });
  Watchdog watchdog = make();
  watchdog.add({.name = "hangs", .store = store});
  hangs.get_future().wait();
  clock_.advance(seconds{20});
  EXPECT_TRUE(eventually([&] { return !watchdog.report().findings.empty(); }));
  EXPECT_EQ(watchdog.report().findings.front().detail, "the store does not answer");
  let_go.set_value();
  EXPECT_TRUE(eventually([&] { return watchdog.report().findings.empty(); }));
}

TEST_F(WatchdogTest, ALookThatHangsIsReportedAlsoWhenEveryThreadDoes) {
  std::promise<void> let_go;
  std::promise<void> hangs;
  std::atomic<int> looks = 0;
  TroubledStore store(clock_, [&] {
    if (looks++ == 0) {
      hangs.set_value();
      let_go.get_future().wait();
    }
    return Health{};
  });
  Watchdog watchdog({.interval = hours{1}, .threads = 1}, {}, {.logger = logger_, .clock = clock_});
  watchdog.add({.name = "hangs", .store = store});
  hangs.get_future().wait();
  clock_.advance(seconds{20} - Duration{1});
  EXPECT_THAT(watchdog.report().findings, IsEmpty());
  clock_.advance(Duration{1});
  const WatchdogReport report = watchdog.report();
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings.front().code, FindingCode::store_lagging);
  EXPECT_EQ(report.findings.front().store, "hangs");
  EXPECT_EQ(report.findings.front().detail, "the store does not answer");
  EXPECT_EQ(report.status, HealthStatus::degraded);
  let_go.set_value();
}

/// Counts what it hears.
class CountingListener final : public LookListener {
 public:
  void on_look(const QueueLook& look) override {
    heard.change([&](auto& all) { ++all[look.store + "/" + std::string(look.queue)]; });
  }
  void on_removed(const std::string& store) noexcept override {
    heard.change([&](auto& all) { ++all["-" + store]; });
  }
  Watched<std::map<std::string, int>> heard;
};

TEST_F(WatchdogTest, FollowsASetAndTellsListenersOfEveryLook) {
  Watched<std::vector<StoreLocation>> listed({{"a", "1"}, {"b", "1"}});
  StoreSet stores(
      [&] { return listed.get(); },
      [&](const StoreLocation&) { return std::make_unique<memory::MemoryStore>(clock_); }, {},
      {.logger = logger_});
  CountingListener listener;
  Watchdog watchdog({.interval = Duration{1}}, {&listener}, {.logger = logger_, .clock = clock_});
  watchdog.follow(stores);
  EXPECT_TRUE(listener.heard.wait([](const auto& heard) {
    return heard.contains("a/inbox") && heard.contains("a/outbox") && heard.contains("b/inbox");
  }));
  listed.change([](auto& all) { all.pop_back(); });
  stores.refresh();
  EXPECT_TRUE(listener.heard.wait([](const auto& heard) { return heard.contains("-b"); }));
  EXPECT_TRUE(eventually([&] { return watchdog.report().stores.size() == 1; }));
}

/// Notes whether its owner lets the watchdog end while it is being told.
class SlowListener final : public LookListener {
 public:
  void on_look(const QueueLook&) override {}
  void on_removed(const std::string&) noexcept override {
    is_told.change([](bool& told) { told = true; });
    // It never ends before; were that so, this would show it at once.
    std::unique_lock lock(mutex_);
    ended_meanwhile = changed_.wait_for(lock, Duration{100}, [this] { return has_ended_; });
  }
  void on_end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }

  Watched<bool> is_told{false};
  std::atomic<bool> ended_meanwhile = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false;
};

TEST_F(WatchdogTest, ItsEndWaitsForASetThatIsTelling) {
  Watched<std::vector<StoreLocation>> listed(std::vector<StoreLocation>{{"a", "1"}});
  StoreSet stores(
      [&] { return listed.get(); },
      [&](const StoreLocation&) { return std::make_unique<memory::MemoryStore>(clock_); }, {},
      {.logger = logger_});
  SlowListener listener;
  auto watchdog = std::make_unique<Watchdog>(WatchdogOptions{.interval = hours{1}},
                                             std::vector<LookListener*>{&listener},
                                             Surroundings{.logger = logger_, .clock = clock_});
  watchdog->follow(stores);
  listed.change([](auto& all) { all.clear(); });
  std::jthread refreshing([&] { stores.refresh(); });
  ASSERT_TRUE(listener.is_told.wait_for(true));
  watchdog.reset();
  listener.on_end();
  refreshing.join();
  EXPECT_FALSE(listener.ended_meanwhile);
}

TEST_F(WatchdogTest, OneLookTellsWhatNeedsNoOthers) {
  memory::MemoryStore store(clock_);
  EXPECT_EQ(look_once("a", store, {}, clock_).status, HealthStatus::healthy);
  store.inbox().enqueue(message_of("m"));
  clock_.advance(hours{1});
  const WatchdogReport late = look_once("a", store, {}, clock_);
  EXPECT_EQ(late.status, HealthStatus::degraded);
  ASSERT_EQ(late.findings.size(), 1U);
  EXPECT_EQ(late.findings.front().code, FindingCode::ready_late);
  TroubledStore down(clock_, [] { return Health{HealthStatus::unavailable, "told so"}; });
  EXPECT_EQ(look_once("b", down, {}, clock_).detail(), "store b: told so");
}

TEST_F(WatchdogTest, OptionsMustMakeSense) {
  for (const WatchdogOptions& bad :
       {WatchdogOptions{.interval = Duration{0}}, WatchdogOptions{.held_after = Duration{0}},
        WatchdogOptions{.held_leases = 1}, WatchdogOptions{.poison_deaths = 0},
        WatchdogOptions{.poison_percent = 0}, WatchdogOptions{.poison_percent = 101},
        WatchdogOptions{.threads = 0}}) {
    expect_error(ErrorCode::out_of_range,
                 [&] { const Watchdog watchdog(bad, {}, {.logger = logger_, .clock = clock_}); });
  }
}

}  // namespace
}  // namespace oncebox
