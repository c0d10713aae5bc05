#include "oncebox/driver/observed_queue_store.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <sstream>

#include "expect_error.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;

class QueueCallObserver final : public Observer {
 public:
  void on_enqueue(const Message&, const EnqueueOutcome& outcome) noexcept override {
    ++enqueued[outcome.status];
    if (outcome.hash_mismatch) ++hash_mismatches;
  }
  void on_observe(const MessageKey&, const ObserveOutcome&) noexcept override { ++observed; }
  void on_claim(std::size_t messages, std::size_t limit) noexcept override {
    last_claim = {messages, limit};
  }
  void on_delivery(const ClaimedMessage&, Duration delay) noexcept override { waited = delay; }
  void on_settle(const Settlement&, const SettleOutcome& outcome) noexcept override {
    ++settled[outcome.status];
  }
  void on_mark(const Mark& mark, MarkOutcome outcome) noexcept override {
    if (mark.as == MarkAs::dead) ++marked_dead[outcome];
  }
  void on_reap(const ReapResult& result) noexcept override { reaped = result; }
  void on_store_call(std::string_view call, std::size_t items, std::chrono::nanoseconds,
                     bool failed) noexcept override {
    calls.push_back(std::string(call) + ":" + std::to_string(items) + (failed ? ":failed" : ""));
  }

  std::map<EnqueueStatus, int> enqueued;
  int hash_mismatches = 0;
  int observed = 0;
  std::pair<std::size_t, std::size_t> last_claim;
  Duration waited{};
  std::map<SettleStatus, int> settled;
  std::map<MarkOutcome, int> marked_dead;
  ReapResult reaped;
  std::vector<std::string> calls;
};

class ObservedQueueStoreTest : public ::testing::Test {
 protected:
  [[nodiscard]] bool logged(std::string_view text) const {
    return log_.str().find(text) != std::string::npos;
  }

  Message message_ = {.key = {"shop", "evt-1"},
                      .topic = "order.created",
                      .payload = "s3cret payload",
                      .headers = {{"authorization", "s3cret header"}}};
  OwnerToken owner_ = OwnerToken::generate();
  testing::FakeClock clock_;
  memory::MemoryStore store_{clock_};
  testing::Fault fault_ = testing::Fault::none;
  std::function<testing::Fault(std::string_view call)> faulty_plan_ = [this](auto) {
    return fault_;
  };
  testing::FaultInjectingQueueStore faulty_{
      store_.inbox(), [this](std::string_view call) { return faulty_plan_(call); }};
  std::ostringstream log_;
  TextLogger logger_{log_, clock_, LogLevel::debug};
  QueueCallObserver observer_;
  ObservedQueueStore queue_{faulty_, "tenant-a", {logger_, observer_, clock_}};
};

TEST_F(ObservedQueueStoreTest, LogsEnqueuesAtInfoWithTopicSourceAndId) {
  RecordProperty("requirement", "IBX-108,IBX-113");
  queue_.enqueue(message_);
  EXPECT_TRUE(
      logged("info message enqueued store=tenant-a topic=order.created source=shop "
             "message_id=evt-1 outcome=accepted"));
  queue_.enqueue(message_);
  EXPECT_TRUE(logged("info message not enqueued"));
  EXPECT_EQ(observer_.enqueued[EnqueueStatus::accepted], 1);
  EXPECT_EQ(observer_.enqueued[EnqueueStatus::duplicate], 1);
}

TEST_F(ObservedQueueStoreTest, LinesOfEnqueuesCarryTheIdsOfTheMessage) {
  RecordProperty("requirement", "MSG-10");
  message_.headers.set(header_names::kCorrelationId, "corr-1");
  message_.headers.set(header_names::kCausationId, "cause-1");
  message_.partition_key = "customer-7";
  message_.request_id = "r-1";
  queue_.enqueue(message_);
  EXPECT_TRUE(
      logged("info message enqueued store=tenant-a topic=order.created source=shop "
             "message_id=evt-1 outcome=accepted correlation_id=corr-1 causation_id=cause-1 "
             "partition=customer-7 request_id=r-1"));
}

TEST_F(ObservedQueueStoreTest, LogsObservationsAtDebug) {
  RecordProperty("requirement", "IBX-107");
  queue_.observe({.key = message_.key});
  EXPECT_TRUE(
      logged("debug message observed store=tenant-a source=shop message_id=evt-1 "
             "state=unseen already_processed=false"));
  EXPECT_EQ(observer_.observed, 1);
}

TEST_F(ObservedQueueStoreTest, WarnsOfAHashMismatch) {
  RecordProperty("requirement", "IBX-008,R-18");
  message_.hash = ContentHash::sha256_of("one");
  queue_.enqueue(message_);
  message_.hash = ContentHash::sha256_of("two");
  queue_.enqueue(message_);
  queue_.observe({.key = message_.key, .hash = ContentHash::sha256_of("three")});
  EXPECT_TRUE(logged("warning content hash differs from the one stored before"));
  EXPECT_EQ(observer_.hash_mismatches, 1);
}

