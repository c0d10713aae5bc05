#include "oncebox/group_commit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include "expect_error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {
namespace {

using Batch = std::vector<int>;
using Group = GroupCommit<int, int>;
using Result = CommitResult<int>;

/// What the item is answered with when it was committed.
int outcome_of(int item) { return 10 * item; }

std::size_t index(int number) { return static_cast<std::size_t>(number); }

Batch numbers(int first, int last) {
  Batch batch(index(last - first + 1));
  std::iota(batch.begin(), batch.end(), first);
  return batch;
}

/// A store that keeps what is committed, and holds up commits while it is told to.
class Ledger {
 public:
  using Refusal = std::function<void(std::span<const int>)>;

  [[nodiscard]] Group::Commit commit() {
    return [this](std::span<const int> items) {
      {
        std::unique_lock lock(mutex_);
        ++started_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !held_; });
        if (refusal_) refusal_(items);
        committed_.emplace_back(items.begin(), items.end());
      }
      std::vector<int> outcomes;
      outcomes.reserve(items.size());
      for (const int item : items) outcomes.push_back(outcome_of(item));
      return outcomes;
    };
  }

  /// Commits begin, but none ends.
  void hold() { set(true); }
  void release() { set(false); }
  /// Called for each batch before it is committed, to throw.
  void refuse(Refusal refusal) {
    const std::lock_guard lock(mutex_);
    refusal_ = std::move(refusal);
  }

  /// Waits until so many commits have begun.
  void wait_for_commits(int commits) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return started_ >= commits; });
  }

  [[nodiscard]] int commits() const {
    const std::lock_guard lock(mutex_);
    return started_;
  }
  [[nodiscard]] std::vector<Batch> batches() const {
    const std::lock_guard lock(mutex_);
    return committed_;
  }
  [[nodiscard]] Batch items() const {
    Batch all;
    for (const Batch& batch : batches()) all.insert(all.end(), batch.begin(), batch.end());
    return all;
  }

 private:
  void set(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  int started_ = 0;
  Refusal refusal_;
  std::vector<Batch> committed_;
};

void wait_until_queued(const Group& group, std::size_t items) {
  while (group.queued() < items) std::this_thread::yield();
}

class GroupCommitTest : public ::testing::Test {
 protected:
  /// Holds up a commit of the item 0, so that what follows queues behind it.
  void submit_held(Group& group) {
    ledger_.hold();
    group.submit_then(0, [](const Result& result) { EXPECT_EQ(result.outcome(), outcome_of(0)); });
    ledger_.wait_for_commits(1);
  }

  static std::vector<std::future<int>> submit_each(Group& group, const Batch& items) {
    std::vector<std::future<int>> futures;
    futures.reserve(items.size());
    for (const int item : items) futures.push_back(group.submit_future(item));
    return futures;
  }

  Ledger ledger_;
};

// Batches ---------------------------------------------------------------------------------------

TEST_F(GroupCommitTest, LoneCallerIsCommittedAtOnce) {
  Group group(ledger_.commit());
  EXPECT_EQ(group.submit(1), outcome_of(1));
  EXPECT_EQ(group.submit(2), outcome_of(2));
  EXPECT_EQ(ledger_.batches(), (std::vector<Batch>{{1}, {2}}));
  EXPECT_EQ(group.queued(), 0U);
}

TEST_F(GroupCommitTest, CallerThatWaitsCommitsByItselfWhenNobodyElseDoes) {
  std::thread::id committed_by;
  Group group([&](std::span<const int> items) {
    committed_by = std::this_thread::get_id();
    return std::vector<int>(items.size());
  });
  group.submit(1);
  EXPECT_EQ(committed_by, std::this_thread::get_id());
}

