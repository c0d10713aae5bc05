// One dispatcher over many stores, which come and go and fail.

#include "oncebox/dispatch/set_dispatcher.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "expect_error.hpp"
#include "oncebox/testing/span_record.hpp"
#include "set_dispatcher_fixture.hpp"

namespace oncebox {
namespace {

constexpr Duration kNever = std::chrono::hours{20};

TEST_F(SetDispatcherTest, TellsATracerOfWhatHappensInEveryStore) {
  testing::SpanRecord spans;
  list({{"acme", "1"}, {"bolt", "2"}});
  note_stores();
  enqueue("acme", "m1");
  enqueue("bolt", "m1");
  tracer_ = &spans;
  const auto ending = start();
  ASSERT_TRUE(eventually([&] { return spans.spans_of(SpanOperation::settle).size() == 2; }));
  std::set<std::string> queues;
  for (const auto& claim : spans.spans_of(SpanOperation::claim)) queues.insert(claim.target);
  EXPECT_EQ(queues, (std::set<std::string>{"acme", "bolt"}));
  EXPECT_EQ(spans.spans_of(SpanOperation::handle).size(), 2U);
}

TEST_F(SetDispatcherTest, HandlesWhatIsInEveryStoreAndSaysWhichInContextAndLog) {
  RecordProperty("requirement", "IBX-085,IBX-086,IBX-090,IBX-113");
  list({{"acme", "1"}, {"bolt", "2"}});
  handlers_.on("*", [this](const ClaimedMessage& claimed, HandlerContext& context) {
    note(std::string(context.store()) + ":" + claimed.message.key.message_id.str());
    if (context.store() == "bolt") throw PermanentFailure("no stock");
  });
  // The same key in two stores: two messages.
  enqueue("acme", "m1");
  enqueue("bolt", "m1");
  const auto ending = start();
  ASSERT_TRUE(wait_for_handled(2));
  EXPECT_TRUE(eventually([&] { return status("acme", "m1") == Status::done; }));
  EXPECT_TRUE(eventually([&] { return status("bolt", "m1") == Status::dead; }));
  EXPECT_TRUE(logger_.contains("handler called store=acme"));
  EXPECT_TRUE(logger_.contains("handler called store=bolt"));
  EXPECT_TRUE(logger_.contains("handler failed for good, message is dead store=bolt"));
  EXPECT_FALSE(logger_.contains("secret-payload"));
}

TEST_F(SetDispatcherTest, RoundRobinTakesABatchOfEachInTurn) {
  RecordProperty("requirement", "IBX-087");
  list({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  for (const char* name : {"a", "b", "c"}) enqueue_many(name, 4);
  note_stores();
  const auto ending = start(one_by_one(2));
  ASSERT_TRUE(wait_for_handled(12));
  EXPECT_EQ(handled(), "aabbccaabbcc");
}

TEST_F(SetDispatcherTest, DrainFirstEmptiesAStoreBeforeTheNext) {
  RecordProperty("requirement", "IBX-088");
  list({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  for (const char* name : {"a", "b", "c"}) enqueue_many(name, 5);
  note_stores();
  auto options = one_by_one(2);
  options.calls_per_server = 4;  // others have to wait for the claim under way
  const auto ending = start(options, drain_first());
  ASSERT_TRUE(wait_for_handled(15));
  EXPECT_EQ(handled(), "aaaaabbbbbccccc");
}

/// The strategy of a user: the last by name goes first.
class LastFirst final : public StoreSelection {
 public:
  std::optional<std::size_t> choose(std::span<const StoreCandidate> candidates) override {
    for (std::size_t i = candidates.size(); i-- > 0;) {
      if (candidates[i].is_free) return i;
    }
    return std::nullopt;
  }
};

TEST_F(SetDispatcherTest, AStrategyOfTheUserDecidesWhoIsNext) {
  RecordProperty("requirement", "IBX-086");
  list({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  for (const char* name : {"a", "b", "c"}) enqueue_many(name, 4);
  note_stores();
  const auto ending = start(one_by_one(2), std::make_unique<LastFirst>());
  ASSERT_TRUE(wait_for_handled(12));
  EXPECT_EQ(handled(), "ccccbbbbaaaa");
}

/// The strategy of a user who made a mistake.
class Throwing final : public StoreSelection {
 public:
  std::optional<std::size_t> choose(std::span<const StoreCandidate>) override {
    throw std::runtime_error("no idea");
  }
  [[nodiscard]] std::size_t share(std::size_t, std::size_t) const override { throw 42; }
  double place(std::string_view, double) override { throw std::runtime_error("nowhere"); }
};

TEST_F(SetDispatcherTest, AStrategyThatThrowsIsLoggedOnceAndTheStoresTakeTurns) {
  RecordProperty("requirement", "IBX-086");
  list({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  for (const char* name : {"a", "b", "c"}) enqueue_many(name, 4);
  note_stores();
  {
    const auto ending = start(one_by_one(2), std::make_unique<Throwing>());
    ASSERT_TRUE(wait_for_handled(12));
  }
  EXPECT_EQ(handled(), "aabbccaabbcc");
  const std::string log = logger_.all();
  const std::string line = "error the selection of stores failed";
  const std::size_t first = log.find(line);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(log.find(line, first + 1), std::string::npos) << log;
}

/// What `weighted_fair` does, and a note of the places that it gives.
class NotedFair final : public StoreSelection {
 public:
  using Places = Watched<std::map<std::string, std::vector<double>>>;
  explicit NotedFair(Places& places) : places_(places) {}

  std::optional<std::size_t> choose(std::span<const StoreCandidate> candidates) override {
    return fair_->choose(candidates);
  }
  [[nodiscard]] std::size_t share(std::size_t max_buffered, std::size_t stores) const override {
    return fair_->share(max_buffered, stores);
  }
  double place(std::string_view store, double served) override {
    const double place = fair_->place(store, served);
    places_.change([&](auto& all) { all[std::string(store)].push_back(place); });
    return place;
  }

 private:
  Places& places_;
  const std::unique_ptr<StoreSelection> fair_ = weighted_fair();
};

TEST_F(SetDispatcherTest, WithWeightedFairASmallTenantPassesTheBacklogOfALargeOne) {
  RecordProperty("requirement", "IBX-086");
  constexpr int kBacklog = 2'000;
  list({{"large", "1"}, {"small", "2"}});
  enqueue_many("large", kBacklog);
  std::atomic<int> large = 0;
  std::atomic<int> large_before_small = 0;
  NotedFair::Places places;
  handlers_.on("*", [&](const ClaimedMessage&, HandlerContext& context) {
    if (context.store() == "small") {
      large_before_small = large.load();
      return note("small");
    }
    if (++large != 100) return;
    // Some wait behind this one.
    EXPECT_TRUE(places.wait([](auto all) { return all["large"].size() > 110; }));
    enqueue("small", "m1");
    EXPECT_TRUE(places.wait([](const auto& all) { return all.contains("small"); }));
    // With the next claim of its store it stands in its place.
    StoreProbe& probe = store("small").probe();
    const auto claims = probe.calls("claim");
    EXPECT_TRUE(holds_in_time([&] { return probe.calls("claim") > claims; }));
  });
  const auto ending = start({.dispatcher = {.workers = 1, .max_buffered = 200}},
                            std::make_unique<NotedFair>(places));
  ASSERT_TRUE(wait_for_handled(1));
  // It has its place while the hundredth runs, before those that waited already.
  const auto given = places.get();
  EXPECT_LT(given.at("small").front(), given.at("large").at(109));
  EXPECT_LT(large_before_small, 110);
  EXPECT_TRUE(eventually([&] { return large == kBacklog; }));
}

TEST_F(SetDispatcherTest, StoresThatComeAreWorkedOnAndNewWorkIsNoticed) {
  RecordProperty("requirement", "IBX-095");
  list({{"a", "1"}});
  note_stores();
  const auto ending = start();
  enqueue("a", "m1");
  ASSERT_TRUE(wait_for_handled(1));
  list({{"a", "1"}, {"b", "2"}});
  enqueue("b", "m1");
  enqueue("b", "m2");
  ASSERT_TRUE(wait_for_handled(3));
  enqueue("a", "m2");
  ASSERT_TRUE(wait_for_handled(4));
  EXPECT_EQ(handled(), "abba");
}

TEST_F(SetDispatcherTest, AStoreThatGoesIsFinishedWithAndClosed) {
  RecordProperty("requirement", "IBX-096");
  list({{"a", "1"}, {"b", "2"}});
  handlers_.on("*", [this](const ClaimedMessage&, HandlerContext& context) {
    note(context.store());
    if (context.store() == "a") gate_.pass();
  });
  enqueue_many("a", 3);
  const auto ending = start({.dispatcher = {.workers = 1}});
  ASSERT_TRUE(wait_for_handled(1));  // one runs, two wait
  MemberStorePtr member = stores_.find("a");
  QueueStore& queue = store("a").queue();
  list({{"b", "2"}});
  ASSERT_TRUE(eventually([&] {
    int leased = 0;
    for (const char* id : {"m0", "m1", "m2"}) {
      leased += queue.find(MessageKey{"shop", id})->lease.has_value() ? 1 : 0;
    }
    return leased == 1;
  })) << "what no handler had begun was not released";
  gate_.open();
  ASSERT_TRUE(
      eventually([&] { return queue.find(MessageKey{"shop", "m0"})->status == Status::done; }));
  EXPECT_FALSE(closed_.get().contains("1"));  // the test holds it
  member.reset();
  EXPECT_TRUE(closed_.wait([](const auto& urls) { return urls.contains("1"); }));
  enqueue("b", "m1");
  ASSERT_TRUE(wait_for_handled(2));
  EXPECT_EQ(handled(), "ab");
}

TEST_F(SetDispatcherTest, AStoreWhoseAddressChangesIsWorkedOnAtTheNewOne) {
  RecordProperty("requirement", "IBX-097");
  list({{"a", "1"}});
  note_stores();
  const auto ending = start();
  enqueue("a", "m1");
  ASSERT_TRUE(wait_for_handled(1));
  list({{"a", "2"}});
  EXPECT_TRUE(closed_.wait([](const auto& urls) { return urls.contains("1"); }));
  enqueue("a", "m1");
  ASSERT_TRUE(wait_for_handled(2));
}

TEST_F(SetDispatcherTest, AStoreThatFailsStopsNobodyAndIsTriedAgain) {
  RecordProperty("requirement", "IBX-085");
  list({{"a", "1"}, {"b", "2"}});
  std::atomic<bool> is_down = true;
  store("a").probe().set_plan(
      [&](std::string_view) { return is_down ? testing::Fault::before : testing::Fault::none; });
  enqueue_many("a", 3);
  enqueue_many("b", 3);
  note_stores();
  const auto ending = start();
  ASSERT_TRUE(wait_for_handled(3));
  EXPECT_EQ(handled(), "bbb");
  EXPECT_TRUE(logger_.wait_for("warning claim failed, will be tried again store=a"));
  is_down = false;
  dispatcher_->wake();
  ASSERT_TRUE(wait_for_handled(6));
  EXPECT_EQ(handled(), "bbbaaa");
}

TEST_F(SetDispatcherTest, VerdictsAreRecordedWhenTheStoreTakesThemAgain) {
  list({{"a", "1"}, {"b", "2"}});
  std::atomic<bool> is_down = true;
  store("a").probe().set_plan([&](std::string_view call) {
    return is_down && call == "settle" ? testing::Fault::before : testing::Fault::none;
  });
  note_stores();
  const auto ending = start({.dispatcher = {.lease = std::chrono::hours{1}}});
  enqueue("a", "m1");
  enqueue("b", "m1");
  ASSERT_TRUE(wait_for_handled(2));
  EXPECT_TRUE(eventually([&] { return status("b", "m1") == Status::done; }));
  EXPECT_TRUE(holds_in_time([&] { return store("a").probe().calls("settle") >= 2; }));
  EXPECT_EQ(status("a", "m1"), Status::processing);
  is_down = false;
  EXPECT_TRUE(holds_in_time([&] { return status("a", "m1") == Status::done; }));
  EXPECT_TRUE(eventually([&] { return dispatcher_->stats().handled == 2; }));
}

TEST_F(SetDispatcherTest, LeasesAreKeptWhileHandlersRun) {
  list({{"a", "1"}});
  handlers_.on("*", [this](const ClaimedMessage&, HandlerContext& context) {
    note(context.store());
    gate_.pass();
  });
  enqueue("a", "m1");
  const auto ending = start({.dispatcher = {.lease = std::chrono::seconds{30}}});
  ASSERT_TRUE(wait_for_handled(1));
  for (int round = 1; round <= 6; ++round) {
    const int before = store("a").probe().calls("extend");
    advance(std::chrono::seconds{10});
    ASSERT_TRUE(store("a").probe().wait_for_calls("extend", before + 1)) << round;
  }
  const auto record = store("a").queue().find(MessageKey{"shop", "m1"});
  EXPECT_TRUE(record->lease->live_at(clock_.now()));
  EXPECT_EQ(record->history.lapses, 0);
  gate_.open();
  EXPECT_TRUE(eventually([&] { return status("a", "m1") == Status::done; }));
}

TEST_F(SetDispatcherTest, ARetryComesWhenItIsDue) {
  list({{"a", "1"}});
  handlers_.on("*", [this](const ClaimedMessage& claimed, HandlerContext& context) {
    note(context.store());
    if (claimed.history.attempt == 0) throw RetryAfter(std::chrono::seconds{90}, "busy");
  });
  enqueue("a", "m1");
  const auto ending = start();
  ASSERT_TRUE(wait_for_handled(1));
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().retried == 1; }));
  advance(std::chrono::seconds{90});
  ASSERT_TRUE(wait_for_handled(2));
}

TEST_F(SetDispatcherTest, LimitsOfATopicHoldForAllStoresTogether) {
  list({{"a", "db://one"}, {"b", "db://two"}, {"c", "db://three"}});
  for (const char* name : {"a", "b", "c"}) enqueue_many(name, 20);
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  handlers_.on("order.*",
               [&](const ClaimedMessage&, HandlerContext& context) {
                 const int now = ++running;
                 int known = most;
                 while (now > known && !most.compare_exchange_weak(known, now)) {
                 }
                 std::this_thread::yield();
                 --running;
                 note(context.store());
               },
               {.max_concurrency = 2});
  const auto ending = start({.dispatcher = {.workers = 8}});
  ASSERT_TRUE(wait_for_handled(60));
  EXPECT_LE(most, 2);
}

TEST_F(SetDispatcherTest, TheRateOfATopicHoldsForAllStoresTogether) {
  std::vector<StoreLocation> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back({"s" + std::to_string(i), "db://" + std::to_string(i)});
  }
  list(all);
  for (const StoreLocation& location : all) enqueue_many(location.name, 20);
  handlers_.on("order.*",
               [this](const ClaimedMessage&, HandlerContext& context) { note(context.store()); },
               {.rate = RateLimit{.count = 5, .per = std::chrono::seconds{1}}});
  handlers_.on("other", [this](const ClaimedMessage&, HandlerContext&) { gate_.open(); });
  const auto ending = start({.dispatcher = {.workers = 8}});
  ASSERT_TRUE(wait_for_handled(5));
  for (int second = 1; second <= 3; ++second) {
    advance(std::chrono::seconds{1});
    ASSERT_TRUE(wait_for_handled(5 + 5 * static_cast<std::size_t>(second)));
  }
  // Whatever else it would do wrong it has done by then.
  enqueue("s0", "last", "other");
  gate_.pass();
  EXPECT_EQ(handled_.get().size(), 20U);
}

TEST_F(SetDispatcherTest, AStoreThatFailedIsAskedAgainThoughSomethingWasDueMeanwhile) {
  list({{"a", "1"}});
  std::atomic<int> failures = 0;
  store("a").probe().set_plan([&](std::string_view call) {
    if (call != "claim" || failures == 0) return testing::Fault::none;
    --failures;
    return testing::Fault::before;
  });
  handlers_.on("*", [this](const ClaimedMessage& claimed, HandlerContext& context) {
    note(context.store());
    if (claimed.history.attempt == 0 && claimed.message.key.message_id.str() == "m1") {
      throw RetryAfter(Duration{20}, "busy");
    }
  });
  enqueue("a", "m1");
  const auto ending = start();
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().retried == 1; }));
  failures = 1;
  clock_.advance(Duration{20});
  enqueue("a", "m2");  // the claim for it fails, and the store rests beyond the time of the retry
  EXPECT_TRUE(holds_in_time([&] { return handled() == "aaa"; }));
}

TEST_F(SetDispatcherTest, AMessageThatIsDueInAThousandYearsCostsNothing) {
  list({{"a", "1"}, {"b", "2"}});
  store("a").queue().enqueue({.key = {"shop", "far"},
                              .topic = "order.created",
                              .due_at = clock_.now() + std::chrono::years{1'000}});
  note_stores();
  // However long it takes, no poll comes in between.
  const auto ending = start({.dispatcher = {.poll_interval = kNever, .max_poll_interval = kNever},
                             .notified_poll_interval = kNever});
  for (std::size_t i = 0; i < 50; ++i) {
    enqueue("b", std::to_string(i));
    ASSERT_TRUE(wait_for_handled(i + 1));
  }
  EXPECT_LT(store("a").probe().calls("claim"), 10);
}

TEST_F(SetDispatcherTest, PausedTopicsRestInEveryStore) {
  list({{"a", "1"}, {"b", "2"}});
  note_stores();
  const auto ending = start();
  dispatcher_->pause(TopicPattern("order.*"));
  enqueue("a", "m1");
  enqueue("b", "m1");
  enqueue("a", "m2", "other");
  enqueue("b", "m2", "other");
  ASSERT_TRUE(wait_for_handled(2));
  EXPECT_EQ(status("a", "m1"), Status::processing);
  EXPECT_EQ(status("b", "m1"), Status::processing);
  dispatcher_->resume(TopicPattern("order.*"));
  ASSERT_TRUE(wait_for_handled(4));
}

TEST_F(SetDispatcherTest, StopFinishesWhatRunsAndReleasesTheRest) {
  list({{"a", "1"}, {"b", "2"}});
  enqueue_many("a", 3);
  enqueue_many("b", 3);
  handlers_.on("*", [this](const ClaimedMessage&, HandlerContext& context) {
    note(context.store());
    gate_.pass();
  });
  const auto ending = start({.dispatcher = {.workers = 2}});
  ASSERT_TRUE(wait_for_handled(2));
  const StopResult early =
      dispatcher_->stop({.finish_within = Duration::zero(), .interrupt_within = Duration::zero()});
  EXPECT_EQ(early.still_running, 2U);
  gate_.open();
  EXPECT_TRUE(dispatcher_->stop().complete());
  int done = 0;
  for (const char* name : {"a", "b"}) {
    for (const char* id : {"m0", "m1", "m2"}) {
      const auto record = store(name).queue().find(MessageKey{"shop", id});
      EXPECT_FALSE(record->lease) << name << id;
      EXPECT_EQ(record->history.attempt, 0);
      done += record->status == Status::done ? 1 : 0;
    }
  }
  EXPECT_EQ(done, 2);
  expect_error(ErrorCode::conflict, [&] { dispatcher_->start(); });
}

TEST_F(SetDispatcherTest, OneThatWasNeverStartedHoldsNothing) {
  list({{"a", "1"}});
  enqueue("a", "m1");
  SetDispatcher dispatcher(stores_, handlers_, nullptr, {}, {.logger = logger_, .clock = clock_});
  EXPECT_TRUE(dispatcher.stop().complete());
  EXPECT_EQ(store("a").probe().calls(), 0);
}

TEST_F(SetDispatcherTest, OptionsAreChecked) {
  const auto refuse = [&](const SetDispatcherOptions& options) {
    expect_error(ErrorCode::out_of_range, [&] { options.validate(); });
  };
  refuse({.calls_per_server = 0});
  refuse({.calls_per_server = 1'000});
  refuse({.dispatcher = {.workers = 0}});
  refuse({.notified_poll_interval = Duration{1}});
}

TEST_F(SetDispatcherTest, IsIdleWhenEveryStoreHasNothingLeftAndEveryVerdictIsRecorded) {
  list({{"a", "db://1"}, {"b", "db://1"}, {"c", "db://2"}});
  note_stores();
  const auto ending = make();
  expect_error(ErrorCode::conflict, [&] { (void)dispatcher_->wait_until_idle(); });
  dispatcher_->start();
  ASSERT_TRUE(dispatcher_->wait_until_idle()) << "with nothing to do";
  for (int round = 1; round <= 20; ++round) {
    for (const char* name : {"a", "b", "c"}) enqueue(name, "m" + std::to_string(round));
    ASSERT_TRUE(dispatcher_->wait_until_idle());
    for (const char* name : {"a", "b", "c"}) {
      ASSERT_EQ(status(name, "m" + std::to_string(round)), Status::done);
    }
  }
  dispatcher_->stop();
  EXPECT_FALSE(dispatcher_->wait_until_idle()) << "after the stop";
}

TEST_F(SetDispatcherTest, ARetryInOneStoreIsWaitedForOnlyOnRequest) {
  list({{"a", "1"}, {"b", "2"}});
  handlers_.on("*", [this](const ClaimedMessage& claimed, HandlerContext& context) {
    note(context.store());
    if (claimed.history.attempt == 0) throw RetryAfter(std::chrono::seconds{10}, "not yet");
  });
  const auto ending = start();
  enqueue("b", "m");
  ASSERT_TRUE(dispatcher_->wait_until_idle());
  EXPECT_EQ(handled(), "b");
  auto waits = std::async(std::launch::async, [&] {
    return dispatcher_->wait_until_idle({.due_within = std::chrono::seconds{20}});
  });
  clock_.advance(std::chrono::seconds{11});
  EXPECT_TRUE(waits.get());
  EXPECT_EQ(status("b", "m"), Status::done);
}

TEST_F(SetDispatcherTest, AStoreThatFailsIsWaitedFor) {
  list({{"a", "1"}, {"b", "2"}});
  std::atomic<bool> is_away = true;
  store("b").probe().set_plan(
      [&](std::string_view) { return is_away ? testing::Fault::before : testing::Fault::none; });
  note_stores();
  const auto ending = start();
  for (const char* name : {"a", "b"}) enqueue(name, "m");
  auto waits = std::async(std::launch::async, [&] { return dispatcher_->wait_until_idle(); });
  ASSERT_TRUE(wait_for_handled(1));
  ASSERT_TRUE(store("b").probe().wait_for_calls("claim", 1));
  is_away = false;
  EXPECT_TRUE(
      holds_in_time([&] { return waits.wait_for(Duration{0}) == std::future_status::ready; }));
  EXPECT_TRUE(waits.get());
  EXPECT_EQ(status("b", "m"), Status::done);
}

TEST_F(SetDispatcherTest, NothingIsLostOrHandledTwiceWhileStoresComeAndGo) {
  RecordProperty("requirement", "IBX-095,IBX-096,IBX-106");
  constexpr int kStores = 12;
  constexpr int kMessages = 60;
  std::vector<StoreLocation> all;
  for (int i = 0; i < kStores; ++i) {
    all.push_back({"s" + std::to_string(i), "db://" + std::to_string(i % 3)});
  }
  list(all);
  // Held, so that those that are listed again later are the same ones.
  std::vector<MemberStorePtr> members = stores_.members();
  std::mutex mutex;
  std::map<std::string, int> times;
  handlers_.on("*", [&](const ClaimedMessage& claimed, HandlerContext& context) {
    const std::lock_guard lock(mutex);
    ++times[std::string(context.store()) + claimed.message.key.message_id.str()];
  });
  const auto ending =
      start({.dispatcher = {.workers = 4, .batch_size = 5, .max_buffered = 20}}, weighted_fair());
  for (int i = 0; i < kMessages; ++i) {
    for (const MemberStorePtr& member : members) {
      member->store().inbox().enqueue(
          {.key = {"shop", "m" + std::to_string(i)}, .topic = "order.created", .payload = "p"});
    }
    if (i == 20) list({all.begin(), all.begin() + 6});
  }
  // The first six are worked on to the end, the others until they left.
  const auto handled_of_first = [&] {
    const std::lock_guard lock(mutex);
    int count = 0;
    for (int s = 0; s < 6; ++s) {
      for (int m = 0; m < kMessages; ++m) {
        count += times.contains("s" + std::to_string(s) + "m" + std::to_string(m)) ? 1 : 0;
      }
    }
    return count;
  };
  EXPECT_TRUE(eventually([&] { return handled_of_first() == 6 * kMessages; }));
  EXPECT_TRUE(dispatcher_->stop().complete());
  const std::lock_guard lock(mutex);
  for (const auto& [message, count] : times) EXPECT_EQ(count, 1) << message;
  std::size_t done = 0;
  for (const MemberStorePtr& member : members) {
    const QueueStats stats = member->store().inbox_operator().stats();
    EXPECT_EQ(stats.total().leased, 0U);
    done += stats.total().done;
  }
  EXPECT_EQ(done, times.size());
}

}  // namespace
}  // namespace oncebox
