#include "oncebox/inbox.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <sstream>

#include "expect_error.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;
using testing::Fault;

class CountingObserver final : public Observer {
 public:
  void on_enqueue(const Message&, const EnqueueOutcome&) noexcept override { ++enqueued; }
  void on_observe(const MessageKey&, const ObserveOutcome&) noexcept override { ++observed; }

  std::atomic<int> enqueued = 0;
  std::atomic<int> observed = 0;
};

/// Lets a test hold up the calls that reach the store, and fail them.
class Gate {
 public:
  testing::FaultInjectingQueueStore::Plan plan() {
    return [this](std::string_view call) {
      std::unique_lock lock(mutex_);
      ++calls_[std::string(call)];
      changed_.notify_all();
      changed_.wait(lock, [this] { return !closed_; });
      return fault_;
    };
  }

  void close() { set(true); }
  void open() { set(false); }
  void fail_with(Fault fault) {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
  }
  /// Waits until so many calls of this name have come.
  void wait_for(const std::string& call, int times) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_[call] >= times; });
  }
  int calls(const std::string& call) {
    const std::lock_guard lock(mutex_);
    return calls_[call];
  }

 private:
  void set(bool closed) {
    const std::lock_guard lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  Fault fault_ = Fault::none;
  std::map<std::string, int> calls_;
};

class InboxTest : public ::testing::Test {
 protected:
  [[nodiscard]] static Message message(const std::string& id, std::string payload = "{}") {
    return {.key = {"shop", id}, .topic = "order.created", .payload = std::move(payload)};
  }
  [[nodiscard]] std::optional<MessageRecord> find(const std::string& id) {
    return store_.inbox().find(MessageKey{"shop", id});
  }
  [[nodiscard]] std::vector<ClaimedMessage> claim() {
    return store_.inbox().claim({.owner = owner_});
  }
  [[nodiscard]] bool logged(std::string_view text) const {
    return log_.str().find(text) != std::string::npos;
  }

  const MessageKey key_{"shop", "evt-1"};
  const OwnerToken owner_ = OwnerToken::generate();
  testing::FakeClock clock_;
  memory::MemoryStore store_{clock_, {.max_payload_bytes = 100}};
  Gate gate_;
  testing::FaultInjectingQueueStore gated_{store_.inbox(), gate_.plan()};
  std::ostringstream log_;
  TextLogger logger_{log_, clock_, LogLevel::debug};
  CountingObserver observer_;
  Inbox inbox_{gated_, {.name = "tenant-a"}, {logger_, observer_, clock_}};
};

// Already processed? ----------------------------------------------------------------------------

TEST_F(InboxTest, UnknownKeyIsNotProcessedAndSeenFromNowOn) {
  RecordProperty("requirement", "IBX-002,IBX-004,R-02");
  EXPECT_FALSE(inbox_.already_processed(key_));
  ASSERT_TRUE(find("evt-1"));
  EXPECT_EQ(find("evt-1")->status, Status::seen);
  EXPECT_TRUE(claim().empty());
}

TEST_F(InboxTest, OnlyDoneIsAlreadyProcessed) {
  RecordProperty("requirement", "IBX-002,IBX-003,IBX-005,R-04");
  inbox_.already_processed(key_);
  clock_.advance(seconds{1});
  EXPECT_FALSE(inbox_.already_processed(key_));
  EXPECT_EQ(find("evt-1")->history.last_seen_at, clock_.now());
  ASSERT_TRUE(inbox_.mark_processing(key_));
  EXPECT_FALSE(inbox_.already_processed(key_));
  ASSERT_TRUE(inbox_.mark_dead(key_));
  clock_.advance(seconds{1});
  EXPECT_FALSE(inbox_.already_processed(key_));
  EXPECT_EQ(find("evt-1")->history.last_seen_at, clock_.now());
  ASSERT_TRUE(inbox_.mark_processed(key_));
  EXPECT_TRUE(inbox_.already_processed(key_));
}