TEST_F(GroupCommitTest, StopWaitsForACallerThatCommitsAndForWhatQueuesBehindIt) {
  Group group(ledger_.commit());
  ledger_.hold();
  const std::jthread caller([&] { EXPECT_EQ(group.submit(0), outcome_of(0)); });
  ledger_.wait_for_commits(1);
  auto others = submit_each(group, numbers(1, 3));
  EXPECT_EQ(group.queued(), 3U) << "one commits at a time";
  {
    const std::jthread stopper([&] {
      group.stop();
      EXPECT_EQ(ledger_.batches(), (std::vector<Batch>{{0}, {1, 2, 3}}));
    });
    ledger_.release();
  }
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(others[index(i - 1)].get(), outcome_of(i));
}

TEST_F(GroupCommitTest, WhatQueuesDuringACommitIsTheNextBatchInOrder) {
  Group group(ledger_.commit());
  submit_held(group);
  auto others = submit_each(group, numbers(1, 100));
  EXPECT_EQ(group.queued(), 100U);
  EXPECT_EQ(ledger_.commits(), 1);
  ledger_.release();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(others[index(i)].get(), outcome_of(i + 1));
  }
  EXPECT_EQ(ledger_.batches(), (std::vector<Batch>{{0}, numbers(1, 100)}));
}

TEST_F(GroupCommitTest, BlockingCallersShareABatchAndEachGetsItsOwnOutcome) {
  Group group(ledger_.commit());
  submit_held(group);
  std::vector<std::jthread> callers;
  callers.reserve(8);
  std::array<std::atomic<int>, 8> outcomes{};
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, i] { outcomes[index(i)] = group.submit(i + 1); });
  }
  wait_until_queued(group, 8);
  ledger_.release();
  callers.clear();
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(outcomes[index(i)], outcome_of(i + 1));
  }
  auto batches = ledger_.batches();
  ASSERT_EQ(batches.size(), 2U);
  std::sort(batches[1].begin(), batches[1].end());
  EXPECT_EQ(batches[1], numbers(1, 8));
}

TEST_F(GroupCommitTest, ItemsSubmittedTogetherJoinTheGroupAndAreAnsweredInOrder) {
  Group group(ledger_.commit());
  submit_held(group);
  auto second = group.submit_future(1);
  std::vector<Result> results;
  std::jthread caller([&] { results = group.submit_all(numbers(2, 11)); });
  wait_until_queued(group, 11);
  ledger_.release();
  caller.join();
  EXPECT_EQ(second.get(), outcome_of(1));
  ASSERT_EQ(results.size(), 10U);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(results[index(i)].outcome(), outcome_of(i + 2));
  }
  EXPECT_EQ(ledger_.batches(), (std::vector<Batch>{{0}, numbers(1, 11)}));
}

TEST_F(GroupCommitTest, SubmittingNothingIsANoOp) {
  Group group(ledger_.commit());
  EXPECT_TRUE(group.submit_all({}).empty());
  EXPECT_EQ(ledger_.commits(), 0);
}

TEST_F(GroupCommitTest, NoBatchHasMoreItemsThanAllowed) {
  Group group(ledger_.commit(), {.max_batch = 4});
  submit_held(group);
  auto others = submit_each(group, numbers(1, 10));
  ledger_.release();
  group.stop();
  EXPECT_EQ(ledger_.batches(), (std::vector<Batch>{{0}, {1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10}}));
}

TEST_F(GroupCommitTest, NoBatchHasMoreBytesThanAllowedButALargeItemGoesAlone) {
  const auto size_in_bytes = [](int item) { return static_cast<std::size_t>(item); };
  Group group(ledger_.commit(), {.max_batch_bytes = 10}, size_in_bytes);
  submit_held(group);
  auto others = submit_each(group, {5, 5, 1, 25, 3, 7});
  ledger_.release();
  group.stop();
  EXPECT_EQ(ledger_.batches(), (std::vector<Batch>{{0}, {5, 5}, {1}, {25}, {3, 7}}));
}

