// Messages of one partition key, strictly in enqueue order and one at a time: R-29.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class PartitionConformance : public StoreConformance {
 protected:
  static Message of_partition(std::string_view id, std::string_view partition) {
    return message(id, {.partition = PartitionKey(partition)});
  }

  void enqueue_in(std::string_view partition, const Ids& ids) {
    for (const std::string& id : ids) enqueue(of_partition(id, partition));
  }

  ReviveOutcome revive(std::string_view id) {
    const std::vector<MessageKey> keys{key(id)};
    return queue_operator().revive(keys).front();
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, PartitionConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(PartitionConformance, OneIsInFlightPerKeyAndTheOthersWait) {
  proves("R-29");
  enqueue_in("p", {"p1", "p2", "p3"});
  enqueue_in("q", {"q1", "q2"});
  enqueue_ids({"free1", "free2"});
  const std::vector<ClaimedMessage> heads = claim();
  EXPECT_EQ(ids_of(heads), (Ids{"p1", "q1", "free1", "free2"}));
  EXPECT_TRUE(claim({.owner = bob}).empty());
  settle(heads[0]);
  EXPECT_EQ(claim_ids(), Ids{"p2"});
  settle(heads[1]);
  EXPECT_EQ(claim_ids(), Ids{"q2"});
}

TEST_P(PartitionConformance, EnqueueOrderIsStrictToTheEnd) {
  proves("R-29", "R-17");
  Ids expected;
  std::vector<Message> batch;
  for (int i = 0; i < 20; ++i) {
    expected.push_back("m" + std::to_string((i * 7) % 20));  // not the order of the names
    batch.push_back(of_partition(expected.back(), "p"));
  }
  queue().enqueue(batch);
  Ids handled;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ClaimedMessage claimed = claim_one();
    handled.push_back(claimed.message.key.message_id.str());
    settle(claimed);
  }
  EXPECT_EQ(handled, expected);
}

TEST_P(PartitionConformance, FailingHeadBlocksItsKeyUntilItIsDone) {
  proves("R-29");
  enqueue_in("p", {"a", "b"});
  for (int i = 0; i < 3; ++i) {
    settle(claim_one(), Abandon{.delay = 10s});
    EXPECT_TRUE(claim_ids().empty()) << "b must wait for a";
    advance(10s);
  }
  const ClaimedMessage head = claim_one();
  EXPECT_EQ(head.message.key, key("a"));
  settle(head);
  EXPECT_EQ(claim_ids(), Ids{"b"});
}

