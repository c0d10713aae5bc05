// Reaping and retention, over many stores.

#include "oncebox/operate/housekeeping.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <sstream>

#include "expect_error.hpp"
#include "oncebox/driver/forwarding_key_store.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"
#include "paced_batch.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::HasSubstr;

/// It hardly rests.
constexpr HousekeepingOptions kBusy{.reap_interval = Duration{1},
                                    .cleanup_interval = Duration{1},
                                    .done_retention = hours{1},
                                    .batch = 20};

HousekeptStore kept(const std::string& name, Store& store) {
  return {.name = name,
          .inbox = {store.inbox(), store.inbox_operator()},
          .outbox = {store.outbox(), store.outbox_operator()},
          .deliveries = {store.deliveries(), store.deliveries_operator()},
          .keys = store.keys(),
          .audit = store.audit()};
}

/// Keys of one message in each state: seen, waiting, leased, done and dead.
void fill(QueueStore& queue) {
  queue.observe(Observation{.key = {"shop", "seen"}});
  queue.enqueue(message_of("leased"));
  (void)queue.claim({.owner = OwnerToken::generate(), .lease = hours{24}});
  queue.enqueue(message_of("ready"));
  bury(queue, message_of("dead"), "broken");
  for (int i = 0; i < 50; ++i) {
    queue.enqueue(message_of("done" + std::to_string(i)));
    queue.mark(Mark{.key = {"shop", "done" + std::to_string(i)}, .as = MarkAs::processed});
  }
}

class HousekeepingTest : public OnEachStore {
 protected:
  [[nodiscard]] Housekeeping make(const HousekeepingOptions& options = kBusy) {
    return Housekeeping(options, {.logger = logger_, .clock = clock_});
  }
  static std::size_t left(QueueOperator& queue, std::vector<Status> statuses = {}) {
    return queue.count({.statuses = std::move(statuses)});
  }

  std::ostringstream log_;
  TextLogger logger_{log_, clock_};
};
ONCEBOX_ON_EACH_STORE(HousekeepingTest);

TEST_P(HousekeepingTest, RemovesInBatchesWhatIsDoneForItsRetentionAndNothingElse) {
  RecordProperty("requirement", "IBX-098,IBX-099,IBX-100,IBX-101,R-22");
  const auto store = make_store();
  fill(store->inbox());
  fill(store->outbox());
  clock_.advance(hours{1} - Duration{1});
  Housekeeping housekeeping = make();
  housekeeping.add(kept("a", *store));
  // It has looked, and found nothing.
  EXPECT_TRUE(eventually([&] { return housekeeping.figures().front().last_run.has_value(); }));
  EXPECT_EQ(left(store->inbox_operator()), 54U);

  clock_.advance(Duration{1});
  EXPECT_TRUE(eventually([&] {
    const StoreHousekeeping figures = housekeeping.figures().front();
    return figures.inbox.done_removed == 50 && figures.outbox.done_removed == 50;
  }));
  for (QueueOperator* queue : {&store->inbox_operator(), &store->outbox_operator()}) {
    EXPECT_EQ(left(*queue, {Status::seen}), 1U);
    EXPECT_EQ(left(*queue, {Status::processing}), 2U);
    EXPECT_EQ(left(*queue, {Status::dead}), 1U);
    EXPECT_EQ(left(*queue), 4U);
  }
}

TEST_P(HousekeepingTest, DeadMessagesHaveARetentionOfTheirOwn) {
  RecordProperty("requirement", "IBX-099,IBX-100,R-22");
  const auto store = make_store();
  fill(store->inbox());
  HousekeepingOptions options = kBusy;
  options.dead_retention = hours{2};
  Housekeeping housekeeping = make(options);
  clock_.advance(hours{1});
  housekeeping.add(kept("a", *store));
  EXPECT_TRUE(eventually([&] { return left(store->inbox_operator(), {Status::done}) == 0; }));
  EXPECT_EQ(left(store->inbox_operator(), {Status::dead}), 1U);
  clock_.advance(hours{1});
  EXPECT_TRUE(eventually([&] { return left(store->inbox_operator(), {Status::dead}) == 0; }));
  EXPECT_EQ(left(store->inbox_operator()), 3U);
  EXPECT_TRUE(eventually([&] { return housekeeping.figures().front().inbox.dead_removed == 1; }));
}

TEST_P(HousekeepingTest, ForgetsKeysPastTheirRetention) {
  RecordProperty("requirement", "KIN-09");
  const auto store = make_store();
  store->keys().complete({.key = "young", .retention = hours{3}});
  store->keys().complete({.key = "old", .retention = hours{1}});
  clock_.advance(hours{2});
  Housekeeping housekeeping = make();
  housekeeping.add(kept("a", *store));
  EXPECT_TRUE(eventually([&] { return housekeeping.figures().front().keys_removed == 1; }));
  EXPECT_TRUE(store->keys().find(IdempotencyKey("young")));
}