TEST_F(GroupCommitTest, ItemsNeedNotBeCopyable) {
  using Pointer = std::unique_ptr<int>;
  GroupCommit<Pointer, int> group([](std::span<const Pointer> items) {
    std::vector<int> outcomes;
    outcomes.reserve(items.size());
    for (const Pointer& item : items) outcomes.push_back(outcome_of(*item));
    return outcomes;
  });
  EXPECT_EQ(group.submit(std::make_unique<int>(1)), outcome_of(1));
  std::vector<Pointer> several;
  several.push_back(std::make_unique<int>(2));
  EXPECT_EQ(group.submit_all(std::move(several)).at(0).outcome(), outcome_of(2));
  EXPECT_EQ(group.submit_future(std::make_unique<int>(3)).get(), outcome_of(3));
}

TEST_F(GroupCommitTest, CommittersCommitAtTheSameTime) {
  std::latch both_at_work(2);
  Group group(
      [&](std::span<const int> items) {
        both_at_work.arrive_and_wait();
        return std::vector<int>(items.size(), 1);
      },
      {.max_batch = 1, .committers = 2});
  auto futures = submit_each(group, {1, 2});
  EXPECT_EQ(futures[0].get(), 1);
  EXPECT_EQ(futures[1].get(), 1);
}

TEST_F(GroupCommitTest, ItemsSubmittedTogetherWakeAllCommittersTheyNeed) {
  std::latch all_at_work(4);
  Group group(
      [&](std::span<const int> items) {
        all_at_work.arrive_and_wait();
        return std::vector<int>(items.size(), 1);
      },
      {.max_batch = 2, .committers = 4});
  EXPECT_EQ(group.submit_all(numbers(1, 8)).size(), 8U);
}

// Callbacks -------------------------------------------------------------------------------------

TEST_F(GroupCommitTest, CallbackRunsOnTheCommittingThreadWithTheResult) {
  std::thread::id committing;
  std::thread::id calling;
  std::optional<Result> answered;
  Group group([&](std::span<const int> items) {
    committing = std::this_thread::get_id();
    return std::vector<int>(items.size(), 7);
  });
  group.submit_then(1, [&](Result result) {
    calling = std::this_thread::get_id();
    answered = std::move(result);
  });
  group.stop();
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->outcome(), 7);
  EXPECT_EQ(calling, committing);
  EXPECT_NE(calling, std::this_thread::get_id());
}

TEST_F(GroupCommitTest, CallbackGetsTheErrorAsAValue) {
  ledger_.refuse([](auto) { throw Error(ErrorCode::unavailable, "gone"); });
  Group group(ledger_.commit());
  std::optional<Result> answered;
  group.submit_then(1, [&](Result result) { answered = std::move(result); });
  group.stop();
  ASSERT_TRUE(answered);
  ASSERT_NE(answered->error(), nullptr);
  EXPECT_EQ(answered->error()->code(), ErrorCode::unavailable);
  expect_error(ErrorCode::unavailable, [&] { (void)answered->outcome(); });
}

TEST_F(GroupCommitTest, ThrowingCallbackHarmsNobodyElse) {
  Group group(ledger_.commit());
  submit_held(group);
  group.submit_then(1, [](const Result&) { throw std::runtime_error("careless"); });
  auto neighbour = group.submit_future(2);
  ledger_.release();
  EXPECT_EQ(neighbour.get(), outcome_of(2));
  EXPECT_EQ(group.submit(3), outcome_of(3));
}

TEST_F(GroupCommitTest, CallbackMaySubmitTheNextItem) {
  std::promise<int> second;  // outlives the call that fulfils it
  Group group(ledger_.commit());
  group.submit_then(1, [&](Result result) {
    group.submit_then(std::move(result).outcome(),
                      [&](Result next) { second.set_value(std::move(next).outcome()); });
  });
  EXPECT_EQ(second.get_future().get(), outcome_of(outcome_of(1)));
}