TEST_F(InboxTest, ObserveTellsTheState) {
  RecordProperty("requirement", "R-04");
  EXPECT_EQ(inbox_.observe(key_).state, ObservedState::unseen);
  EXPECT_EQ(inbox_.observe(key_).state, ObservedState::seen);
  inbox_.enqueue(message("evt-1"));
  EXPECT_EQ(inbox_.observe(key_).state, ObservedState::ready);
  ASSERT_EQ(claim().size(), 1U);
  EXPECT_EQ(inbox_.observe(key_).state, ObservedState::leased);
  inbox_.mark_dead(key_);
  EXPECT_EQ(inbox_.observe(key_).state, ObservedState::dead);
  inbox_.mark_processed(key_);
  EXPECT_EQ(inbox_.observe(key_).state, ObservedState::done);
}

TEST_F(InboxTest, KeyIsSourceAndIdTogether) {
  RecordProperty("requirement", "IBX-001,R-01");
  inbox_.already_processed(key_);
  inbox_.mark_processed(key_);
  EXPECT_FALSE(inbox_.already_processed({"bank", "evt-1"}));
  EXPECT_FALSE(inbox_.already_processed({"shop", "evt-2"}));
  EXPECT_TRUE(inbox_.already_processed(key_));
}

TEST_F(InboxTest, AnotherHashIsWarnedOfAndFailsNothing) {
  RecordProperty("requirement", "IBX-007,IBX-008,R-18");
  const auto hash = ContentHash::sha256_of("one");
  EXPECT_FALSE(inbox_.already_processed(key_, hash));
  EXPECT_EQ(find("evt-1")->hash, hash);
  EXPECT_FALSE(inbox_.observe(key_, hash).hash_mismatch);
  EXPECT_FALSE(logged("content hash differs"));
  EXPECT_TRUE(inbox_.observe(key_, ContentHash::sha256_of("two")).hash_mismatch);
  EXPECT_TRUE(
      logged("warning content hash differs from the one stored before store=tenant-a source=shop "
             "message_id=evt-1"));
}

TEST_F(InboxTest, NamesThatAreEmptyOrTooLongNeverReachTheStore) {
  RecordProperty("requirement", "IBX-009,IBX-010,IBX-011,IBX-012,IBX-015,IBX-016,IBX-017,IBX-020");
  const std::string long_name(256, 'x');
  const Payload payload;
  for (const std::string& bad : {std::string(), long_name}) {
    SCOPED_TRACE(bad);
    const auto refused = [](auto call) { expect_error(ErrorCode::invalid_argument, call); };
    refused([&] { inbox_.already_processed({"shop", bad}); });
    refused([&] { inbox_.already_processed({bad, "evt-1"}); });
    refused([&] { inbox_.enqueue({.key = {"shop", bad}, .topic = "t", .payload = payload}); });
    refused([&] { inbox_.enqueue({.key = {bad, "evt-1"}, .topic = "t", .payload = payload}); });
    refused([&] { inbox_.enqueue({.key = key_, .topic = bad, .payload = payload}); });
  }
  EXPECT_EQ(gate_.calls("enqueue") + gate_.calls("observe"), 0);
}

// Mark ------------------------------------------------------------------------------------------

TEST_F(InboxTest, MarkingAnUnknownKeyAnswersFalseAndStoresNothing) {
  RecordProperty("requirement", "R-03");
  EXPECT_FALSE(inbox_.mark_processing(key_));
  EXPECT_FALSE(inbox_.mark_processed(key_));
  EXPECT_FALSE(inbox_.mark_dead(key_, "no use"));
  EXPECT_EQ(inbox_.mark({.key = key_}), MarkOutcome::unknown);
  EXPECT_FALSE(find("evt-1"));
}

TEST_F(InboxTest, MarkingEndsTheLeaseAndKeepsTheError) {
  RecordProperty("requirement", "R-03");
  inbox_.enqueue(message("evt-1"));
  ASSERT_EQ(claim().size(), 1U);
  EXPECT_TRUE(inbox_.mark_dead(key_, "card declined"));
  EXPECT_EQ(find("evt-1")->status, Status::dead);
  EXPECT_EQ(find("evt-1")->history.last_error, "card declined");
  EXPECT_FALSE(find("evt-1")->lease);
}

