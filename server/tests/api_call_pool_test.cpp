#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "api/call_pool.hpp"
#include "api/timers.hpp"
#include "api_fixture.hpp"
#include "faulty_store.hpp"
#include "oncebox/error.hpp"
#include "oncebox/testing/manual_clock.hpp"

namespace oncebox::server {

namespace {

/// A request of one caller, who has a share of the places.
const Request kRequest{.path = "/", .peer = "192.0.2.1"};

Request request_with(const std::string& token) {
  Request request = kRequest;
  request.principal.name = token;
  return request;
}

TEST(CallPoolTest, RunsCallsInTheirOrder) {
  std::vector<int> order;
  CallPool pool(1, 200);
  for (int i = 0; i < 50; ++i) pool.submit(kRequest, [&order, i] { order.push_back(i); });
  pool.stop();
  ASSERT_EQ(order.size(), 50U);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(CallPoolTest, RefusesMoreThanItsBoundButNotTheServersOwnWork) {
  std::promise<void> open;
  std::promise<void> running;
  CallPool pool(1, 4);  // of which two are kept for stores where no call waits
  pool.submit(kRequest, [&, gate = open.get_future().share()] {
    running.set_value();
    gate.wait();
  });
  running.get_future().wait();
  std::atomic<int> ran = 0;
  pool.submit(request_with("a"), [&] { ++ran; });
  pool.submit(request_with("b"), [&] { ++ran; });
  try {
    pool.submit(request_with("c"), [&] { ++ran; });
    ADD_FAILURE() << "the third waiting call was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::overloaded);
    EXPECT_NE(std::string_view(error.what()).find("server.max_queued_calls"), std::string::npos);
  }
  pool.submit_own([&] { ++ran; });
  open.set_value();
  pool.stop();
  EXPECT_EQ(ran, 3);
}

TEST(CallPoolTest, RunsWhatWaitsWhenItStopsAndTakesNothingAfter) {
  std::atomic<int> ran = 0;
  CallPool pool(2, 2'000);
  for (int i = 0; i < 500; ++i) pool.submit(kRequest, [&] { ++ran; });
  pool.stop();
  pool.stop();
  EXPECT_EQ(ran, 500);
  EXPECT_THROW(pool.submit(kRequest, [&] { ++ran; }), Error);
  pool.submit_own([&] { ++ran; });
  EXPECT_EQ(ran, 500);
}

TEST(CallPoolTest, DropsWhatWaitsWhenItIsToldTo) {
  std::promise<void> open;
  std::promise<void> running;
  std::promise<void> ended;
  CallPool pool(1, 100);
  pool.submit(kRequest, [&, gate = open.get_future().share()] {
    running.set_value();
    gate.wait();
    ended.set_value();
  });
  running.get_future().wait();
  // More than could be dropped one within the other.
  constexpr int kCalls = 200'000;
  std::atomic<int> ran = 0;
  const auto owned = std::make_shared<int>();
  for (int i = 0; i < kCalls; ++i) pool.submit_own([&ran, owned] { ++ran; });
  EXPECT_EQ(owned.use_count(), kCalls + 1);
  pool.discard();
  EXPECT_EQ(owned.use_count(), 1) << "whoever waits for a dropped call is told by its end";
  try {
    pool.submit(kRequest, [&] { ++ran; });
    ADD_FAILURE() << "a call was taken after the end";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
  }
  pool.submit_own([&] { ++ran; });
  open.set_value();
  pool.stop();
  EXPECT_EQ(ended.get_future().wait_for(Duration{0}), std::future_status::ready)
      << "the call that ran was waited for";
  EXPECT_EQ(ran, 0);
}

TEST(CallPoolTest, AnswersWithWhatACallReturnsOrThrows) {
  CallPool pool(1, 10);
  const auto good = std::make_shared<TestExchange>(Request{.path = "/"});
  const auto bad = std::make_shared<TestExchange>(Request{.path = "/"});
  pool.answer(good, [](const Request& request) { return json_response(request.path); });
  pool.answer(bad, [](const Request&) -> Response { throw Error(ErrorCode::timeout, "late"); });
  EXPECT_EQ(good->wait().body, "/");
  EXPECT_EQ(bad->wait().status, 504);
}

/// Holds up calls until it is opened, and counts them.
class Holdup {
 public:
  /// A call that waits.
  [[nodiscard]] auto call() {
    return [this] {
      std::unique_lock lock(mutex_);
      ++running_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
    };
  }
  /// Has this caller make calls that wait until one is refused; how many were taken.
  int submit_until_refused(CallLane& lane, const std::string& token) {
    int taken = 0;
    try {
      for (;; ++taken) lane.submit(request_with(token), call());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::overloaded);
    }
    return taken;
  }
  void wait_for(int running) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return running_ >= running; }));
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] int running() {
    const std::lock_guard lock(mutex_);
    return running_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;
  bool open_ = false;
};