TEST_F(GroupCommitTest, CallbackRunsOutsideTheLockOfTheQueue) {
  std::promise<std::size_t> queued;
  Group group(ledger_.commit());
  group.submit_then(1, [&](const Result&) { queued.set_value(group.queued()); });
  EXPECT_EQ(queued.get_future().get(), 0U);
}

// Failures --------------------------------------------------------------------------------------

class GuiltyItems : public GroupCommitTest {
 protected:
  /// Commits 0 to 99 as {0} and {1 … 99}, where those in `guilty` cannot be committed, and answers
  /// the codes of those that failed.
  std::map<int, ErrorCode> commit_with(const std::set<int>& guilty,
                                       const std::function<void()>& fail) {
    ledger_.refuse([&](std::span<const int> items) {
      for (const int item : items) {
        if (guilty.contains(item)) fail();
      }
    });
    Group group(ledger_.commit());
    submit_held(group);
    std::map<int, ErrorCode> failed;
    for (const int item : numbers(1, 99)) {
      group.submit_then(item, [&failed, item](const Result& result) {
        if (result.ok()) {
          EXPECT_EQ(result.outcome(), outcome_of(item));
        } else {
          failed.emplace(item, result.error()->code());
        }
      });
    }
    ledger_.release();
    group.stop();
    return failed;
  }

  [[nodiscard]] static Batch all_but(const std::set<int>& guilty) {
    Batch rest;
    for (const int item : numbers(0, 99)) {
      if (!guilty.contains(item)) rest.push_back(item);
    }
    return rest;
  }
};

TEST_F(GuiltyItems, OnlyTheGuiltyItemFailsAndTheOthersKeepTheirOrder) {
  const auto failed =
      commit_with({42}, [] { throw Error(ErrorCode::invalid_argument, "payload too large"); });
  EXPECT_EQ(failed, (std::map<int, ErrorCode>{{42, ErrorCode::invalid_argument}}));
  EXPECT_EQ(ledger_.items(), all_but({42}));
  // The first one, the whole batch, and two halves for each of seven halvings.
  EXPECT_LE(ledger_.commits(), 2 + 2 * 7);
}

TEST_F(GuiltyItems, SeveralAreFoundInOneBatch) {
  const std::set<int> guilty{1, 50, 51, 99};
  const auto failed = commit_with(guilty, [] { throw Error(ErrorCode::out_of_range, "due time"); });
  EXPECT_EQ(failed.size(), guilty.size());
  for (const auto& [item, code] : failed) {
    EXPECT_TRUE(guilty.contains(item)) << item;
    EXPECT_EQ(code, ErrorCode::out_of_range);
  }
  EXPECT_EQ(ledger_.items(), all_but(guilty));
}

TEST_F(GuiltyItems, ForeignExceptionConcernsOneItemAndBecomesInternal) {
  EXPECT_EQ(commit_with({7}, [] { throw std::length_error("odd"); }),
            (std::map<int, ErrorCode>{{7, ErrorCode::internal}}));
  EXPECT_EQ(ledger_.items(), all_but({7}));
}

TEST_F(GuiltyItems, WhatIsNoExceptionClassIsSurvivedToo) {
  EXPECT_EQ(commit_with({7}, [] { throw 7; }),
            (std::map<int, ErrorCode>{{7, ErrorCode::internal}}));
}

TEST_F(GuiltyItems, ErrorOfTheBackendIsGivenToTheWholeBatchAtOnce) {
  for (const ErrorCode code : {ErrorCode::unavailable, ErrorCode::timeout, ErrorCode::overloaded,
                               ErrorCode::outcome_unknown}) {
    SCOPED_TRACE(to_string(code));
    const int commits_before = ledger_.commits();
    ledger_.refuse([&](std::span<const int>) { throw Error(code, "the backend's trouble"); });
    Group group(ledger_.commit());
    const auto results = group.submit_all(numbers(1, 10));
    EXPECT_TRUE(std::all_of(results.begin(), results.end(), [&](const Result& result) {
      return !result.ok() && result.error()->code() == code &&
             std::string(result.error()->what()) == "the backend's trouble";
    }));
    EXPECT_EQ(ledger_.commits() - commits_before, 1);
  }
  EXPECT_TRUE(ledger_.items().empty());
}