TEST_F(InboxTest, FinalStatesAnswerFalse) {
  RecordProperty("requirement", "R-03");
  inbox_.already_processed(key_);
  EXPECT_TRUE(inbox_.mark_dead(key_));
  EXPECT_FALSE(inbox_.mark_processing(key_));
  EXPECT_EQ(find("evt-1")->status, Status::dead);
  EXPECT_TRUE(inbox_.mark_processed(key_));
  EXPECT_TRUE(inbox_.mark_processed(key_));
  EXPECT_FALSE(inbox_.mark_dead(key_));
  EXPECT_EQ(inbox_.mark({.key = key_, .as = MarkAs::processing}), MarkOutcome::refused);
  EXPECT_EQ(find("evt-1")->status, Status::done);
}

// Enqueue ---------------------------------------------------------------------------------------

TEST_F(InboxTest, NewMessageIsStoredReadyWithAttemptZero) {
  RecordProperty("requirement", "IBX-013,IBX-019,IBX-025,IBX-027");
  EXPECT_EQ(inbox_.enqueue(message("evt-1", "")).status, EnqueueStatus::accepted);
  const auto record = find("evt-1");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->status, Status::processing);
  EXPECT_EQ(record->history.attempt, 0);
  EXPECT_EQ(record->history.first_seen_at, clock_.now());
  EXPECT_EQ(claim().size(), 1U);
}

TEST_F(InboxTest, RepeatedMessageIsADuplicateInEveryState) {
  RecordProperty("requirement", "IBX-014,IBX-028,IBX-029,R-05,R-06,R-07");
  const auto status = [&](std::string payload) {
    return inbox_.enqueue(message("evt-1", std::move(payload))).status;
  };
  EXPECT_EQ(status("one"), EnqueueStatus::accepted);
  EXPECT_EQ(status("one"), EnqueueStatus::duplicate);
  EXPECT_EQ(status("two"), EnqueueStatus::updated);
  ASSERT_EQ(claim().size(), 1U);
  EXPECT_EQ(status("two"), EnqueueStatus::duplicate);
  EXPECT_EQ(status("three"), EnqueueStatus::superseding);
  inbox_.mark_dead(key_);
  EXPECT_EQ(status("four"), EnqueueStatus::duplicate_dead);
  EXPECT_EQ(find("evt-1")->message->payload, Payload("four"));
  inbox_.mark_processed(key_);
  EXPECT_EQ(status("five"), EnqueueStatus::duplicate_done);
  EXPECT_EQ(find("evt-1")->message->payload, Payload("four"));
}

TEST_F(InboxTest, DueTimeIsWaitedForAndReplacedByALaterEnqueue) {
  RecordProperty("requirement", "IBX-023,IBX-024,R-08");
  Message later = message("evt-1");
  later.due_at = clock_.now() + seconds{60};
  inbox_.enqueue(later);
  EXPECT_TRUE(claim().empty());
  inbox_.enqueue(message("evt-1"));
  EXPECT_EQ(claim().size(), 1U);
}

TEST_F(InboxTest, OptionsOfTheInboxHoldForEveryEnqueue) {
  RecordProperty("requirement", "R-05,R-18");
  Inbox strict(
      store_,
      {.enqueue = {.on_hash_mismatch = HashMismatchPolicy::reject, .on_dead = DeadPolicy::revive}},
      {logger_, observer_, clock_});
  strict.enqueue(message("evt-1", "one"));
  EXPECT_EQ(strict.enqueue(message("evt-1", "two")).status, EnqueueStatus::rejected);
  strict.mark_dead(key_);
  EXPECT_EQ(strict.enqueue({message("evt-1", "one"), message("evt-2")}).at(0).status,
            EnqueueStatus::revived);
}

// Hashes ----------------------------------------------------------------------------------------

TEST_F(InboxTest, MissingHashIsComputedSoThatOtherContentIsNoticed) {
  RecordProperty("requirement", "IBX-008,IBX-129,R-18");
  EXPECT_FALSE(inbox_.enqueue(message("evt-1", "one")).hash_mismatch);
  EXPECT_EQ(find("evt-1")->hash, ContentHash::sha256_of("one"));
  EXPECT_FALSE(inbox_.enqueue(message("evt-1", "one")).hash_mismatch);
  EXPECT_TRUE(inbox_.enqueue(message("evt-1", "two")).hash_mismatch);
  EXPECT_TRUE(logged("warning content hash differs"));
  inbox_.enqueue({message("evt-2", "one")});
  EXPECT_EQ(find("evt-2")->hash, ContentHash::sha256_of("one"));
}

