// Callers of a group commit that do not wait for ever.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "expect_error.hpp"
#include "oncebox/driver/call_scope.hpp"
#include "oncebox/group_commit.hpp"

namespace oncebox {
namespace {

using namespace std::chrono_literals;

class GroupCommitLimitsTest : public ::testing::Test {
 protected:
  using Group = GroupCommit<int, int>;
  using Result = CommitResult<int>;

  ~GroupCommitLimitsTest() override { release(); }

  /// Answers ten times each item; no commit of a committer ends while it is held.
  [[nodiscard]] Group::Commit commit() {
    return [this](std::span<const int> items) {
      const bool leads = std::this_thread::get_id() == test_thread_;
      std::unique_lock lock(mutex_);
      ++began_;
      limited_ = CallScope::current().is_limited();
      changed_.notify_all();
      if (!leads) changed_.wait(lock, [this] { return ended_ < may_end_; });
      ++ended_;
      CallScope::current().throw_if_over();
      std::vector<int> outcomes;
      for (const int item : items) {
        committed_.insert(item);
        outcomes.push_back(10 * item);
      }
      return outcomes;
    };
  }

  /// A batch with the item 0 is under way, and does not end.
  void hold(Group& group) {
    may_end_ = 0;
    group.submit_then(0, [](const Result& result) { EXPECT_TRUE(result.ok()); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return began_ > 0; });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    may_end_ = kAll;
    changed_.notify_all();
  }
  /// The batch that is held ends, and the next one begins and does not end.
  void let_one_end() {
    std::unique_lock lock(mutex_);
    ++may_end_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return began_ > may_end_; });
  }
  [[nodiscard]] std::set<int> committed() {
    const std::lock_guard lock(mutex_);
    return committed_;
  }

  const std::thread::id test_thread_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  static constexpr int kAll = 1'000'000;
  int may_end_ = kAll;  ///< so many batches may
  int ended_ = 0;
  int began_ = 0;
  bool limited_ = false;
  std::set<int> committed_;
};

TEST_F(GroupCommitLimitsTest, AnItemThatStillWaitsIsWithdrawnAtTheDeadline) {
  RecordProperty("requirement", "R-36");
  Group group(commit());
  hold(group);
  expect_error(ErrorCode::timeout, [&] { group.submit(1, CallOptions::within(1ms)); });
  EXPECT_EQ(group.queued(), 0U);
  release();
  group.stop();
  EXPECT_EQ(committed(), std::set{0});
}

TEST_F(GroupCommitLimitsTest, AnItemThatStillWaitsIsWithdrawnByAStop) {
  RecordProperty("requirement", "R-36");
  Group group(commit());
  hold(group);
  std::stop_source stop;
  const std::jthread stopper([&] {
    while (group.queued() == 0) std::this_thread::yield();
    stop.request_stop();
  });
  expect_error(ErrorCode::cancelled, [&] { group.submit(1, {.stop = stop.get_token()}); });
  release();
  group.stop();
  EXPECT_EQ(committed(), std::set{0});
}

TEST_F(GroupCommitLimitsTest, AWithdrawnItemMakesRoomAndLeavesTheOthersInTheirOrder) {
  RecordProperty("requirement", "R-36");
  Group group(commit(), {.max_queued = 3});
  hold(group);
  auto first = group.submit_future(1);
  std::stop_source stop;
  std::jthread withdrawn([&] {
    expect_error(ErrorCode::cancelled, [&] { group.submit(2, {.stop = stop.get_token()}); });
  });
  while (group.queued() < 2) std::this_thread::yield();
  auto last = group.submit_future(3);
  expect_error(ErrorCode::overloaded, [&] { (void)group.submit_future(4); });
  stop.request_stop();
  withdrawn.join();
  auto next = group.submit_future(5);
  release();
  EXPECT_EQ(first.get(), 10);
  EXPECT_EQ(last.get(), 30);
  EXPECT_EQ(next.get(), 50);
  EXPECT_EQ(committed(), (std::set{0, 1, 3, 5}));
}

TEST_F(GroupCommitLimitsTest, OfABatchThatIsUnderWayTheOutcomeIsUnknown) {
  RecordProperty("requirement", "R-36");
  Group group(commit());
  hold(group);
  std::stop_source stop;
  std::jthread caller([&] {
    expect_error(ErrorCode::outcome_unknown, [&] { group.submit(1, {.stop = stop.get_token()}); });
  });
  while (group.queued() == 0) std::this_thread::yield();
  let_one_end();
  stop.request_stop();
  caller.join();
  release();
  group.stop();
  EXPECT_EQ(committed(), (std::set{0, 1})) << "nobody waited for it, but it was committed";
}