TEST_F(GuiltyItems, BackendThatGoesAwayWhileABatchIsSplitFailsOnlyWhatWasNotCommitted) {
  ledger_.refuse([calls = 0](std::span<const int>) mutable {
    ++calls;
    if (calls == 1) throw Error(ErrorCode::invalid_argument, "somebody is guilty");
    if (calls == 3) throw Error(ErrorCode::outcome_unknown, "answer lost");
  });
  Group group(ledger_.commit());
  const auto results = group.submit_all({1, 2, 3, 4});
  EXPECT_EQ(results[0].outcome(), outcome_of(1));
  EXPECT_EQ(results[1].outcome(), outcome_of(2));
  EXPECT_EQ(results[2].error()->code(), ErrorCode::outcome_unknown);
  EXPECT_EQ(results[3].error()->code(), ErrorCode::outcome_unknown);
}

TEST_F(GuiltyItems, BlockingCallerGetsItsErrorThrown) {
  ledger_.refuse([](auto) { throw Error(ErrorCode::invalid_argument, "payload too large"); });
  Group group(ledger_.commit());
  EXPECT_EQ(expect_error(ErrorCode::invalid_argument, [&] { group.submit(1); }),
            "payload too large");
  ledger_.refuse({});
  EXPECT_EQ(group.submit(1), outcome_of(1));
}

TEST_F(GuiltyItems, FutureGetsItsError) {
  ledger_.refuse([](auto) { throw Error(ErrorCode::invalid_argument, "payload too large"); });
  Group group(ledger_.commit());
  auto future = group.submit_future(1);
  group.stop();
  EXPECT_EQ(expect_error(ErrorCode::invalid_argument, [&] { future.get(); }), "payload too large");
}

TEST_F(GuiltyItems, WrongNumberOfOutcomesIsADefectAndNotRepeated) {
  std::atomic<int> commits = 0;
  Group group([&](std::span<const int>) {
    ++commits;
    return std::vector<int>{1, 2};
  });
  for (const Result& result : group.submit_all({1, 2, 3})) {
    ASSERT_NE(result.error(), nullptr);
    EXPECT_EQ(result.error()->code(), ErrorCode::internal);
  }
  EXPECT_EQ(commits, 1);
}

// Back-pressure ---------------------------------------------------------------------------------

TEST_F(GroupCommitTest, FullQueueRefusesAtOnceAndSaysWhatToDo) {
  Group group(ledger_.commit(), {.max_queued = 3});
  submit_held(group);
  auto others = submit_each(group, {1, 2, 3});
  const std::string text = expect_error(ErrorCode::overloaded, [&] { group.submit(4); });
  EXPECT_NE(text.find("try again later, or raise max_queued"), std::string::npos) << text;
  expect_error(ErrorCode::overloaded, [&] { (void)group.submit_future(5); });
  bool called = false;
  expect_error(ErrorCode::overloaded,
               [&] { group.submit_then(6, [&](const Result&) { called = true; }); });
  EXPECT_EQ(group.queued(), 3U);
  ledger_.release();
  EXPECT_EQ(others[2].get(), outcome_of(3));
  EXPECT_EQ(group.submit(7), outcome_of(7));
  group.stop();
  EXPECT_FALSE(called);
  EXPECT_EQ(ledger_.items(), (Batch{0, 1, 2, 3, 7}));
}