TEST_F(InboxTest, GivenHashIsKept) {
  RecordProperty("requirement", "IBX-007");
  Message hashed = message("evt-1", "one");
  hashed.hash = ContentHash("md5", "0123456789abcdef");
  inbox_.enqueue(hashed);
  EXPECT_EQ(find("evt-1")->hash, hashed.hash);
}

TEST_F(InboxTest, MissingHashIsLeftWhenAskedFor) {
  Inbox plain(store_, {.missing_hash = MissingHash::leave}, {logger_, observer_, clock_});
  plain.enqueue(message("evt-1", "one"));
  EXPECT_FALSE(find("evt-1")->hash);
  const EnqueueOutcome outcome = plain.enqueue(message("evt-1", "two"));
  EXPECT_EQ(outcome.status, EnqueueStatus::updated);
  EXPECT_FALSE(outcome.hash_mismatch);
}

// Groups ----------------------------------------------------------------------------------------

class InboxGroupTest : public InboxTest {
 protected:
  /// Holds up the commit of a first message, so that what follows shares the next one.
  void enqueue_held(Inbox& inbox) {
    gate_.close();
    inbox.enqueue_then(message("first"),
                       [](const Inbox::EnqueueResult& result) { EXPECT_TRUE(result.ok()); });
    gate_.wait_for("enqueue", 1);
  }
};

TEST_F(InboxGroupTest, SingleMessagesOfManyCallersShareOneTransaction) {
  enqueue_held(inbox_);
  std::vector<std::future<EnqueueOutcome>> futures;
  futures.reserve(20);
  for (int i = 0; i < 20; ++i) {
    futures.push_back(inbox_.enqueue_future(message("evt-" + std::to_string(i % 10))));
  }
  gate_.open();
  for (std::size_t i = 0; i < futures.size(); ++i) {
    EXPECT_EQ(futures[i].get().status, i < 10 ? EnqueueStatus::accepted : EnqueueStatus::duplicate);
  }
  EXPECT_EQ(gate_.calls("enqueue"), 2);
}

