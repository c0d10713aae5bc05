// Workers have names, and a queue tells who holds how much: R-32.

#include <algorithm>
#include <string>
#include <vector>

#include "oncebox/conformance/fixture.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/worker.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class WorkerConformance : public StoreConformance {
 protected:
  /// Claims as this worker, with an owner token of its own each time, as one over HTTP may.
  std::vector<ClaimedMessage> claim_as(const WorkerName& worker, std::size_t limit = 1) {
    return claim({.owner = OwnerToken::generate(), .limit = limit, .worker = worker});
  }

  [[nodiscard]] std::vector<WorkerRecord> workers() { return queue_operator().workers(); }
};

INSTANTIATE_TEST_SUITE_P(Stores, WorkerConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(WorkerConformance, ALeaseSaysWhoHasItAndSinceWhen) {
  proves("R-32");
  enqueue_ids({"a", "b", "c"});
  const TimePoint leased_at = now();
  const ClaimedMessage claimed = claim_as("shop-3:8124", 3).at(1);
  const MessageLease expected{.owner = claimed.owner,
                              .delivery = claimed.delivery,
                              .locked_until = claimed.locked_until,
                              .leased_at = leased_at,
                              .worker = "shop-3:8124"};
  EXPECT_EQ(record("b").lease, expected);
  advance(1s);
  enqueue(message("b"));
  EXPECT_EQ(record("b").lease, expected) << "after a duplicate";
  enqueue(message("b", {.payload = "other"}));
  EXPECT_EQ(record("b").lease, expected) << "after new content";
  const auto extended = queue().extend({.delivery = delivery_of(claimed), .lease = 5min});
  EXPECT_EQ(record("b").lease->leased_at, leased_at) << "after an extension";
  EXPECT_EQ(record("b").lease->worker, "shop-3:8124");
  EXPECT_EQ(record("b").lease->locked_until, extended.locked_until);
  for (const MessageRecord& listed : queue_operator().list({}).records) {
    EXPECT_EQ(listed.lease->worker, "shop-3:8124");
    EXPECT_EQ(listed.lease->leased_at, leased_at);
  }
}

TEST_P(WorkerConformance, ALeaseOfOthersStaysAsItIsWhenItsRunIsSettledInPart) {
  proves("R-32");
  enqueue_ids({"a", "b", "c", "d"});
  const TimePoint leased_at = now();
  const auto claimed = claim_as("w", 4);
  advance(1s);
  settle(claimed.at(1));
  settle(claimed.at(2), Abandon{.error = "no luck"});
  for (const char* id : {"a", "d"}) {
    EXPECT_EQ(record(id).lease->worker, "w") << id;
    EXPECT_EQ(record(id).lease->leased_at, leased_at) << id;
  }
}

TEST_P(WorkerConformance, ANewLeaseIsOfItsOwnWorker) {
  proves("R-32");
  enqueue_ids({"a"});
  settle(claim_as("first").at(0), Release{});
  advance(1s);
  const auto claimed = claim_as("second");
  EXPECT_EQ(record("a").lease->worker, "second");
  EXPECT_EQ(record("a").lease->leased_at, now());
}

TEST_P(WorkerConformance, WhoGivesNoNameIsThisProcess) {
  proves("R-32");
  enqueue_ids({"a"});
  const auto claimed = claim();
  EXPECT_EQ(record("a").lease->worker, this_process());
}

TEST_P(WorkerConformance, WorkersAreListedWithWhatTheyHold) {
  proves("R-32");
  EXPECT_TRUE(workers().empty());
  enqueue_ids({"a", "b", "c", "d"});
  const TimePoint begun = now();
  const auto held = claim_as("shop-1", 3);
  advance(1s);
  EXPECT_TRUE(claim({.owner = bob, .topics = {.only = {"none"}}, .worker = "idle"}).empty());
  settle(held.at(0));
  settle(held.at(1), Abandon{.error = "no luck"});
  const std::vector<WorkerRecord> expected{
      {.name = "idle", .leases = 0, .since = begun + 1s, .last_seen_at = begun + 1s},
      {.name = "shop-1", .leases = 1, .since = begun, .last_seen_at = begun}};
  EXPECT_EQ(workers(), expected);
  EXPECT_EQ(operator_of(*open()).workers(), expected) << "through another handle";

  advance(defaults::kLease);
  EXPECT_EQ(workers().at(1).leases, 0U) << "its lease has lapsed";
  const auto again = claim_as("shop-1", 2);
  EXPECT_EQ(workers().at(1), (WorkerRecord{.name = "shop-1",
                                           .leases = 2,
                                           .since = begun,
                                           .last_seen_at = begun + 1s + defaults::kLease}));
}

TEST_P(WorkerConformance, AWorkerIsForgottenWhenItHoldsNothingAndClaimsNoMore) {
  proves("R-32");
  enqueue_ids({"a"});
  const auto held = claim({.owner = alice, .lease = 2h, .worker = "holder"});
  EXPECT_TRUE(claim_as("idle").empty());
  advance(kWorkerRetention);
  ASSERT_EQ(workers().size(), 1U);
  EXPECT_EQ(workers().front().name, WorkerName("holder"));
  queue_operator().cleanup({});
  EXPECT_EQ(workers().size(), 1U);
  EXPECT_EQ(record("a").lease->worker, "holder");
  settle(held.at(0), Release{});
  EXPECT_TRUE(workers().empty());
  queue_operator().cleanup({});
  const auto claimed = claim_as("holder");
  EXPECT_EQ(workers().at(0),
            (WorkerRecord{.name = "holder", .leases = 1, .since = now(), .last_seen_at = now()}));
}

class ManyWorkersConformance : public WorkerConformance {};

INSTANTIATE_TEST_SUITE_P(Stores, ManyWorkersConformance, testing::ValuesIn(on_inbox()), case_name);

TEST_P(ManyWorkersConformance, OfVeryManyThoseThatHoldMessagesAreListedFirst) {
  proves("R-32");
  enqueue_ids({"a"});
  (void)claim({.owner = alice, .lease = 2h, .worker = "holder"});
  for (std::size_t i = 0; i < limits::kMaxListItems; ++i) {
    advance(1ms);
    EXPECT_TRUE(claim_as("idle-" + std::to_string(i)).empty());
  }
  const std::vector<WorkerRecord> listed = workers();
  EXPECT_EQ(listed.size(), limits::kMaxListItems);
  const auto is_listed = [&](const WorkerName& name) {
    return std::ranges::find(listed, name, &WorkerRecord::name) != listed.end();
  };
  EXPECT_TRUE(is_listed("holder"));
  EXPECT_FALSE(is_listed("idle-0")) << "it was seen before the others";
  EXPECT_TRUE(is_listed("idle-1"));
}

}  // namespace oncebox::conformance