TEST_F(GroupCommitTest, ItemsSubmittedTogetherAreTakenAllOrNone) {
  Group group(ledger_.commit(), {.max_queued = 3});
  submit_held(group);
  auto second = group.submit_future(1);
  expect_error(ErrorCode::overloaded, [&] { group.submit_all({2, 3, 4}); });
  EXPECT_EQ(group.queued(), 1U);
  ledger_.release();
  expect_error(ErrorCode::out_of_range, [&] { group.submit_all({2, 3, 4, 5}); });
  EXPECT_EQ(second.get(), outcome_of(1));
  EXPECT_EQ(group.submit_all({2, 3, 4}).size(), 3U);
  EXPECT_EQ(ledger_.items(), numbers(0, 4));
}

TEST_F(GroupCommitTest, QueueIsBoundedInBytesButTakesALargeItemWhenItIsEmpty) {
  const auto size_in_bytes = [](int item) { return static_cast<std::size_t>(item); };
  Group group(ledger_.commit(), {.max_queued_bytes = 10}, size_in_bytes);
  submit_held(group);
  auto large = group.submit_future(25);
  expect_error(ErrorCode::overloaded, [&] { group.submit(1); });
  ledger_.release();
  EXPECT_EQ(large.get(), outcome_of(25));
  EXPECT_EQ(group.submit(10), outcome_of(10));
}

TEST_F(GroupCommitTest, OptionsOutOfRangeAreRefused) {
  const auto make = [&](const GroupCommitOptions& options) { Group(ledger_.commit(), options); };
  make({.max_batch = limits::kMaxBatchItems, .committers = 64});
  for (const GroupCommitOptions& options :
       std::initializer_list<GroupCommitOptions>{{.max_batch = 0},
                                                 {.max_batch = limits::kMaxBatchItems + 1},
                                                 {.max_batch_bytes = 0},
                                                 {.max_queued = 0},
                                                 {.max_queued_bytes = 0},
                                                 {.committers = 0},
                                                 {.committers = 65}}) {
    expect_error(ErrorCode::out_of_range, [&] { make(options); });
  }
}

// Shutdown --------------------------------------------------------------------------------------

TEST_F(GroupCommitTest, StopCommitsAndAnswersAllThatIsQueued) {
  Group group(ledger_.commit(), {.max_batch = 10});
  submit_held(group);
  auto others = submit_each(group, numbers(1, 50));
  std::jthread stopper([&] { group.stop(); });
  while (true) {  // until the stop has begun
    try {
      others.push_back(group.submit_future(static_cast<int>(others.size()) + 1));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unavailable);
      break;
    }
    std::this_thread::yield();
  }
  ledger_.release();
  stopper.join();
  const int last = static_cast<int>(others.size());
  for (int i = 1; i <= last; ++i) {
    EXPECT_EQ(others[index(i - 1)].get(), outcome_of(i));
  }
  EXPECT_EQ(ledger_.items(), numbers(0, last));
}

TEST_F(GroupCommitTest, NothingIsAcceptedAfterStop) {
  Group group(ledger_.commit());
  group.stop();
  group.stop();
  expect_error(ErrorCode::unavailable, [&] { group.submit(1); });
  expect_error(ErrorCode::unavailable, [&] { group.submit_all({1, 2}); });
  expect_error(ErrorCode::unavailable, [&] { (void)group.submit_future(1); });
  expect_error(ErrorCode::unavailable, [&] { group.submit_then(1, [](const Result&) {}); });
  EXPECT_EQ(ledger_.commits(), 0);
}