TEST_P(PartitionConformance, HeadThatIsNotYetDueBlocksItsKey) {
  proves("R-29", "IBX-023");
  enqueue(message("a", {.partition = "p", .due_at = now() + 1h}));
  enqueue(of_partition("b", "p"));
  EXPECT_TRUE(claim_ids().empty());
  advance(1h);
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(PartitionConformance, DeadHeadLetsTheNextOneThrough) {
  proves("R-29");
  enqueue_in("p", {"a", "b", "c"});
  settle(claim_one(), Fail{.error = "broken"});
  const ClaimedMessage second = claim_one();
  EXPECT_EQ(second.message.key, key("b"));
  queue().mark({.key = key("b"), .as = MarkAs::dead});
  EXPECT_EQ(claim_ids(), Ids{"c"});
}

TEST_P(PartitionConformance, ExpiredHeadLetsTheNextOneThrough) {
  proves("R-29", "R-28");
  enqueue(message("a", {.partition = "p", .expires_at = now() + 1s}));
  enqueue(of_partition("b", "p"));
  advance(1s);
  EXPECT_EQ(claim_ids(), Ids{"b"});
}

TEST_P(PartitionConformance, HeadDeliveredTooOftenLetsTheNextOneThrough) {
  proves("R-29", "R-10");
  enqueue_in("p", {"a", "b"});
  set_policy("*", {.max_deliveries = 1});
  const ClaimRequest once{.owner = alice};
  ASSERT_EQ(ids_of(claim(once)), Ids{"a"});
  advance(defaults::kLease);
  EXPECT_EQ(ids_of(claim(once)), Ids{"b"});
  queue().reap();
  EXPECT_EQ(record("a").status, Status::dead);
}

TEST_P(PartitionConformance, RevivedMessageIsTheHeadAgain) {
  proves("R-29", "R-24");
  enqueue_in("p", {"a", "b", "c"});
  settle(claim_one(), Fail{.error = "broken"});
  EXPECT_EQ(revive("a"), ReviveOutcome::revived);
  const ClaimedMessage head = claim_one();
  EXPECT_EQ(head.message.key, key("a"));
  settle(head);
  EXPECT_EQ(claim_ids(), Ids{"b"});
}

TEST_P(PartitionConformance, RevivedHeadWaitsForALaterOneThatIsLeased) {
  proves("R-29", "R-24");
  enqueue_in("p", {"a", "b", "c"});
  settle(claim_one(), Fail{.error = "broken"});
  const ClaimedMessage second = claim_one();
  EXPECT_EQ(revive("a"), ReviveOutcome::revived);
  EXPECT_TRUE(claim_ids().empty()) << "one in flight per key";
  settle(second, Abandon{.delay = 1s});
  EXPECT_EQ(claim_ids(), Ids{"a"}) << "and then the oldest, not the one that was under way";
}

TEST_P(PartitionConformance, RevivedHeadWithADelayBlocksItsKey) {
  proves("R-29", "R-24");
  enqueue_in("p", {"a", "b"});
  settle(claim_one(), Fail{.error = "broken"});
  const std::vector<MessageKey> keys{key("a")};
  queue_operator().revive(keys, {.delay = 10s});
  EXPECT_TRUE(claim_ids().empty());
  advance(10s);
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(PartitionConformance, PriorityPlaysNoPartWithinAKey) {
  proves("R-29", "R-17");
  enqueue(message("low", {.priority = -100, .partition = "p"}));
  enqueue(message("high", {.priority = 100, .partition = "p"}));
  enqueue(message("other", {.priority = 0}));
  EXPECT_EQ(claim_ids(), (Ids{"other", "low"})) << "among keys the head's own priority counts";
  queue().mark({.key = key("low"), .as = MarkAs::processed});
  EXPECT_EQ(claim_ids(), Ids{"high"});
}

TEST_P(PartitionConformance, DueTimePlaysNoPartWithinAKey) {
  proves("R-29", "R-17");
  enqueue(message("a", {.partition = "p", .due_at = now() + 10s}));
  enqueue(message("b", {.partition = "p", .due_at = now() + 5s}));
  advance(1h);
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(PartitionConformance, LapsedHeadIsTakenOverBeforeTheNext) {
  proves("R-29", "R-23");
  enqueue_in("p", {"a", "b"});
  claim_one(alice);
  advance(defaults::kLease);
  EXPECT_EQ(ids_of(claim({.owner = bob})), Ids{"a"});
  advance(defaults::kLease);
  queue().reap();
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(PartitionConformance, ReleasedHeadIsHandedOutBeforeTheNext) {
  proves("R-29");
  enqueue_in("p", {"a", "b"});
  settle(claim_one(), Release{});
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(PartitionConformance, HeadMarkedProcessedLetsTheNextOneThrough) {
  proves("R-29", "R-03");
  enqueue_in("p", {"a", "b"});
  claim_one();
  queue().mark({.key = key("a"), .as = MarkAs::processed});
  EXPECT_EQ(claim_ids(), Ids{"b"});
}

TEST_P(PartitionConformance, KeySpansTopicsAndSources) {
  proves("R-29", "R-20");
  enqueue(message("a", {.source = "stripe", .topic = "order.created", .partition = "p"}));
  enqueue(message("b", {.source = "paypal", .topic = "order.paid", .partition = "p"}));
  EXPECT_TRUE(claim({.owner = alice, .topics = {.only = {"order.paid"}}}).empty())
      << "a head that nobody asks for blocks its key too";
  EXPECT_EQ(claim_ids(), Ids{"a"});
  EXPECT_TRUE(claim({.owner = bob, .topics = {.only = {"order.paid"}}}).empty());
}

TEST_P(PartitionConformance, KeysAreCaseSensitiveAndComparedByteByByte) {
  proves("R-29", "R-21");
  for (const char* partition : {"p", "P", "p ", " p", "é", "e\u0301"}) {
    enqueue(of_partition("of " + std::string(partition), partition));
  }
  EXPECT_EQ(claim_ids().size(), 6U);
}

TEST_P(PartitionConformance, OrderIsThatOfTheFirstEnqueueNotOfTheObservation) {
  proves("R-29", "R-17");
  put(Situation::seen, "a");
  enqueue_in("p", {"b", "a"});
  EXPECT_EQ(claim_ids(), Ids{"b"});
}

TEST_P(PartitionConformance, EnqueuedAgainItKeepsItsPlace) {
  proves("R-29", "R-07");
  enqueue_in("p", {"a", "b"});
  advance(1s);
  enqueue(message("a", {.payload = "newer", .partition = "p"}));
  const ClaimedMessage head = claim_one();
  EXPECT_EQ(head.message.key, key("a"));
  enqueue(message("a", {.payload = "newest", .partition = "p"}));
  EXPECT_EQ(settle(head), SettleStatus::superseded);
  EXPECT_EQ(claim_ids(), Ids{"a"});
}

TEST_P(PartitionConformance, OneIsInFlightPerKeyAcrossHandles) {
  proves("R-29", "IBX-105");
  enqueue_in("p", {"a", "b"});
  const std::shared_ptr<Store> other = open();
  const ClaimedMessage head = claim_one(alice);
  EXPECT_TRUE(queue_of(*other).claim({.owner = bob}).empty());
  settle(head);
  EXPECT_EQ(ids_of(queue_of(*other).claim({.owner = bob})), Ids{"b"});
}

TEST_P(PartitionConformance, ManyKeysMoveIndependently) {
  proves("R-29");
  constexpr int kKeys = 30;
  constexpr int kPerKey = 4;
  for (int n = 0; n < kPerKey; ++n) {
    for (int k = 0; k < kKeys; ++k) {
      enqueue(of_partition(std::to_string(k) + "." + std::to_string(n), std::to_string(k)));
    }
  }
  for (int n = 0; n < kPerKey; ++n) {
    const std::vector<ClaimedMessage> heads = claim();
    ASSERT_EQ(heads.size(), std::size_t{kKeys});
    for (const ClaimedMessage& head : heads) {
      EXPECT_TRUE(head.message.key.message_id.str().ends_with("." + std::to_string(n)));
      settle(head);
    }
  }
}

}  // namespace oncebox::conformance
