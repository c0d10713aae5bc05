#include "oncebox/memory/memory_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <new>
#include <string>
#include <vector>

#include "failing_allocations.hpp"
#include "oncebox/error.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/worker.hpp"

namespace oncebox::memory {
namespace {

using std::chrono::seconds;

Message message(const std::string& id, std::string payload = "{}") {
  return {.key = {"shop", id}, .topic = "order.created", .payload = std::move(payload)};
}

template <class Call>
ErrorCode error_code_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "expected an oncebox::Error";
  return ErrorCode::internal;
}

TEST(MemoryBounds, TheMessageAfterTheLastIsRefusedAndTheWholeBatchWithIt) {
  const testing::FakeClock clock;
  MemoryStore store(clock, {.max_messages = 2});
  ASSERT_EQ(store.inbox().enqueue(message("1")).status, EnqueueStatus::accepted);
  const std::vector<Message> two_more{message("2"), message("3")};
  EXPECT_EQ(error_code_of([&] { store.inbox().enqueue(two_more); }), ErrorCode::overloaded);
  EXPECT_FALSE(store.inbox().find({"shop", "2"}));
  EXPECT_EQ(store.inbox().enqueue(message("2")).status, EnqueueStatus::accepted);
}

TEST(MemoryBounds, AFullStoreStillRecognisesDuplicates) {
  const testing::FakeClock clock;
  MemoryStore store(clock, {.max_messages = 1});
  store.inbox().enqueue(message("1"));
  EXPECT_EQ(store.inbox().enqueue(message("1")).status, EnqueueStatus::duplicate);
  EXPECT_EQ(store.inbox().observe({.key = {"shop", "1"}}).state, ObservedState::ready);
  EXPECT_EQ(error_code_of([&] { store.inbox().observe({.key = {"shop", "2"}}); }),
            ErrorCode::overloaded);
}

TEST(MemoryBounds, BytesAreBoundedAndGivenBackWhenMessagesAreRemoved) {
  testing::FakeClock clock;
  MemoryStore store(clock, {.max_bytes = 1'000});
  const OwnerToken owner = OwnerToken::generate();
  for (int round = 0; round < 5; ++round) {
    store.inbox().enqueue(message("big", std::string(900, 'x')));
    EXPECT_EQ(error_code_of([&] { store.inbox().enqueue(message("more", std::string(200, 'x'))); }),
              ErrorCode::overloaded);
    const auto claimed = store.inbox().claim({.owner = owner});
    ASSERT_EQ(claimed.size(), 1U);
    store.inbox().settle({.delivery = delivery_of(claimed[0]), .verdict = Ack{}});
    EXPECT_EQ(store.inbox_operator().cleanup({.done_retention = seconds{0}}).done_removed, 1U);
  }
}

TEST(MemoryBounds, AttemptsCountAsBytesUntilTheyAreDroppedOrTheirMessageIsRemoved) {
  testing::FakeClock clock;
  MemoryStore store(clock, {.max_bytes = 5'000, .kept_attempts = 2});
  const auto fail = [&] {
    const auto claimed = store.inbox().claim({.owner = OwnerToken::generate()});
    ASSERT_EQ(claimed.size(), 1U);
    const Abandon abandon{.error = std::string(2'000, 'x'), .delay = seconds{1}};
    store.inbox().settle({delivery_of(claimed.at(0)), abandon});
    clock.advance(seconds{1});
  };
  const auto try_to_enqueue = [&](std::size_t bytes) {
    store.inbox().enqueue(message("other", std::string(bytes, 'x')));
  };
  store.inbox().enqueue(message("1"));
  for (int i = 0; i < 3; ++i) fail();
  EXPECT_EQ(error_code_of([&] { try_to_enqueue(1'000); }), ErrorCode::overloaded);
  EXPECT_NO_THROW(try_to_enqueue(500)) << "only two of the three attempts count";
  const std::vector<MessageKey> keys{{"shop", "1"}, {"shop", "other"}};
  store.inbox_operator().act(keys, Delete{}, {});
  EXPECT_NO_THROW(try_to_enqueue(4'900)) << "everything was given back";
}

TEST(MemoryBounds, ContentOfTheSameSizeCanReplaceAnotherInAFullStore) {
  const testing::FakeClock clock;
  MemoryStore store(clock, {.max_bytes = 1'000});
  store.inbox().enqueue(message("big", std::string(900, 'x')));
  EXPECT_EQ(store.inbox().enqueue(message("big", std::string(900, 'y'))).status,
            EnqueueStatus::updated);
}

TEST(MemoryBounds, APayloadAboveTheLimitIsInvalid) {
  const testing::FakeClock clock;
  MemoryStore store(clock, {.max_payload_bytes = 10});
  EXPECT_EQ(store.capabilities().max_payload_bytes, 10U);
  EXPECT_EQ(store.inbox().enqueue(message("1", std::string(10, 'x'))).status,
            EnqueueStatus::accepted);
  EXPECT_EQ(error_code_of([&] { store.inbox().enqueue(message("2", std::string(11, 'x'))); }),
            ErrorCode::invalid_argument);
  EXPECT_FALSE(store.inbox().find({"shop", "2"}));
}

TEST(MemoryBounds, OfTooManyWorkersThoseThatHoldNothingAreForgotten) {
  testing::FakeClock clock;
  MemoryStore store(clock);
  const auto claim_as = [&](const std::string& worker) {
    (void)store.inbox().claim(
        {.owner = OwnerToken::generate(), .lease = std::chrono::hours{1}, .worker = worker});
  };
  const auto since = [&](const WorkerName& worker) {
    claim_as(worker.str());
    const std::vector<WorkerRecord> workers = store.inbox_operator().workers();
    return std::ranges::find(workers, worker, &WorkerRecord::name)->since;
  };
  store.inbox().enqueue(message("1"));
  const TimePoint begun = clock.now();
  claim_as("holder");
  claim_as("idle");
  for (int i = 0; i < 10'000; ++i) {
    clock.advance(Duration{1});
    claim_as("worker " + std::to_string(i));
  }
  EXPECT_EQ(since("holder"), begun);
  EXPECT_EQ(since("worker 9999"), clock.now());
  clock.advance(Duration{1});
  EXPECT_EQ(since("idle"), clock.now()) << "it is a new one";
}

TEST(MemoryBounds, TheKeyAfterTheLastIsRefusedUntilOneIsForgotten) {
  testing::FakeClock clock;
  MemoryStore store(clock, {.max_keys = 1});
  ASSERT_EQ(store.keys().begin({.key = "a", .retention = seconds{100}}).status,
            BeginStatus::acquired);
  EXPECT_EQ(error_code_of([&] { store.keys().begin({.key = "b"}); }), ErrorCode::overloaded);
  EXPECT_EQ(store.keys().begin({.key = "a"}).status, BeginStatus::busy);
  clock.advance(seconds{100});
  EXPECT_EQ(store.keys().begin({.key = "b"}).status, BeginStatus::acquired);
}

TEST(MemoryBounds, BytesOfKeysAndResultsAreBounded) {
  testing::FakeClock clock;
  MemoryStore store(clock, {.max_key_bytes = 100});
  store.keys().mark_processed("a");
  EXPECT_EQ(
      error_code_of([&] { store.keys().complete({.key = "b", .result = std::string(200, 'x')}); }),
      ErrorCode::overloaded);
  EXPECT_FALSE(store.keys().find("b"));
}

/// A store where workers have names that do not fit into a small string.
class MemoryWorkers : public ::testing::Test {
 protected:
  std::vector<ClaimedMessage> claim_as(const WorkerName& worker) {
    return store_.inbox().claim(
        {.owner = OwnerToken::generate(), .lease = seconds{1}, .worker = worker});
  }
  [[nodiscard]] MessageRecord record() { return store_.inbox().find({"shop", "1"}).value(); }

  const WorkerName holder_ = "the worker that holds a message";
  testing::FakeClock clock_;
  MemoryStore store_{clock_};
};

TEST_F(MemoryWorkers, ALeaseThatNobodyReapedStillNamesTheOneWhoHadIt) {
  store_.inbox().enqueue(message("1"));
  ASSERT_EQ(claim_as(holder_).size(), 1U);
  clock_.advance(2 * kWorkerRetention);
  store_.inbox_operator().cleanup({});
  EXPECT_TRUE(store_.inbox_operator().workers().empty()) << "its lease has lapsed";
  EXPECT_EQ(record().lease->worker, holder_);
}

TEST_F(MemoryWorkers, TheClaimThatForgetsIdleOnesKeepsTheNameOfAnAttemptThatItEnds) {
  store_.inbox().enqueue(message("1"));
  ASSERT_EQ(claim_as(holder_).size(), 1U);
  for (int i = 1; i < 10'000; ++i) {
    EXPECT_TRUE(claim_as("a worker that idles, number " + std::to_string(i)).empty());
  }
  clock_.advance(seconds{1});
  ASSERT_EQ(claim_as("one worker more than are remembered").size(), 1U);
  EXPECT_EQ(record().attempts.at(0).worker, holder_);
  EXPECT_EQ(store_.inbox_operator().workers().size(), 2U) << "the idle ones are forgotten";
}

/// How often a claim of fifty messages allocates memory, for a worker that is known already.
int allocations_of_claim(const WorkerName& worker) {
  constexpr std::size_t kMessages = 50;
  const testing::FakeClock clock;
  MemoryStore store(clock);
  for (std::size_t i = 0; i < kMessages; ++i) store.inbox().enqueue(message(std::to_string(i)));
  ClaimRequest request{.owner = OwnerToken::generate(), .limit = kMessages, .worker = worker};
  request.topics.only = {"none"};
  EXPECT_TRUE(store.inbox().claim(request).empty());
  request.topics.only.clear();
  for (int step = 0;; ++step) {
    std::vector<ClaimedMessage> claimed;
    try {
      const FailingAllocation failure(step);
      claimed = store.inbox().claim(request).messages;
    } catch (const std::bad_alloc&) {
      continue;
    }
    EXPECT_EQ(claimed.size(), kMessages);
    return step;
  }
}

TEST_F(MemoryWorkers, ALeaseCostsNoCopyOfTheName) {
  EXPECT_LE(allocations_of_claim(holder_), allocations_of_claim("w") + 1);
}

TEST(MemoryStore, RecognisesEveryKeyThatCannotBeAcquiredWithoutAllocating) {
  testing::FakeClock clock;
  MemoryStore store(clock);
  IdempotencyStore& keys = store.keys();
  keys.begin({.key = "a key that is running, longer than a small string"});
  keys.fail({.key = "failed", .lease_id = *keys.begin({.key = "failed"}).lease_id, .error = "x"});
  keys.mark_processed("done");
  clock.advance(seconds{1});
  {
    const FailingAllocation none(0);
    EXPECT_EQ(keys.recognise("a key that is running, longer than a small string"),
              BeginStatus::busy);
    EXPECT_EQ(keys.recognise("failed", FailedKeyPolicy::suppress), BeginStatus::failed);
    EXPECT_EQ(keys.recognise("done"), BeginStatus::processed);
  }
  EXPECT_EQ(keys.find("done")->last_seen_at, clock.now());
}

/// A store whose clock is set back by an hour.
class MemoryClockSetBack : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> claimed() {
    std::vector<std::string> ids;
    for (const ClaimedMessage& one : queue_.claim({.owner = owner_, .lease = seconds{30}})) {
      ids.push_back(one.message.key.message_id.str());
    }
    return ids;
  }
  void set_back() { clock_.advance(-std::chrono::hours{1}); }

  const OwnerToken owner_ = OwnerToken::generate();
  testing::FakeClock clock_;
  MemoryStore store_{clock_};
  QueueStore& queue_ = store_.inbox();
};

using Ids = std::vector<std::string>;

TEST_F(MemoryClockSetBack, ALeaseLastsNoLongerThanItWouldHave) {
  queue_.enqueue(message("1"));
  EXPECT_EQ(claimed(), Ids{"1"});
  set_back();
  EXPECT_EQ(claimed(), Ids{}) << "it is still held";
  clock_.advance(seconds{30});
  EXPECT_EQ(claimed(), Ids{"1"});
}

TEST_F(MemoryClockSetBack, TheNextOfAPartitionAndWhatIsReleasedCanBeClaimed) {
  Message first = message("first");
  first.partition_key = "p";
  Message second = message("second");
  second.partition_key = "p";
  queue_.enqueue(first);
  queue_.enqueue(second);
  const std::vector<ClaimedMessage> held = queue_.claim({.owner = owner_});
  ASSERT_EQ(held.size(), 1U);
  set_back();
  queue_.settle({.delivery = delivery_of(held[0]), .verdict = Release{}});
  EXPECT_EQ(claimed(), Ids{"first"});
  queue_.mark(Mark{.key = first.key});
  EXPECT_EQ(claimed(), Ids{"second"});
}

TEST_F(MemoryClockSetBack, MessagesThatWaitForADueTimeStillWaitForIt) {
  Message later = message("later");
  later.due_at = clock_.now() + seconds{60};
  queue_.enqueue(later);
  queue_.enqueue(message("now"));
  set_back();
  EXPECT_EQ(claimed(), Ids{"now"});
}

TEST_F(MemoryClockSetBack, HealthSaysSoUntilTheClockHasCaughtUp) {
  queue_.enqueue(message("1"));
  set_back();
  (void)claimed();
  EXPECT_EQ(store_.health().status, HealthStatus::degraded);
  EXPECT_NE(store_.health().detail.find("clock went back"), std::string::npos);
  clock_.advance(std::chrono::hours{1});
  EXPECT_EQ(store_.health().status, HealthStatus::healthy);
}

TEST(MemoryStore, IsHealthyNotDurableAndNeedsNoMigration) {
  MemoryStore store;
  EXPECT_EQ(store.health().status, HealthStatus::healthy);
  EXPECT_FALSE(store.capabilities().durable);
  EXPECT_EQ(store.migrate().to_version, store.migrate().from_version);
}

}  // namespace
}  // namespace oncebox::memory