TEST_F(GroupCommitLimitsTest, WhoCommitsByItselfDoesSoUnderItsLimits) {
  RecordProperty("requirement", "R-36");
  Group group(commit());
  EXPECT_EQ(group.submit(1, CallOptions::within(1h)), 10);
  EXPECT_TRUE(limited_);
  expect_error(ErrorCode::timeout, [&] { group.submit(2, CallOptions::within(0ms)); });
  EXPECT_EQ(committed(), std::set{1});
}

TEST_F(GroupCommitLimitsTest, WhatIsCommittedForOthersHasNoLimits) {
  RecordProperty("requirement", "R-36");
  Group group(commit());
  hold(group);
  std::jthread caller([&] { EXPECT_EQ(group.submit(1, CallOptions::within(1h)), 10); });
  while (group.queued() == 0) std::this_thread::yield();
  release();
  caller.join();
  EXPECT_FALSE(limited_);
}

TEST_F(GroupCommitLimitsTest, OfSeveralItemsEachIsToldWhatBecameOfIt) {
  RecordProperty("requirement", "R-36");
  Group group(commit(), {.max_batch = 2});
  hold(group);
  std::stop_source stop;
  std::vector<Result> results;
  std::jthread caller(
      [&] { results = group.submit_all({1, 2, 3, 4}, {.stop = stop.get_token()}); });
  while (group.queued() < 4) std::this_thread::yield();
  let_one_end();
  stop.request_stop();
  caller.join();
  release();
  group.stop();
  ASSERT_EQ(results.size(), 4U);
  for (const std::size_t place : {0U, 1U}) {
    ASSERT_FALSE(results[place].ok());
    EXPECT_EQ(results[place].error()->code(), ErrorCode::outcome_unknown);
  }
  for (const std::size_t place : {2U, 3U}) {
    ASSERT_FALSE(results[place].ok());
    EXPECT_EQ(results[place].error()->code(), ErrorCode::cancelled);
  }
  EXPECT_EQ(committed(), (std::set{0, 1, 2}));
}

TEST_F(GroupCommitLimitsTest, AFarLimitChangesNothing) {
  RecordProperty("requirement", "R-36");
  Group group(commit());
  const std::vector<Result> results = group.submit_all({1, 2, 3}, CallOptions::within(1h));
  ASSERT_EQ(results.size(), 3U);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].outcome(), 10 * static_cast<int>(i + 1));
  }
}

TEST_F(GroupCommitLimitsTest, AStopOfTheGroupDoesNotWaitForWhatWasWithdrawn) {
  RecordProperty("requirement", "R-36");
  Group group(commit());
  hold(group);
  std::stop_source stop;
  std::jthread caller([&] {
    expect_error(ErrorCode::cancelled, [&] { group.submit(1, {.stop = stop.get_token()}); });
  });
  while (group.queued() == 0) std::this_thread::yield();
  std::jthread stopper([&] { group.stop(); });
  stop.request_stop();
  caller.join();
  release();
  stopper.join();
  EXPECT_EQ(committed(), std::set{0});
}

// Each item is committed exactly when its caller was not told that nothing happened.
TEST_F(GroupCommitLimitsTest, WhatIsAnsweredIsTrueWhileLimitsRaceWithCommits) {
  RecordProperty("requirement", "R-36");
  constexpr int kThreads = 4;
  constexpr int kItems = 300;
  Group group(commit(), {.max_batch = 3, .committers = 2});
  std::array<std::array<ErrorCode, kItems>, kThreads> answers{};
  {
    std::vector<std::jthread> callers;
    for (int thread = 0; thread < kThreads; ++thread) {
      callers.emplace_back([&, thread] {
        for (int i = 0; i < kItems; ++i) {
          auto& answer =
              answers.at(static_cast<std::size_t>(thread)).at(static_cast<std::size_t>(i));
          answer = ErrorCode::internal;
          const SteadyTime deadline =
              SystemClock::shared().steady() + std::chrono::microseconds(10 + 3 * (i % 30));
          try {
            group.submit(1 + thread * kItems + i, {.deadline = deadline});
          } catch (const Error& error) {
            answer = error.code();
          }
        }
      });
    }
  }
  group.stop();
  const std::set<int> stored = committed();
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int i = 0; i < kItems; ++i) {
      const auto answer =
          answers.at(static_cast<std::size_t>(thread)).at(static_cast<std::size_t>(i));
      if (answer == ErrorCode::outcome_unknown) continue;
      const bool is_stored = stored.contains(1 + thread * kItems + i);
      EXPECT_EQ(is_stored, answer == ErrorCode::internal) << to_string(answer);
    }
  }
}

}  // namespace
}  // namespace oncebox