TEST_P(HousekeepingTest, ForgetsEntriesOfTheAuditTrailPastTheirRetention) {
  const auto store = make_store();
  const AuditEntry entry{.actor = "ann", .action = AuditAction::purge, .subject = "{}"};
  store->audit().finish(store->audit().begin(entry), {.changed = 1});
  clock_.advance(hours{2});
  store->audit().begin(entry);
  HousekeepingOptions options = kBusy;
  options.audit_retention = hours{1};
  Housekeeping housekeeping = make(options);
  housekeeping.add(kept("a", *store));
  EXPECT_TRUE(eventually([&] { return housekeeping.figures().front().audit_removed == 1; }));
  EXPECT_EQ(store->audit().list().records.size(), 1U);
}

TEST_P(HousekeepingTest, EndsLapsedLeasesAndBuriesWhatWasDeliveredTooOften) {
  RecordProperty("requirement", "R-10,R-23");
  const auto store = make_store();
  for (QueueStore* queue : {&store->inbox(), &store->outbox()}) {
    queue->enqueue(message_of("m"));
    (void)queue->claim({.owner = OwnerToken::generate(), .lease = seconds{10}});
  }
  clock_.advance(seconds{10});
  Housekeeping housekeeping = make();
  store->policies().update(QueueKind::outbox, "*", {.max_deliveries = 1});
  housekeeping.add(kept("a", *store));
  EXPECT_TRUE(eventually([&] {
    const StoreHousekeeping figures = housekeeping.figures().front();
    return figures.inbox == QueueHousekeeping{.released = 1} &&
           figures.outbox == QueueHousekeeping{.buried = 1};
  }));
  EXPECT_FALSE(store->inbox().find(MessageKey{"shop", "m"})->lease);
  EXPECT_EQ(store->outbox().find(MessageKey{"shop", "m"})->status, Status::dead);
}

TEST_P(HousekeepingTest, WhatFailedOftenInAnOutboxIsNotBuriedWithALapse) {
  RecordProperty("requirement", "R-10");
  const auto store = make_store();
  const MessageKey key{"shop", "m"};
  const ClaimRequest request{.owner = OwnerToken::generate(), .lease = seconds{10}};
  store->outbox().enqueue(message_of("m"));
  for (int i = 0; i < defaults::kMaxDeliveries; ++i) {
    const ClaimedMessage claimed = store->outbox().claim(request).at(0);
    store->outbox().settle(
        Settlement{delivery_of(claimed), Abandon{.error = "away", .delay = seconds{1}}});
    clock_.advance(seconds{1});
  }
  (void)store->outbox().claim(request);
  clock_.advance(seconds{10});
  Housekeeping housekeeping = make();
  housekeeping.add(kept("a", *store));
  EXPECT_TRUE(eventually(
      [&] { return housekeeping.figures().front().outbox == QueueHousekeeping{.released = 1}; }));
  EXPECT_EQ(store->outbox().find(key)->status, Status::processing);
}

TEST_P(HousekeepingTest, FollowsTheStoresOfASetAsTheyComeAndGo) {
  RecordProperty("requirement", "IBX-098");
  Watched<std::vector<StoreLocation>> listed({{"a", "1"}, {"b", "1"}});
  StoreSet stores([&] { return listed.get(); }, [&](const StoreLocation&) { return make_store(); },
                  {.parallel_opens = 1}, {.logger = logger_});
  for (const MemberStorePtr& member : stores.members()) fill(member->store().inbox());
  clock_.advance(hours{1});
  Housekeeping housekeeping = make();
  housekeeping.follow(stores);
  const auto names = [&] {
    std::vector<std::string> all;
    for (const StoreHousekeeping& one : housekeeping.figures()) all.push_back(one.store);
    return all;
  };
  EXPECT_THAT(names(), ::testing::ElementsAre("a", "b"));
  for (const MemberStorePtr& member : stores.members()) {
    EXPECT_TRUE(
        eventually([&] { return left(member->store().inbox_operator(), {Status::done}) == 0; }));
  }

  const std::weak_ptr<MemberStore> gone = stores.find("a");
  listed.change([](auto& all) { all = {{"b", "2"}, {"c", "1"}}; });
  stores.refresh();
  EXPECT_THAT(names(), ::testing::ElementsAre("b", "c"));
  EXPECT_TRUE(eventually([&] { return gone.expired(); }));
  for (const MemberStorePtr& member : stores.members()) fill(member->store().inbox());
  clock_.advance(hours{1});
  for (const StoreHousekeeping& one : housekeeping.figures()) {
    const MemberStorePtr member = stores.find(one.store);
    EXPECT_TRUE(
        eventually([&] { return left(member->store().inbox_operator(), {Status::done}) == 0; }));
  }
}

