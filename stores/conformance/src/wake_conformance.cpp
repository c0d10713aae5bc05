// When to look for work again: the next due time, the word that a commit brought work, and how much
// a claim brings into memory.

#include <condition_variable>
#include <mutex>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

namespace {

/// Remembers that it was told.
class Listener final : public WorkListener {
 public:
  void on_work() noexcept override {
    const std::lock_guard lock(mutex_);
    told_ = true;
    changed_.notify_all();
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    told_ = false;
  }

  /// Whether it was told since the last call, now or soon.
  [[nodiscard]] bool was_told() {
    constexpr auto kSoon = 60s;  // only a failing test waits as long
    std::unique_lock lock(mutex_);
    const bool told = changed_.wait_for(lock, kSoon, [this] { return told_; });
    told_ = false;
    return told;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool told_ = false;
};

}  // namespace

class WakeConformance : public StoreConformance {
 protected:
  std::shared_ptr<Listener> listen_to(QueueStore& queue) {
    auto listener = std::make_shared<Listener>();
    queue.listen(listener);
    return listener;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, WakeConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(WakeConformance, NothingIsDueInAnEmptyQueueOrOneWhereAllIsReadyOrFinished) {
  proves("IBX-124");
  EXPECT_EQ(at(queue().next_due()), at(std::nullopt));
  put(Situation::done, "done");
  put(Situation::dead, "dead");
  put(Situation::seen, "seen");
  put(Situation::marked_processing, "marked");
  put(Situation::ready, "ready");
  EXPECT_EQ(at(queue().next_due()), at(std::nullopt));
}

TEST_P(WakeConformance, NextDueIsTheEarliestOfDueTimesBackoffsAndLeases) {
  proves("IBX-124", "IBX-023", "IBX-042");
  enqueue(message("later", {.due_at = now() + 1h}));
  EXPECT_EQ(at(queue().next_due()), at(now() + 1h));
  enqueue(message("held"));
  claim_one(alice, 10min);
  EXPECT_EQ(at(queue().next_due()), at(now() + 10min));
  enqueue(message("failed", {.priority = 5}));
  settle(claim_one(), Abandon{.delay = 1min});
  EXPECT_EQ(at(queue().next_due()), at(now() + 1min));
  enqueue(message("soon", {.topic = "stock.low", .due_at = now() + 1ms}));
  EXPECT_EQ(at(queue().next_due()), at(now() + 1ms));
}

TEST_P(WakeConformance, WhatHasBecomeDueIsNoLongerAhead) {
  proves("IBX-124");
  enqueue(message("a", {.due_at = now() + 1s}));
  enqueue(message("b", {.due_at = now() + 2s}));
  advance(1s);
  EXPECT_EQ(at(queue().next_due()), at(now() + 1s));
  advance(1s);
  EXPECT_EQ(at(queue().next_due()), at(std::nullopt));
}

TEST_P(WakeConformance, NextDueLooksAtTheTopicsAskedFor) {
  proves("IBX-124", "R-20");
  enqueue(message("a", {.topic = "stock.low", .due_at = now() + 1s}));
  enqueue(message("b", {.topic = "order.paid", .due_at = now() + 5s}));
  EXPECT_EQ(at(queue().next_due({.only = {"order.*"}})), at(now() + 5s));
  EXPECT_EQ(at(queue().next_due({.except = {"stock.*"}})), at(now() + 5s));
  EXPECT_EQ(at(queue().next_due({.only = {"user"}})), at(std::nullopt));
}

TEST_P(WakeConformance, LapsedLeaseOfAMessageThatIsNotYetDueWaitsForItsDueTime) {
  proves("IBX-124", "R-08");
  enqueue(message("a"));
  claim_one(alice, 10s);
  enqueue(message("a", {.due_at = now() + 1h}));
  advance(20s);
  EXPECT_EQ(at(queue().next_due()), at(now() + 1h - 20s));
}

TEST_P(WakeConformance, ListenerIsToldOfEverythingThatBringsWork) {
  proves("IBX-124");
  if (!store().capabilities().notifies) return;
  const auto listener = listen_to(queue());
  enqueue(message("a"));
  EXPECT_TRUE(listener->was_told()) << "of a new message";
  settle(claim_one(), Release{});
  EXPECT_TRUE(listener->was_told()) << "of a released one";
  settle(claim_one(), Abandon{.delay = 1s});
  EXPECT_TRUE(listener->was_told()) << "of one that will be due";
  advance(1s);
  settle(claim_one(), Fail{"broken"});
  listener->forget();
  queue_operator().revive(std::vector{key("a")});
  EXPECT_TRUE(listener->was_told()) << "of a revived one";
  claim_one(alice, 10s);
  advance(10s);
  queue().reap();
  EXPECT_TRUE(listener->was_told()) << "of a lapsed lease";
}

TEST_P(WakeConformance, ListenerIsToldWhenTheNextOfAPartitionIsFreed) {
  proves("R-29");
  if (!store().capabilities().notifies) return;
  enqueue(message("a", {.partition = "p"}));
  enqueue(message("b", {.partition = "p"}));
  const ClaimedMessage first = claim_one();
  const auto listener = listen_to(queue());
  settle(first);
  EXPECT_TRUE(listener->was_told());
}

TEST_P(WakeConformance, ListenerHearsOfWorkThatCameThroughAnotherHandle) {
  proves("IBX-105", "IBX-124");
  if (!store().capabilities().notifies) return;
  const auto listener = listen_to(queue());
  const std::shared_ptr<Store> other = open();
  queue_of(*other).enqueue(message("a"));
  EXPECT_TRUE(listener->was_told());
}

TEST_P(WakeConformance, ListenerThatIsGoneIsNotTold) {
  proves("IBX-124");
  std::weak_ptr<Listener> gone = listen_to(queue());
  EXPECT_TRUE(gone.expired()) << "a store does not keep listeners alive";
  enqueue(message("a"));
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(WakeConformance, ClaimEndsBeforeItsPayloadsGetTooLarge) {
  proves("IBX-039");
  for (const char* id : {"a", "b", "c", "d"}) {
    enqueue(message(id, {.payload = std::string(100, 'x')}));
  }
  const auto claim_bytes = [&](std::size_t bytes) {
    return ids_of(claim({.owner = alice, .max_bytes = bytes}));
  };
  EXPECT_EQ(claim_bytes(299), (Ids{"a", "b"}));
  EXPECT_EQ(claim_bytes(1), Ids{"c"}) << "the first one whatever its size";
  EXPECT_EQ(claim_bytes(100), Ids{"d"});
}

TEST_P(WakeConformance, HeadersCountInTheBytesOfAClaim) {
  proves("IBX-039");
  // 100 bytes each; some a store may write down in more.
  const Headers plain{{"a", ""}, {"name", std::string(40, 'x')}, {"note", std::string(51, '-')}};
  const Headers escaped{{"name", std::string(40, 'x')}, {"note", std::string(51, '"') + "\n"}};
  const auto bare = [&](const char* id) {
    return message(id, {.payload = "", .headers = *id % 2 == 0 ? plain : escaped});
  };
  const auto claim_bytes = [&](std::size_t bytes) {
    return claim({.owner = alice, .max_bytes = bytes});
  };
  queue().enqueue(std::vector<Message>{bare("a"), bare("b"), bare("c")});
  for (const char* id : {"d", "e", "f"}) enqueue(bare(id));
  for (const std::string_view when : {"first", "again"}) {
    SCOPED_TRACE(when);
    std::vector<ClaimedMessage> claimed = claim_bytes(299);
    EXPECT_EQ(ids_of(claimed), (Ids{"a", "b"}));
    const auto claim_more = [&](std::size_t bytes) {
      const std::vector<ClaimedMessage> more = claim_bytes(bytes);
      claimed.insert(claimed.end(), more.begin(), more.end());
      return ids_of(more);
    };
    EXPECT_EQ(claim_more(1), Ids{"c"}) << "the first one whatever its size";
    EXPECT_EQ(claim_more(200), (Ids{"d", "e"}));
    EXPECT_EQ(claim_more(100), Ids{"f"});
    for (const ClaimedMessage& one : claimed) settle(one, Release{});
  }
}

TEST_P(WakeConformance, HeadersCountAfterTheContentHasChanged) {
  proves("IBX-039");
  const auto large = [&](const char* id) {
    return message(id, {.payload = "x", .headers = {{"name", std::string(1'000, 'x')}}});
  };
  enqueue_ids({"a", "b", "c"});
  enqueue(large("b"));
  EXPECT_EQ(ids_of(claim({.owner = alice, .max_bytes = 1'000})), Ids{"a"});
  EXPECT_EQ(ids_of(claim({.owner = alice, .max_bytes = 1'000})), Ids{"b"});
  EXPECT_EQ(ids_of(claim({.owner = alice, .max_bytes = 1'000})), Ids{"c"});
}

TEST_P(WakeConformance, LargeMessageIsNotPassedBySmallerOnesBehindIt) {
  proves("R-17", "IBX-039");
  enqueue(message("small", {.payload = "x"}));
  enqueue(message("large", {.payload = std::string(1'000, 'x')}));
  enqueue(message("tiny", {.payload = "x"}));
  const ClaimRequest request{.owner = alice, .max_bytes = 10};
  EXPECT_EQ(ids_of(claim(request)), Ids{"small"});
  EXPECT_EQ(ids_of(claim(request)), Ids{"large"});
  EXPECT_EQ(ids_of(claim(request)), Ids{"tiny"});
}

TEST_P(WakeConformance, ClaimTellsSinceWhenAMessageCouldBeClaimed) {
  proves("MSG-09", "R-17");
  enqueue(message("now"));
  enqueue(message("due", {.due_at = now() + 5s}));
  const TimePoint start = now();
  advance(7s);
  const std::vector<ClaimedMessage> claimed = claim(2);
  ASSERT_EQ(claimed.size(), 2U);
  EXPECT_EQ(at(claimed[0].eligible_at), at(start));
  EXPECT_EQ(at(claimed[1].eligible_at), at(start + 5s));
}

}  // namespace oncebox::conformance