TEST_F(ObservedQueueStoreTest, LogsClaimsAtDebugWithTheirNumber) {
  RecordProperty("requirement", "IBX-109");
  queue_.enqueue(message_);
  clock_.advance(seconds{3});
  const auto claimed = queue_.claim({.owner = owner_, .limit = 7, .worker = "shop-3:8124"});
  ASSERT_EQ(claimed.size(), 1U);
  EXPECT_TRUE(logged("debug messages claimed store=tenant-a worker=shop-3:8124 owner=" +
                     owner_.to_string() + " count=1"));
  EXPECT_EQ(observer_.last_claim, (std::pair<std::size_t, std::size_t>{1, 7}));
  EXPECT_EQ(observer_.waited, seconds{3});
}

TEST_F(ObservedQueueStoreTest, TellsOfSettlementsAndLogsThoseThatWereLost) {
  queue_.enqueue(message_);
  const auto claimed = queue_.claim({.owner = owner_});
  const Settlement ack{.delivery = delivery_of(claimed[0]), .verdict = Ack{}};
  queue_.settle(ack);
  EXPECT_FALSE(logged("delivery not settled"));
  queue_.settle(ack);
  EXPECT_TRUE(
      logged("info delivery not settled store=tenant-a source=shop message_id=evt-1 "
             "outcome=lease_lost"));
  EXPECT_EQ(observer_.settled[SettleStatus::settled], 1);
  EXPECT_EQ(observer_.settled[SettleStatus::lease_lost], 1);
}

TEST_F(ObservedQueueStoreTest, LogsReapsAtInfoAndEachOfTheBuriedAtWarning) {
  RecordProperty("requirement", "IBX-112,R-33");
  queue_.enqueue(message_);
  queue_.enqueue({.key = {"shop", "evt-2"},
                  .topic = "order.created",
                  .expires_at = clock_.now() + seconds{1}});
  (void)queue_.claim({.owner = owner_, .lease = seconds{10}, .limit = 1});
  clock_.advance(seconds{10});
  queue_.reap();
  EXPECT_TRUE(logged("info leases reaped store=tenant-a released=1 buried=1"));
  EXPECT_TRUE(
      logged("warning message is dead store=tenant-a topic=order.created source=shop "
             "message_id=evt-2 reason=expired"));
  EXPECT_EQ(observer_.reaped,
            (ReapResult{.released = 1,
                        .buried = 1,
                        .deaths = {{{"shop", "evt-2"}, Topic("order.created"), "expired"}}}));
}

TEST_F(ObservedQueueStoreTest, TellsOfWhatAClaimBuriesAsOfWhatAReapDoes) {
  RecordProperty("requirement", "R-33");
  Message late = message_;
  late.expires_at = clock_.now() + seconds{1};
  queue_.enqueue(late);
  clock_.advance(seconds{1});
  EXPECT_TRUE(queue_.claim({.owner = owner_}).empty());
  EXPECT_TRUE(
      logged("warning message is dead store=tenant-a topic=order.created source=shop "
             "message_id=evt-1 reason=expired"));
  EXPECT_EQ(observer_.reaped.buried, 1U);
  EXPECT_EQ(observer_.reaped.deaths.size(), 1U);
}

TEST_F(ObservedQueueStoreTest, TellsOfADeathByAMarkOnce) {
  RecordProperty("requirement", "R-33");
  queue_.enqueue(message_);
  const Mark mark{.key = message_.key, .as = MarkAs::dead, .error = "no such customer"};
  queue_.mark(mark);
  const std::string line =
      "warning message is dead store=tenant-a topic=order.created source=shop message_id=evt-1 "
      "reason=marked";
  EXPECT_TRUE(logged(line));
  log_.str({});
  queue_.mark(mark);
  EXPECT_FALSE(logged(line));
  EXPECT_EQ(observer_.marked_dead,
            (std::map<MarkOutcome, int>{{MarkOutcome::marked, 1}, {MarkOutcome::already, 1}}));
}

TEST_F(ObservedQueueStoreTest, TellsOfADeathByASettlementAndByQuarantine) {
  RecordProperty("requirement", "R-33");
  queue_.enqueue(message_);
  const auto claimed = queue_.claim({.owner = owner_});
  queue_.settle({.delivery = delivery_of(claimed[0]), .verdict = Fail{"no"}});
  EXPECT_TRUE(
      logged("warning message is dead store=tenant-a source=shop message_id=evt-1 reason=failed"));
  message_.key.message_id = "evt-2";
  message_.hash = ContentHash::sha256_of("one");
  queue_.enqueue(message_);
  message_.hash = ContentHash::sha256_of("two");
  const auto outcome =
      queue_.enqueue(message_, {.on_hash_mismatch = HashMismatchPolicy::quarantine});
  EXPECT_TRUE(
      logged("warning message is dead store=tenant-a topic=order.created source=shop message_id=" +
             outcome.quarantined_as.value().str() + " reason=quarantined"));
  log_.str("");
  queue_.enqueue(message_, {.on_hash_mismatch = HashMismatchPolicy::quarantine});
  EXPECT_FALSE(logged("message is dead")) << "it is dead already: " << log_.str();
}

