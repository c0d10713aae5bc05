// One dispatcher over stores on several database servers, which hang, come and go.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "set_dispatcher_fixture.hpp"

namespace oncebox {
namespace {

TEST_F(SetDispatcherTest, RoundRobinGoesOnOnEachServerWhateverOthersChoose) {
  RecordProperty("requirement", "IBX-087");
  const std::vector<std::string> names{"a1", "a2", "a3", "a4"};
  std::vector<StoreLocation> all{{"z", "db://two/z"}};
  for (const std::string& name : names) all.push_back({name, "db://one/" + name});
  list(all);
  enqueue_many("z", 40);
  for (const std::string& name : names) enqueue_many(name, 3);
  // The servers choose by turns: each claim ends when the other server has chosen again.
  struct Choices {
    std::vector<std::string> of_one = {};
    std::size_t of_two = 0;
  };
  Watched<Choices> made;
  constexpr std::size_t kTurns = 8;
  const auto has_ended = [](const Choices& choices) { return choices.of_one.size() > kTurns; };
  store("z").probe().set_plan([&](std::string_view call) {
    if (call != "claim") return testing::Fault::none;
    std::size_t turn = 0;
    made.change([&](Choices& choices) { turn = ++choices.of_two; });
    EXPECT_TRUE(made.wait([&](const Choices& choices) {
      return choices.of_one.size() > turn || has_ended(choices);
    }));
    return testing::Fault::none;
  });
  for (const std::string& name : names) {
    store(name).probe().set_plan([&, name](std::string_view call) {
      if (call != "claim") return testing::Fault::none;
      std::size_t turn = 0;
      made.change([&](Choices& choices) {
        choices.of_one.push_back(name);
        turn = choices.of_one.size();
      });
      EXPECT_TRUE(made.wait(
          [&](const Choices& choices) { return choices.of_two >= turn || has_ended(choices); }));
      return testing::Fault::none;
    });
  }
  note_stores();
  const auto ending = start(
      {.dispatcher = {.workers = 1, .batch_size = 1, .max_buffered = 100}, .calls_per_server = 1});
  ASSERT_TRUE(made.wait(has_ended));
  std::vector<std::string> chosen = made.get().of_one;
  chosen.resize(kTurns);
  EXPECT_EQ(chosen, (std::vector<std::string>{"a1", "a2", "a3", "a4", "a1", "a2", "a3", "a4"}));
  ASSERT_TRUE(wait_for_handled(52));
}

TEST_F(SetDispatcherTest, DrainFirstWaitsForAClaimOnItsOwnServerOnly) {
  RecordProperty("requirement", "IBX-088");
  list({{"a", "db://one/a"}});
  store("a").probe().set_plan([&](std::string_view call) {
    if (call == "claim") gate_.pass();
    return testing::Fault::none;
  });
  note_stores();
  const auto ending = start({}, drain_first());
  ASSERT_TRUE(store("a").probe().wait_for_calls("claim", 1));
  list({{"a", "db://one/a"}, {"b", "db://two/b"}});
  enqueue_many("b", 3);
  ASSERT_TRUE(wait_for_handled(3));
  EXPECT_EQ(handled(), "bbb");
}

TEST_F(SetDispatcherTest, AServerThatHangsHoldsUpNoOther) {
  list({{"a", "db://one/a"}, {"b", "db://two/b"}});
  store("a").probe().set_plan([&](std::string_view) {
    gate_.pass();
    return testing::Fault::none;
  });
  note_stores();
  const auto ending = start({.calls_per_server = 1});
  ASSERT_TRUE(eventually([&] { return store("a").probe().calls() > 0; }));
  enqueue_many("b", 3);
  ASSERT_TRUE(wait_for_handled(3));
  gate_.open();
}

TEST_F(SetDispatcherTest, StoresThatHangLeaveThreadsForTheOthersOfTheirServer) {
  list({{"a", "db://one/a"}, {"b", "db://one/b"}, {"c", "db://one/c"}, {"d", "db://one/d"}});
  std::atomic<bool> fails = true;
  Watched<int> is_hanging;
  for (const char* name : {"a", "b", "c"}) {
    store(name).probe().set_plan([&](std::string_view) {
      if (fails) return testing::Fault::before;
      is_hanging.change([](int& calls) { ++calls; });
      gate_.pass();
      return testing::Fault::none;
    });
  }
  note_stores();
  const auto ending = start({.calls_per_server = 4});
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(
        logger_.wait_for(std::string("warning claim failed, will be tried again store=") + name));
  }
  fails = false;
  dispatcher_->wake();
  const auto hang = [&] { return is_hanging.get() == 2; };
  ASSERT_TRUE(eventually(hang));
  enqueue_many("d", 3);
  ASSERT_TRUE(wait_for_handled(3));
  EXPECT_TRUE(hang());
  gate_.open();
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST_F(SetDispatcherTest, ThreadsComeWithTheCallsOfAServerAndGoAfterThem) {
  RecordProperty("requirement", "IBX-096");
  std::vector<StoreLocation> all;
  for (int i = 0; i < 10; ++i) {
    all.push_back({"s" + std::to_string(i), "db://" + std::to_string(i) + "/s"});
  }
  list(all);
  Watched<int> is_hanging;
  for (const StoreLocation& location : all) {
    store(location.name).probe().set_plan([&](std::string_view) {
      is_hanging.change([](int& calls) { ++calls; });
      gate_.pass();
      return testing::Fault::none;
    });
  }
  note_stores();
  const std::ptrdiff_t before = threads_of_this_process();
  const auto ending = start({.dispatcher = {.workers = 2}, .calls_per_server = 4});
  ASSERT_TRUE(is_hanging.wait([](int calls) { return calls >= 10; }));
  EXPECT_GE(threads_of_this_process(), before + 2 + 10);
  gate_.open();
  list({{"s0", "db://0/s"}});
  EXPECT_TRUE(eventually([&] {
    clock_.advance(std::chrono::seconds{10});
    return threads_of_this_process() <= before + 2 + 1;
  }));
  // A server that comes back is worked on again.
  list(all);
  for (const StoreLocation& location : all) enqueue(location.name, "m1");
  EXPECT_TRUE(wait_for_handled(10));
}

TEST_F(SetDispatcherTest, AStoreThatCannotBeWorkedOnIsTriedAgain) {
  list({{"a", "1"}, {"b", "2"}});
  std::atomic<bool> is_refused = true;
  note_stores();
  enqueue("a", "m1");
  enqueue("b", "m1");
  dispatcher_ = std::make_unique<SetDispatcher>(
      stores_, handlers_, round_robin(), SetDispatcherOptions{},
      SurroundingsOfStores{.logger = logger_,
                           .observers = [&](const std::string& store) -> Observer& {
                             if (is_refused && store == "a") {
                               throw Error(ErrorCode::internal, "no memory today");
                             }
                             return observer_;
                           },
                           .clock = clock_});
  const Ending ending(*this);
  dispatcher_->start();
  ASSERT_TRUE(logger_.wait_for(
      "error no message is claimed from the store; it will be tried again store=a"));
  ASSERT_TRUE(wait_for_handled(1));
  EXPECT_EQ(handled(), "b");
  is_refused = false;
  EXPECT_TRUE(holds_in_time([&] { return handled() == "ba"; }));
}

TEST_F(SetDispatcherTest, MayBePausedAndWokenBeforeItIsStarted) {
  list({{"a", "1"}});
  note_stores();
  enqueue("a", "m1");
  dispatcher_ =
      std::make_unique<SetDispatcher>(stores_, handlers_, round_robin(), SetDispatcherOptions{},
                                      SurroundingsOfStores{.logger = logger_, .clock = clock_});
  const Ending ending(*this);
  dispatcher_->pause();
  dispatcher_->wake();
  dispatcher_->resume();
  dispatcher_->start();
  EXPECT_TRUE(wait_for_handled(1));
}

TEST_F(SetDispatcherTest, AStoreThatThrowsWhatIsNoExceptionIsAskedAgain) {
  list({{"a", "1"}});
  std::atomic<bool> is_broken = true;
  store("a").probe().set_plan([&](std::string_view call) {
    if (is_broken && call == "claim") throw 42;
    return testing::Fault::none;
  });
  enqueue("a", "m1");
  note_stores();
  const auto ending = start();
  ASSERT_TRUE(logger_.wait_for("warning claim failed, will be tried again store=a"));
  is_broken = false;
  EXPECT_TRUE(holds_in_time([&] { return handled() == "a"; }));
}

TEST_F(SetDispatcherTest, AStoreThatCannotBeWorkedOnMayLeave) {
  list({{"a", "1"}});
  dispatcher_ = std::make_unique<SetDispatcher>(
      stores_, handlers_, round_robin(), SetDispatcherOptions{},
      SurroundingsOfStores{.logger = logger_,
                           .observers = [&](const std::string&) -> Observer& { throw 42; },
                           .clock = clock_});
  const Ending ending(*this);
  dispatcher_->start();
  ASSERT_TRUE(logger_.wait_for(
      "error no message is claimed from the store; it will be tried again store=a"));
  list({});
  EXPECT_TRUE(closed_.wait([](const auto& urls) { return urls.contains("1"); }));
}

}  // namespace
}  // namespace oncebox