TEST_F(GroupCommitTest, DestructorAnswersWhatIsQueued) {
  std::vector<std::future<int>> futures;
  {
    Group group(ledger_.commit(), {.max_batch = 3});
    submit_held(group);
    futures = submit_each(group, numbers(1, 10));
    ledger_.release();
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(futures[index(i)].get(), outcome_of(i + 1));
}

/// Submits in every way from many threads while the group is stopped, and counts the answers.
class StopRace {
 public:
  static constexpr int kThreads = 8;
  static constexpr int kItemsPerThread = 400;

  explicit StopRace(Group& group) : group_(group) {}

  void run() {
    std::latch begin(kThreads + 2);
    std::vector<std::jthread> threads;
    threads.reserve(kThreads + 2);
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        begin.arrive_and_wait();
        submit_until_stopped(thread * kItemsPerThread);
      });
    }
    for (int stopper = 0; stopper < 2; ++stopper) {
      threads.emplace_back([&] {
        begin.arrive_and_wait();
        while (answered_ < kItemsPerThread) std::this_thread::yield();
        group_.stop();
      });
    }
  }

  /// Of every item: how often it was answered.
  [[nodiscard]] int answers(int item) const { return answers_[index(item)]; }
  [[nodiscard]] bool refused(int item) const { return refused_[index(item)]; }

 private:
  void submit_until_stopped(int first) {
    std::vector<std::pair<int, std::future<int>>> futures;
    for (int item = first; item < first + kItemsPerThread; item += 2) {
      try {
        submit_pair(item, futures);
      } catch (const Error& error) {
        EXPECT_EQ(to_string(error.code()), to_string(ErrorCode::unavailable));
        refused_[index(item + 1)] = true;
      }
    }
    for (auto& [item, future] : futures) count(item, future.get());
  }

  /// Two items, in a way that depends on their number. When this throws, the second was refused,
  /// and the first one too unless it was answered.
  void submit_pair(int item, std::vector<std::pair<int, std::future<int>>>& futures) {
    switch (item / 2 % 4) {
      case 0:
        count(item, group_.submit(item));
        count(item + 1, group_.submit(item + 1));
        break;
      case 1:
        futures.emplace_back(item, group_.submit_future(item));
        futures.emplace_back(item + 1, group_.submit_future(item + 1));
        break;
      case 2:
        for (const int each : {item, item + 1}) {
          group_.submit_then(each,
                             [this, each](const Result& result) { count(each, result.outcome()); });
        }
        break;
      default:
        for (Result& result : group_.submit_all({item, item + 1})) {
          const int outcome = std::move(result).outcome();
          count(outcome / 10, outcome);
        }
    }
  }

  void count(int item, int outcome) {
    EXPECT_EQ(outcome, outcome_of(item));
    ++answers_[index(item)];
    ++answered_;
  }

  Group& group_;
  std::atomic<int> answered_ = 0;
  std::array<std::atomic<int>, kThreads * kItemsPerThread> answers_{};
  std::array<std::atomic<bool>, kThreads * kItemsPerThread> refused_{};
};

TEST_F(GroupCommitTest, EachAcceptedItemIsCommittedAndAnsweredOnceWhileStopRaces) {
  for (const std::size_t committers : {1U, 3U}) {
    SCOPED_TRACE(committers);
    Ledger ledger;
    Group group(ledger.commit(), {.max_batch = 16, .committers = committers});
    StopRace race(group);
    race.run();

    std::map<int, int> committed;
    for (const int item : ledger.items()) ++committed[item];
    for (int item = 0; item < StopRace::kThreads * StopRace::kItemsPerThread; ++item) {
      EXPECT_LE(committed[item], 1) << item;
      EXPECT_EQ(race.answers(item), committed[item]) << item;
      if (race.refused(item)) {
        EXPECT_EQ(committed[item], 0) << item;
      }
    }
    EXPECT_GE(committed.size(), 1U);
  }
}

TEST_F(GroupCommitTest, ManyBlockingCallersAndCommittersLoseNothing) {
  constexpr int kThreads = 16;
  constexpr int kItemsPerThread = 200;
  Group group(ledger_.commit(), {.max_batch = 5, .committers = 4});
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kItemsPerThread; ++i) {
          const int item = thread * kItemsPerThread + i;
          EXPECT_EQ(group.submit(item), outcome_of(item));
        }
      });
    }
  }
  Batch items = ledger_.items();
  std::sort(items.begin(), items.end());
  EXPECT_EQ(items, numbers(0, kThreads * kItemsPerThread - 1));
}

}  // namespace
}  // namespace oncebox