TEST(CallLaneTest, AStoreThatHangsLeavesThreadsForOthersOfItsServerAndThoseForOtherServers) {
  Holdup holdup;
  CallPool pool(16, 1'000);
  CallLane hanging(pool, "db://one");
  for (int i = 0; i < 40; ++i) hanging.submit(kRequest, holdup.call());
  holdup.wait_for(14);
  // Others of the same server hang, too.
  CallLane second(pool, "db://one");
  CallLane third(pool, "db://one");
  CallLane fourth(pool, "db://one");
  for (CallLane* lane : {&second, &third, &fourth}) lane->submit(kRequest, holdup.call());
  holdup.wait_for(16);
  // And another server has to have its turn.
  std::promise<void> answered;
  CallLane good(pool, "db://two");
  good.submit(kRequest, [&] { answered.set_value(); });
  EXPECT_EQ(answered.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(holdup.running(), 16);
  holdup.open();
  pool.stop();
  EXPECT_EQ(holdup.running(), 43) << "nothing was forgotten";
}

TEST(CallLaneTest, DatabaseServersThatHangTakeNothingFromTheOthers) {
  Holdup holdup;
  Holdup parallel;
  CallPool pool(4, 10'000);
  std::vector<CallLane> hanging;
  for (int i = 0; i < 20; ++i) {
    CallLane& lane = hanging.emplace_back(pool, "db://" + std::to_string(i));
    for (int call = 0; call < 10; ++call) lane.submit(kRequest, holdup.call());
  }
  holdup.wait_for(20 * 3);
  // Of another all that it may have run at the same time.
  CallLane good(pool, "db://good");
  CallLane second(pool, "db://good");
  for (int call = 0; call < 3; ++call) good.submit(kRequest, parallel.call());
  parallel.wait_for(3);
  second.submit(kRequest, parallel.call());
  parallel.wait_for(4);
  EXPECT_EQ(holdup.running(), 20 * 3);
  parallel.open();
  holdup.open();
  pool.stop();
  EXPECT_EQ(holdup.running(), 20 * 10) << "nothing was forgotten";
}

TEST(CallLaneTest, TheLastThreadsAreForServersThatHaveNoCallUnderWay) {
  Holdup holdup;
  CallPool pool(8, 10'000);
  EXPECT_EQ(pool.threads_at_most(), 256U);
  std::vector<CallLane> hanging;
  for (int i = 0; i < 40; ++i) {
    CallLane& lane = hanging.emplace_back(pool, "db://" + std::to_string(i));
    for (int call = 0; call < 10; ++call) lane.submit(kRequest, holdup.call());
  }
  holdup.wait_for(192);
  std::promise<void> answered;
  CallLane good(pool, "db://good");
  good.submit(kRequest, [&] { answered.set_value(); });
  EXPECT_EQ(answered.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_LE(holdup.running(), 192 + 40);
  EXPECT_LE(pool.threads(), pool.threads_at_most());
  holdup.open();
  pool.stop();
  EXPECT_EQ(holdup.running(), 40 * 10);
}

TEST(CallPoolTest, ThreadsStartWhenTheyAreNeededAndEndWhenTheyHaveRested) {
  std::list<Holdup> holdups;  // the last thread may still be in one when the next round begins
  CallPool pool(8, 100, Duration{1});
  EXPECT_EQ(pool.threads(), 1U);
  for (int round = 0; round < 3; ++round) {
    Holdup& holdup = holdups.emplace_back();
    std::vector<CallLane> lanes;
    for (int i = 0; i < 8; ++i) {
      lanes.emplace_back(pool, "db://one").submit(kRequest, holdup.call());
    }
    holdup.wait_for(8);
    EXPECT_GE(pool.threads(), 8U);
    holdup.open();
    EXPECT_TRUE(eventually([&] { return pool.threads() == 1; })) << round;
  }
}

TEST(CallPoolTest, CallsThatComeWhileThreadsStartAndEndAreAllRun) {
  CallPool pool(4, 100'000, Duration{1});
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&pool, caller] {
      CallLane lane(pool, "db://" + std::to_string(caller % 2));
      std::atomic<int> ran = 0;
      for (int i = 1; i <= 2'000; ++i) {
        lane.submit(kRequest, [&] { ++ran; });
        // Now and then the threads have nothing to do.
        EXPECT_TRUE(i % 100 != 0 || eventually([&] { return ran == i; }));
      }
    });
  }
}

TEST(CallLaneTest, OneCallerLeavesPlacesForOthersOfItsStore) {
  RecordProperty("requirement", "R-38");
  Holdup holdup;
  CallPool pool(2, 9);
  CallLane hanging(pool, "db://one");
  hanging.submit(kRequest, holdup.call());
  holdup.wait_for(1);
  EXPECT_EQ(holdup.submit_until_refused(hanging, "greedy"), 3);
  EXPECT_NO_THROW(hanging.submit(request_with("modest"), holdup.call()));
  EXPECT_NO_THROW(hanging.submit(request_with("another"), holdup.call()));
  holdup.open();
}

TEST(CallLaneTest, WhatWaitsForAStoreThatHangsLeavesPlacesForOthers) {
  Holdup holdup;
  CallPool pool(2, 9);
  CallLane hanging(pool, "db://one");
  hanging.submit(kRequest, holdup.call());
  holdup.wait_for(1);
  int taken = 0;
  for (const char* token : {"greedy", "second", "third", "fourth"}) {
    taken += holdup.submit_until_refused(hanging, token);
  }
  EXPECT_EQ(taken, 5);
  std::promise<void> answered;
  CallLane good(pool, "db://two");
  good.submit(request_with("greedy"), [&] { answered.set_value(); });
  EXPECT_EQ(answered.get_future().wait_for(kPatience), std::future_status::ready);
  holdup.open();
}

TEST(CallLaneTest, WorkOfTheServersOwnTakesNoPlaceFromClients) {
  Holdup holdup;
  CallPool pool(2, 9);
  CallLane hanging(pool, "db://one");
  CallLane second(pool, "db://one");
  hanging.submit(kRequest, holdup.call());
  second.submit(kRequest, holdup.call());
  holdup.wait_for(2);
  for (const char* token : {"a", "b", "c"}) holdup.submit_until_refused(hanging, token);
  CallLane good(pool, "db://one");
  good.submit_own([] {});
  std::promise<void> answered;
  EXPECT_NO_THROW(good.submit(kRequest, [&] { answered.set_value(); }));
  holdup.open();
  EXPECT_EQ(answered.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(CallLaneTest, LanesTakeTurns) {
  std::promise<void> open;
  std::promise<void> running;
  std::string order;
  CallPool pool(1, 100);
  CallLane first(pool, "db://one");
  first.submit(kRequest, [&, gate = open.get_future().share()] {
    running.set_value();
    gate.wait();
  });
  running.get_future().wait();
  CallLane a(pool, "db://one");
  CallLane b(pool, "db://one");
  for (int i = 0; i < 3; ++i) a.submit(kRequest, [&] { order += 'a'; });
  for (int i = 0; i < 2; ++i) b.submit(kRequest, [&] { order += 'b'; });
  open.set_value();
  pool.stop();
  EXPECT_EQ(order, "ababa");
}

TEST(CallPoolOfTheApi, ATenantThatHangsIsRefusedAndTheOthersAreAnswered) {
  const SystemClock clock;
  StuckStore stuck(clock);
  memory::MemoryStore good(clock);
  ServerOptions options = quiet_options();
  options.call_threads = 4;
  options.max_queued_calls = 8;
  ApiUnderTest under_test(options, {{"good", good}, {"bad", stuck.store()}}, clock);
  std::vector<std::shared_ptr<TestExchange>> hanging;
  Response refused;
  while (refused.status != 503) {
    const auto exchange = under_test.begin(get("/v1/stores/bad/messages/s/m"));
    if (exchange->answered()) {
      refused = exchange->wait();
    } else {
      hanging.push_back(exchange);
    }
  }
  EXPECT_EQ(problem_code(refused), "overloaded");
  EXPECT_NE(problem_detail(refused).find("server.max_queued_calls"), std::string::npos)
      << problem_detail(refused);
  EXPECT_TRUE(refused.fields.get("Retry-After"));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(under_test.call(get("/v1/messages/s/m")).status, 404) << i;
  }
  EXPECT_EQ(under_test.call(post("/v1/messages/claim", "{}")).status, 200);
  stuck.let_go();
  for (const auto& exchange : hanging) EXPECT_EQ(exchange->wait().status, 404);
}

TEST(CallPoolOfTheApi, OneTokenDoesNotTakeThePlacesOfTheOthers) {
  RecordProperty("requirement", "R-38");
  const SystemClock clock;
  StuckStore stuck(clock);
  ServerOptions options = quiet_options();
  options.call_threads = 1;
  options.max_queued_calls = 9;
  ApiUnderTest under_test(options, {{"main", stuck.store()}}, clock);
  const auto look = [&](const std::string& token) {
    TestCall call = get("/v1/messages/s/m");
    call.principal = token;
    return under_test.begin(call);
  };
  const auto running = look("greedy");
  stuck.wait_for_first_look();
  std::vector<std::shared_ptr<TestExchange>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(look("greedy"));
  EXPECT_EQ(look("greedy")->wait().status, 503);
  for (const char* token : {"modest", "another"}) waiting.push_back(look(token));
  for (const auto& exchange : waiting) EXPECT_FALSE(exchange->answered());
  stuck.let_go();
  EXPECT_EQ(running->wait().status, 404);
  for (const auto& exchange : waiting) EXPECT_EQ(exchange->wait().status, 404);
}

TEST(CallPoolOfTheApi, ThreeDatabaseServersThatHangHoldUpNoOther) {
  const SystemClock clock;
  std::map<std::string, StuckStore> stuck;
  memory::MemoryStore good(clock);
  std::vector<StoreLocation> locations{{"good", "db://good/x"}};
  for (const std::string name : {"one", "two", "three"}) {
    stuck.try_emplace(name, clock);
    locations.push_back({name, "db://" + name + "/x"});
  }
  NullLogger logger;
  StoreSet stores(locations,
                  [&](const StoreLocation& location) {
                    const auto found = stuck.find(location.name);
                    return std::make_unique<ForwardingStore>(
                        found == stuck.end() ? good : found->second.store());
                  },
                  {}, {.logger = logger});
  ServerOptions options = quiet_options();
  options.default_store = "good";
  ApiUnderTest under_test(options, stores, clock);
  std::vector<std::shared_ptr<TestExchange>> hanging;
  for (const auto& [name, store] : stuck) {
    for (int i = 0; i < 10; ++i) {
      hanging.push_back(under_test.begin(get("/v1/stores/" + name + "/messages/s/m")));
    }
    store.wait_for_first_look();
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(under_test.call(get("/v1/messages/s/m")).status, 404) << i;
    EXPECT_EQ(under_test.call(post("/v1/messages/claim", "{}")).status, 200) << i;
  }
  for (const auto& exchange : hanging) EXPECT_FALSE(exchange->answered());
  for (auto& [name, store] : stuck) store.let_go();
  for (const auto& exchange : hanging) EXPECT_EQ(exchange->wait().status, 404);
}

TEST(CallPoolOfTheApi, WhatWaitsForAStoreThatHangsDoesNotHoldUpTheEnd) {
  const SystemClock clock;
  StuckStore stuck(clock);
  ServerOptions options = quiet_options();
  options.call_threads = 1;
  ApiUnderTest under_test(options, {{"main", stuck.store()}}, clock);
  const auto running = under_test.begin(get("/v1/messages/s/m"));
  stuck.wait_for_first_look();
  auto looking = under_test.begin(get("/v1/messages/s/m"));
  auto sending = under_test.begin(
      post("/v1/messages", R"([{"source":"s","messageId":"m","topic":"t","payload":""}])"));
  under_test.api().drain();
  EXPECT_FALSE(looking->answered());
  EXPECT_FALSE(sending->answered());

  const std::vector<std::weak_ptr<TestExchange>> waiting = {looking->weak_from_this(),
                                                            sending->weak_from_this()};
  looking.reset();
  sending.reset();
  EXPECT_FALSE(waiting[0].expired()) << "their calls own them";
  EXPECT_FALSE(waiting[1].expired()) << "their calls own them";
  std::jthread ending([&] { under_test.destroy(); });
  // While the store hangs.
  EXPECT_TRUE(eventually([&] { return waiting[0].expired() && waiting[1].expired(); }));
  EXPECT_FALSE(running->answered());
  stuck.let_go();
  ending.join();
  EXPECT_EQ(running->wait().status, 404) << "it had begun, and nothing that it used was gone";
  EXPECT_EQ(stuck.looks(), 1);
  EXPECT_EQ(stuck.store().inbox().find(MessageKey{"s", "m"}), std::nullopt);
}

TEST(TimersTest, CallBackInTheOrderOfTheirTimes) {
  testing::ManualClock clock;
  std::vector<int> order;
  std::promise<void> last;
  Timers timers(clock);
  const Timers::Timer third = timers.add([&] {
    order.push_back(3);
    last.set_value();
  });
  const Timers::Timer first = timers.add([&] { order.push_back(1); });
  const Timers::Timer second = timers.add([&] { order.push_back(2); });
  third.want_at(clock.steady() + Duration{30});
  first.want_at(clock.steady() + Duration{10});
  second.want_at(clock.steady() + Duration{20});
  clock.advance(Duration{30});
  last.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(TimersTest, OneThatIsCancelledDoesNotCallBack) {
  testing::ManualClock clock;
  std::promise<void> later;
  bool called = false;
  Timers timers(clock);
  const Timers::Timer timer = timers.add([&] { called = true; });
  const Timers::Timer next = timers.add([&] { later.set_value(); });
  timer.want_at(clock.steady() + Duration{1});
  next.want_at(clock.steady() + Duration{2});
  timer.unwant();
  clock.advance(Duration{2});
  later.get_future().wait();
  EXPECT_FALSE(called);
}

TEST(TimersTest, AfterAStopNoneCallsBack) {
  testing::ManualClock clock;
  bool called = false;
  Timers timers(clock);
  const Timers::Timer timer = timers.add([&] { called = true; });
  timer.want_at(clock.steady() + Duration{1});
  timers.stop();
  clock.advance(Duration{2});
  timer.want();
  EXPECT_FALSE(called);
}

TEST(TimersTest, OneThatThrowsCallsBackAgain) {
  testing::ManualClock clock;
  std::promise<void> thrown;
  std::promise<void> again;
  int calls = 0;
  Timers timers(clock);
  const Timers::Timer timer = timers.add([&] {
    if (++calls == 1) {
      thrown.set_value();
      throw std::bad_alloc();
    }
    again.set_value();
  });
  timer.want();
  thrown.get_future().wait();
  const auto repeated = again.get_future();
  while (repeated.wait_for(std::chrono::seconds{0}) != std::future_status::ready) {
    clock.advance(std::chrono::seconds{1});
    std::this_thread::yield();
  }
  EXPECT_EQ(calls, 2);
}

}  // namespace

}  // namespace oncebox::server