TEST_P(HousekeepingTest, WhatItBuriesInStoresOfASetIsLogged) {
  RecordProperty("requirement", "R-33");
  StoreSet stores([&] { return std::vector<StoreLocation>{{"a", "1"}}; },
                  [&](const StoreLocation&) { return make_store(); }, {}, {.logger = logger_});
  Message late = message_of("late");
  late.expires_at = clock_.now() + seconds{1};
  stores.find("a")->store().inbox().enqueue(late);
  clock_.advance(seconds{1});
  Housekeeping housekeeping = make();
  housekeeping.follow(stores);
  EXPECT_TRUE(eventually([&] { return housekeeping.figures().front().inbox.buried == 1; }));
  housekeeping.stop();
  EXPECT_THAT(log_.str(), HasSubstr("warning message is dead store=a topic="));
  EXPECT_THAT(log_.str(), HasSubstr("source=shop message_id=late reason=expired"));
}

TEST_P(HousekeepingTest, AStoreThatFailsIsCountedAndHoldsUpNoOther) {
  const auto broken = make_store();
  const auto works = make_store();
  testing::FaultInjectingQueueStore inbox(broken->inbox(),
                                          [](std::string_view) { return testing::Fault::before; });
  HousekeptStore failing{.name = "broken",
                         .inbox = {inbox, broken->inbox_operator()},
                         .outbox = {inbox, broken->outbox_operator()},
                         .deliveries = {inbox, broken->deliveries_operator()},
                         .keys = broken->keys(),
                         .audit = broken->audit()};
  Housekeeping housekeeping = make();
  housekeeping.add(std::move(failing));
  fill(works->inbox());
  clock_.advance(hours{1});
  housekeeping.add(kept("works", *works));
  EXPECT_TRUE(eventually([&] {
    const std::vector<StoreHousekeeping> figures = housekeeping.figures();
    return figures[0].failures > 0 && figures[1].inbox.done_removed == 50;
  }));
  EXPECT_TRUE(housekeeping.figures()[0].failing_since);
  EXPECT_FALSE(housekeeping.figures()[1].failing_since);
  housekeeping.stop();
  EXPECT_THAT(log_.str(), HasSubstr("store=broken"));
}

TEST(PacedBatchTest, ShrinksWhileItTakesLongAndGrowsAgainUpToWhatItWas) {
  PacedBatch batch(100, Duration{20});
  EXPECT_EQ(batch.size(), 100U);
  batch.took(Duration{20});
  EXPECT_EQ(batch.size(), 100U) << "in time";
  batch.took(Duration{21});
  EXPECT_EQ(batch.size(), 50U);
  batch.took(Duration{10});
  EXPECT_EQ(batch.size(), 50U) << "just right";
  for (int i = 0; i < 10; ++i) batch.took(Duration{500});
  EXPECT_EQ(batch.size(), 1U);
  batch.took(Duration{1});
  EXPECT_EQ(batch.size(), 2U);
  for (int i = 0; i < 30; ++i) batch.took(Duration{1});
  EXPECT_EQ(batch.size(), 100U);
}