TEST_F(InboxGroupTest, MessagesAreStoredInTheOrderOfCallsThatDoNotWait) {
  RecordProperty("requirement", "R-29");
  Inbox inbox(store_);
  std::vector<std::future<EnqueueOutcome>> futures;
  for (int i = 0; i < 2'000; ++i) {
    Message ordered = message("ordered-" + std::to_string(i));
    ordered.partition_key = "account-1";
    futures.push_back(inbox.enqueue_future(std::move(ordered)));
  }
  for (auto& future : futures) future.get();
  const auto page = store_.inbox_operator().list({.limit = 1'000});
  for (std::size_t i = 0; i < page.records.size(); ++i) {
    ASSERT_EQ(page.records[i].key.message_id.str(), "ordered-" + std::to_string(i));
  }
}

TEST_F(InboxGroupTest, BadDueTimeFailsAloneBeforeItJoinsAGroup) {
  enqueue_held(inbox_);
  auto good = inbox_.enqueue_future(message("evt-1"));
  Message bad = message("evt-2");
  bad.due_at = kMaxTime + Duration{1};
  Message expired = message("evt-3");
  expired.expires_at = kMinTime - Duration{1};
  bool called = false;
  expect_error(ErrorCode::out_of_range, [&] { inbox_.enqueue(bad); });
  expect_error(ErrorCode::out_of_range, [&] { (void)inbox_.enqueue_future(expired); });
  expect_error(ErrorCode::out_of_range,
               [&] { inbox_.enqueue_then(bad, [&](const auto&) { called = true; }); });
  gate_.open();
  EXPECT_EQ(good.get().status, EnqueueStatus::accepted);
  inbox_.stop();
  EXPECT_FALSE(called);
  EXPECT_EQ(gate_.calls("enqueue"), 2);
  EXPECT_FALSE(find("evt-2"));
}

TEST_F(InboxGroupTest, PayloadThatTheStoreRefusesFailsAlone) {
  enqueue_held(inbox_);
  auto good = inbox_.enqueue_future(message("evt-1"));
  auto large = inbox_.enqueue_future(message("evt-2", std::string(101, 'x')));
  auto other = inbox_.enqueue_future(message("evt-3"));
  gate_.open();
  inbox_.stop();
  EXPECT_EQ(good.get().status, EnqueueStatus::accepted);
  expect_error(ErrorCode::invalid_argument, [&] { large.get(); });
  EXPECT_EQ(other.get().status, EnqueueStatus::accepted);
}

TEST_F(InboxGroupTest, KnownPayloadLimitIsCheckedBeforeTheStoreIsAsked) {
  Inbox inbox(store_, {.name = "tenant-b"}, {logger_, observer_, clock_});
  inbox.enqueue(message("evt-1", std::string(100, 'x')));
  const std::string text = expect_error(
      ErrorCode::invalid_argument, [&] { inbox.enqueue(message("evt-2", std::string(101, 'x'))); });
  EXPECT_EQ(text, "the payload has 101 bytes; this store takes at most 100");
  expect_error(ErrorCode::invalid_argument,
               [&] { inbox.enqueue({message("evt-3"), message("evt-4", std::string(101, 'x'))}); });
  EXPECT_FALSE(find("evt-3"));
  EXPECT_FALSE(logged("store call failed"));
}

TEST_F(InboxGroupTest, InboxThatNobodyListensToTakesMessagesIn) {
  Inbox inbox(store_);
  EXPECT_EQ(inbox.enqueue(message("evt-1")).status, EnqueueStatus::accepted);
  EXPECT_EQ(inbox.enqueue(message("evt-1")).status, EnqueueStatus::duplicate);
  expect_error(ErrorCode::invalid_argument,
               [&] { inbox.enqueue(message("evt-2", std::string(101, 'x'))); });
}

TEST_F(InboxGroupTest, CallbackGetsTheOutcome) {
  std::optional<EnqueueOutcome> answered;
  inbox_.enqueue_then(message("evt-1"),
                      [&](Inbox::EnqueueResult result) { answered = std::move(result).outcome(); });
  inbox_.stop();
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->status, EnqueueStatus::accepted);
}

TEST_F(InboxGroupTest, MessagesThatCameTogetherAreAnsweredEachOnItsOwn) {
  Message bad = message("evt-2");
  bad.due_at = kMaxTime + Duration{1};
  const auto results =
      inbox_.enqueue_each({message("evt-1"), bad, message("evt-1"),
                           message("evt-3", std::string(101, 'x')), message("evt-4")});
  ASSERT_EQ(results.size(), 5U);
  EXPECT_EQ(results[0].outcome().status, EnqueueStatus::accepted);
  EXPECT_EQ(results[1].error()->code(), ErrorCode::out_of_range);
  EXPECT_EQ(results[2].outcome().status, EnqueueStatus::duplicate);
  EXPECT_EQ(results[3].error()->code(), ErrorCode::invalid_argument);
  EXPECT_EQ(results[4].outcome().status, EnqueueStatus::accepted);
  EXPECT_TRUE(inbox_.enqueue_each({}).empty());
  EXPECT_EQ(inbox_.enqueue_each({bad}).at(0).error()->code(), ErrorCode::out_of_range);
}

TEST_F(InboxGroupTest, BatchIsStoredWholeOrNotAtAll) {
  RecordProperty("requirement", "IBX-102");
  expect_error(ErrorCode::invalid_argument, [&] {
    inbox_.enqueue({message("evt-1"), message("evt-2", std::string(101, 'x'))});
  });
  EXPECT_FALSE(find("evt-1"));
  const auto outcomes = inbox_.enqueue({message("evt-1"), message("evt-1"), message("evt-2")});
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_EQ(outcomes[1].status, EnqueueStatus::duplicate);
  EXPECT_EQ(gate_.calls("enqueue"), 2);
  EXPECT_TRUE(inbox_.enqueue(std::vector<Message>{}).empty());
}

TEST_F(InboxGroupTest, FullInboxRefusesAtOnce) {
  Inbox small(gated_, {.group_commit = {.max_queued = 1}}, {logger_, observer_, clock_});
  enqueue_held(small);
  auto waiting = small.enqueue_future(message("evt-1"));
  expect_error(ErrorCode::overloaded, [&] { small.enqueue(message("evt-2")); });
  gate_.open();
  EXPECT_EQ(waiting.get().status, EnqueueStatus::accepted);
  EXPECT_FALSE(find("evt-2"));
}

TEST_F(InboxGroupTest, WaitingMessagesAreBoundedInBytes) {
  Inbox small(gated_, {.group_commit = {.max_queued_bytes = 2 * sizeof(Message)}},
              {logger_, observer_, clock_});
  enqueue_held(small);
  auto waiting = small.enqueue_future(message("evt-1"));
  expect_error(ErrorCode::overloaded, [&] { small.enqueue(message("evt-2")); });
  gate_.open();
  EXPECT_EQ(waiting.get().status, EnqueueStatus::accepted);
}

TEST_F(InboxGroupTest, StopStoresWhatWaitsAndRefusesMore) {
  enqueue_held(inbox_);
  auto waiting = inbox_.enqueue_future(message("evt-1"));
  gate_.open();
  inbox_.stop();
  EXPECT_EQ(waiting.get().status, EnqueueStatus::accepted);
  expect_error(ErrorCode::unavailable, [&] { inbox_.enqueue(message("evt-2")); });
  EXPECT_FALSE(inbox_.already_processed(key_));
}

TEST_F(InboxGroupTest, StoreThatIsAwayFailsEveryoneAndChangesNothing) {
  gate_.fail_with(Fault::before);
  for (const auto& result : inbox_.enqueue_each({message("evt-1"), message("evt-2")})) {
    ASSERT_NE(result.error(), nullptr);
    EXPECT_EQ(result.error()->code(), ErrorCode::unavailable);
  }
  EXPECT_EQ(gate_.calls("enqueue"), 1);
  EXPECT_FALSE(find("evt-1"));
}

TEST_F(InboxGroupTest, LostAnswerIsSafeToRepeat) {
  RecordProperty("requirement", "IBX-014");
  gate_.fail_with(Fault::after);
  expect_error(ErrorCode::outcome_unknown, [&] { inbox_.enqueue(message("evt-1")); });
  EXPECT_EQ(gate_.calls("enqueue"), 1);
  gate_.fail_with(Fault::none);
  EXPECT_EQ(inbox_.enqueue(message("evt-1")).status, EnqueueStatus::duplicate);
  EXPECT_EQ(claim().size(), 1U);
}

TEST_F(InboxGroupTest, OfManyCallersWithOneKeyOneIsAccepted) {
  RecordProperty("requirement", "IBX-006,IBX-014");
  std::atomic<int> accepted = 0;
  std::atomic<int> unseen = 0;
  {
    std::vector<std::jthread> callers;
    callers.reserve(8);
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([&] {
        if (inbox_.observe({"shop", "evt-2"}).state == ObservedState::unseen) ++unseen;
        if (inbox_.enqueue(message("evt-1")).status == EnqueueStatus::accepted) ++accepted;
      });
    }
  }
  EXPECT_EQ(unseen, 1);
  EXPECT_EQ(accepted, 1);
  EXPECT_EQ(observer_.enqueued, 8);
  EXPECT_EQ(observer_.observed, 8);
}

// Log lines -------------------------------------------------------------------------------------

TEST_F(InboxTest, LinesCarryTheNameOfTheInboxAndNoPayload) {
  RecordProperty("requirement", "IBX-107,IBX-108,IBX-109,IBX-112,IBX-113,IBX-127");
  inbox_.already_processed(key_);
  inbox_.enqueue(message("evt-1", "s3cret"));
  (void)inbox_.queue().claim({.owner = owner_, .lease = seconds{1}});
  clock_.advance(seconds{1});
  inbox_.queue().reap();
  EXPECT_TRUE(
      logged("debug message observed store=tenant-a source=shop message_id=evt-1 state=unseen "
             "already_processed=false"));
  EXPECT_TRUE(
      logged("info message enqueued store=tenant-a topic=order.created source=shop "
             "message_id=evt-1 outcome=accepted"));
  EXPECT_TRUE(logged("debug messages claimed store=tenant-a"));
  EXPECT_TRUE(logged("info leases reaped store=tenant-a released=1"));
  EXPECT_FALSE(logged("s3cret"));
}

}  // namespace
}  // namespace oncebox
