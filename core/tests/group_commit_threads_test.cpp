// When a group commit has threads, and when it has none.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "oncebox/group_commit.hpp"

namespace oncebox {
namespace {

class GroupCommitThreadsTest : public ::testing::Test {
 protected:
  using Group = GroupCommit<int, int>;

  /// Answers ten times each item, and remembers it.
  [[nodiscard]] Group::Commit commit() {
    return [this](std::span<const int> items) {
      const std::lock_guard lock(mutex_);
      std::vector<int> outcomes;
      for (const int item : items) outcomes.push_back(10 * item);
      items_.insert(items_.end(), items.begin(), items.end());
      return outcomes;
    };
  }
  static GroupCommitOptions impatient(std::size_t committers) {
    return {.committers = committers, .idle_time = std::chrono::milliseconds{1}};
  }

  std::mutex mutex_;
  std::vector<int> items_;
};

TEST_F(GroupCommitThreadsTest, ThereAreNoneWhileThereIsNoWorkForThem) {
  const Group* known = nullptr;
  std::vector<std::size_t> threads;
  Group group(
      [&](std::span<const int> items) {
        threads.push_back(known->threads());
        return commit()(items);
      },
      impatient(4));
  known = &group;
  EXPECT_EQ(group.submit(1), 10);
  EXPECT_EQ(threads, std::vector<std::size_t>{0}) << "who waits commits by itself";
  for (int item = 2; item < 50; ++item) {
    EXPECT_EQ(group.submit_future(item).get(), 10 * item);
    EXPECT_EQ(threads.back(), 1U) << "nobody else was there to commit";
    while (group.threads() > 0) std::this_thread::yield();
  }
  EXPECT_EQ(items_.size(), 49U);
}

TEST_F(GroupCommitThreadsTest, ManyComeAndGoWithoutLosingAnItem) {
  constexpr int kCallers = 4;
  constexpr int kItems = 300;
  Group group(commit(), impatient(3));
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back([&, caller] {
        for (int i = 0; i < kItems; ++i) {
          const int item = caller * kItems + i;
          const int outcome = i % 2 == 0 ? group.submit(item) : group.submit_future(item).get();
          EXPECT_EQ(outcome, 10 * item);
        }
      });
    }
  }
  group.stop();
  std::ranges::sort(items_);
  ASSERT_EQ(items_.size(), static_cast<std::size_t>(kCallers * kItems));
  EXPECT_EQ(std::ranges::adjacent_find(items_), items_.end());
}

}  // namespace
}  // namespace oncebox