TEST(PacedBatchTest, BeginsSmallAndGrowsWhileItIsQuick) {
  PacedBatch batch(1'000, Duration{20});
  EXPECT_EQ(batch.size(), 100U);
  batch.took(Duration{5});
  EXPECT_EQ(batch.size(), 125U);
  for (int i = 0; i < 30; ++i) batch.took(Duration{5});
  EXPECT_EQ(batch.size(), 1'000U);
  batch.took(Duration{21});
  EXPECT_EQ(batch.size(), 500U);
}

/// The keys of a store, where every clean-up takes its time.
class SlowKeys final : public ForwardingKeyStore {
 public:
  SlowKeys(IdempotencyStore& below, testing::FakeClock& clock)
      : ForwardingKeyStore(below), clock_(clock) {}

  Watched<std::vector<std::size_t>> batches;
  std::atomic<bool> never_ends = false;  ///< there is always more to remove

 private:
  std::size_t do_cleanup(std::size_t limit) override {
    if (never_ends) return limit;
    const std::size_t removed = below().cleanup(limit);
    clock_.advance(Duration{30});
    if (removed > 0) batches.change([&](auto& all) { all.push_back(removed); });
    return removed;
  }

  testing::FakeClock& clock_;
};

TEST_P(HousekeepingTest, KeysGoInBatchesWhichAreSmallerWhereTheyTakeLong) {
  const auto store = make_store();
  for (int i = 0; i < 40; ++i) {
    store->keys().complete({.key = IdempotencyKey(std::to_string(i)), .retention = hours{1}});
  }
  clock_.advance(hours{2});
  SlowKeys keys(store->keys(), clock_);
  Housekeeping housekeeping = make();
  housekeeping.add({.name = "a",
                    .inbox = {store->inbox(), store->inbox_operator()},
                    .outbox = {store->outbox(), store->outbox_operator()},
                    .deliveries = {store->deliveries(), store->deliveries_operator()},
                    .keys = keys,
                    .audit = store->audit()});
  EXPECT_TRUE(eventually([&] { return housekeeping.figures().front().keys_removed == 40; }));
  EXPECT_THAT(keys.batches.get(), ::testing::ElementsAre(20, 10, 5, 2, 1, 1, 1));
}

TEST_P(HousekeepingTest, OneThatIsBehindForAnHourIsToldOnce) {
  const auto store = make_store();
  SlowKeys keys(store->keys(), clock_);
  keys.never_ends = true;
  Housekeeping housekeeping = make();
  housekeeping.add({.name = "a",
                    .inbox = {store->inbox(), store->inbox_operator()},
                    .outbox = {store->outbox(), store->outbox_operator()},
                    .deliveries = {store->deliveries(), store->deliveries_operator()},
                    .keys = keys,
                    .audit = store->audit()});
  const auto figures = [&] { return housekeeping.figures().front(); };
  ASSERT_TRUE(eventually([&] { return figures().behind_since.has_value(); }));
  EXPECT_EQ(figures().behind_since, clock_.now());
  EXPECT_FALSE(figures().is_behind(clock_.now() + hours{1} - Duration{1}));
  const auto removed_more = [&, before = figures().keys_removed] {
    return figures().keys_removed > before + 100;
  };
  EXPECT_TRUE(eventually(removed_more));
  clock_.advance(hours{1});
  EXPECT_TRUE(figures().is_behind(clock_.now()));
  const auto removed_much_more = [&, before = figures().keys_removed] {
    return figures().keys_removed > before + 100;
  };
  EXPECT_TRUE(eventually(removed_much_more));
  keys.never_ends = false;
  EXPECT_TRUE(eventually([&] { return !figures().behind_since; }));
  housekeeping.stop();
  const std::string log = log_.str();
  const std::size_t told = log.find("housekeeping cannot keep up");
  EXPECT_NE(told, log.npos) << log;
  EXPECT_EQ(log.find("housekeeping cannot keep up", told + 1), log.npos) << log;
}

TEST_P(HousekeepingTest, LapsedLeasesEndInBatches) {
  const auto store = make_store();
  for (int i = 0; i < 50; ++i) store->inbox().enqueue(message_of(std::to_string(i)));
  (void)store->inbox().claim({.owner = OwnerToken::generate(), .lease = seconds{10}, .limit = 50});
  clock_.advance(seconds{10});
  Watched<int> reaps;
  testing::FaultInjectingQueueStore counted(store->inbox(), [&](std::string_view call) {
    if (call == "reap") reaps.change([](int& count) { ++count; });
    return testing::Fault::none;
  });
  Housekeeping housekeeping = make();
  housekeeping.add({.name = "a",
                    .inbox = {counted, store->inbox_operator()},
                    .outbox = {store->outbox(), store->outbox_operator()},
                    .deliveries = {store->deliveries(), store->deliveries_operator()},
                    .keys = store->keys(),
                    .audit = store->audit()});
  EXPECT_TRUE(eventually([&] { return housekeeping.figures().front().inbox.released == 50; }));
  EXPECT_GE(reaps.get(), 3) << "of twenty each";
  housekeeping.stop();
}

TEST_P(HousekeepingTest, ANameIsThereOnceAndOptionsMustMakeSense) {
  const auto store = make_store();
  Housekeeping housekeeping = make();
  housekeeping.add(kept("a", *store));
  expect_error(ErrorCode::invalid_argument, [&] { housekeeping.add(kept("a", *store)); });
  expect_error(ErrorCode::out_of_range, [&] { (void)make({.reap_interval = Duration{0}}); });
  expect_error(ErrorCode::out_of_range, [&] { (void)make({.cleanup_interval = hours{25}}); });
  expect_error(ErrorCode::out_of_range, [&] { (void)make({.done_retention = Duration{-1}}); });
  expect_error(ErrorCode::out_of_range, [&] { (void)make({.dead_retention = Duration{-1}}); });
  expect_error(ErrorCode::out_of_range, [&] { (void)make({.batch = 0}); });
  expect_error(ErrorCode::out_of_range, [&] { (void)make({.threads = 0}); });
}

}  // namespace
}  // namespace oncebox