TEST_F(ObservedQueueStoreTest, LinesOfAllDeathsCarryTheIdsOfTheMessage) {
  RecordProperty("requirement", "MSG-10,R-33");
  message_.headers.set(header_names::kCorrelationId, "corr-1");
  message_.headers.set(header_names::kCausationId, "cause-1");
  message_.partition_key = "customer-7";
  const auto line = [](std::string_view id, std::string_view reason) {
    return "warning message is dead store=tenant-a topic=order.created source=shop message_id=" +
           std::string(id) + " reason=" + std::string(reason) +
           " correlation_id=corr-1 causation_id=cause-1 partition=customer-7";
  };
  queue_.enqueue(message_);
  queue_.mark({.key = message_.key, .as = MarkAs::dead, .error = "no such customer"});
  EXPECT_TRUE(logged(line("evt-1", "marked"))) << log_.str();
  for (const char* id : {"evt-2", "evt-3"}) {
    Message late = message_;
    late.key.message_id = id;
    late.expires_at = clock_.now() + seconds{1};
    queue_.enqueue(late);
    clock_.advance(seconds{1});
    if (late.key.message_id.str() == "evt-2") {
      queue_.reap();
    } else {
      EXPECT_TRUE(queue_.claim({.owner = owner_}).empty());
    }
    EXPECT_TRUE(logged(line(id, "expired"))) << log_.str();
  }
  message_.key.message_id = "evt-4";
  message_.hash = ContentHash::sha256_of("one");
  queue_.enqueue(message_);
  message_.hash = ContentHash::sha256_of("two");
  const auto outcome =
      queue_.enqueue(message_, {.on_hash_mismatch = HashMismatchPolicy::quarantine});
  EXPECT_TRUE(logged(line(outcome.quarantined_as.value().str(), "quarantined"))) << log_.str();
}

TEST_F(ObservedQueueStoreTest, ADeathIsToldByItsKeyWhenItCannotBeLookedUp) {
  RecordProperty("requirement", "R-33");
  queue_.enqueue(message_);
  faulty_plan_ = [](std::string_view call) {
    return call == "find" ? testing::Fault::before : testing::Fault::none;
  };
  queue_.mark({.key = message_.key, .as = MarkAs::dead});
  EXPECT_TRUE(
      logged("warning message is dead store=tenant-a source=shop message_id=evt-1 reason=marked"))
      << log_.str();
}

TEST_F(ObservedQueueStoreTest, LooksUpWhatItTellsOfADeathWhenItIsToldTo) {
  RecordProperty("requirement", "MSG-10");
  ObservedQueueStore queue(faulty_, "tenant-a", {logger_, observer_, clock_},
                           DeliveryLines::looked_up);
  message_.headers.set(header_names::kCorrelationId, "corr-1");
  queue.enqueue(message_);
  const auto claimed = queue.claim({.owner = owner_});
  const Settlement fail{.delivery = delivery_of(claimed[0]), .verdict = Fail{"no"}};
  queue.settle(fail);
  EXPECT_TRUE(
      logged("warning message is dead store=tenant-a topic=order.created source=shop "
             "message_id=evt-1 reason=failed correlation_id=corr-1"));
  faulty_plan_ = [](std::string_view call) {
    return call == "find" ? testing::Fault::before : testing::Fault::none;
  };
  queue.settle(fail);
  EXPECT_TRUE(
      logged("info delivery not settled store=tenant-a source=shop message_id=evt-1 "
             "outcome=lease_lost"));
}

TEST_F(ObservedQueueStoreTest, LogsAFailingCallAtErrorAndLetsItThrough) {
  fault_ = testing::Fault::before;
  expect_error(ErrorCode::unavailable, [&] { queue_.enqueue(message_); });
  EXPECT_TRUE(
      logged("error store call failed store=tenant-a call=enqueue items=1 "
             "code=unavailable"));
  EXPECT_EQ(observer_.calls, std::vector<std::string>{"enqueue:1:failed"});
  EXPECT_FALSE(store_.inbox().find(message_.key));
}

TEST_F(ObservedQueueStoreTest, NoLineCarriesAPayloadAHeaderOrAHandlersError) {
  RecordProperty("requirement", "IBX-127,MSG-10");
  queue_.enqueue(message_);
  const auto claimed = queue_.claim({.owner = owner_});
  queue_.settle({.delivery = delivery_of(claimed[0]), .verdict = Fail{"s3cret error"}});
  queue_.mark({.key = message_.key, .as = MarkAs::dead, .error = "s3cret mark"});
  (void)queue_.find(message_.key);
  EXPECT_FALSE(logged("s3cret"));
}

TEST_F(ObservedQueueStoreTest, ALostAnswerIsSafeToRepeat) {
  fault_ = testing::Fault::after;
  expect_error(ErrorCode::outcome_unknown, [&] { queue_.enqueue(message_); });
  fault_ = testing::Fault::none;
  EXPECT_EQ(queue_.enqueue(message_).status, EnqueueStatus::duplicate);
  EXPECT_EQ(queue_.claim({.owner = owner_}).size(), 1U);
}

}  // namespace
}  // namespace oncebox
