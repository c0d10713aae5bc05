// Handing messages out under a lease: section 6.3, R-15, R-16, R-19, R-20, R-23.

#include <set>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class ClaimConformance : public StoreConformance {};

INSTANTIATE_TEST_SUITE_P(Stores, ClaimConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(ClaimConformance, MessageComesWholeWithItsLease) {
  proves("IBX-030", "IBX-034", "IBX-035", "IBX-036", "R-01", "R-09");
  const Message whole = message("a", {.headers = {{"correlationId", "c-1"}, {"x", ""}},
                                      .hash = hash_of("a"),
                                      .priority = 7,
                                      .partition = "customer-1",
                                      .due_at = now() - 1s,
                                      .expires_at = now() + 1h});
  enqueue(whole);
  const TimePoint enqueued_at = now();
  advance(5s);
  const ClaimedMessage claimed = claim_one(bob, 45s);
  EXPECT_EQ(claimed.message, whole);
  EXPECT_EQ(claimed.owner, bob);
  EXPECT_EQ(at(claimed.locked_until), at(now() + 45s));
  const MessageHistory expected{.deliveries = 1,
                                .content_version = 1,
                                .first_seen_at = enqueued_at,
                                .last_seen_at = enqueued_at};
  EXPECT_EQ(claimed.history, expected);

  const MessageRecord leased = record("a");
  const MessageLease lease{.owner = bob,
                           .delivery = claimed.delivery,
                           .locked_until = now() + 45s,
                           .leased_at = now(),
                           .worker = this_process()};
  EXPECT_EQ(leased.status, Status::processing);
  EXPECT_EQ(leased.lease, lease);
  EXPECT_EQ(leased.history, expected);
  EXPECT_EQ(at(leased.eligible_at), kNever) << "only a message without lease becomes eligible";
}

TEST_P(ClaimConformance, NothingReadyAnswersAnEmptyList) {
  proves("IBX-037");
  EXPECT_TRUE(claim_ids().empty());
  enqueue(message("a", {.due_at = now() + 1s}));
  EXPECT_TRUE(claim_ids().empty());
}

TEST_P(ClaimConformance, OnlyEnqueuedUnfinishedUnleasedMessagesAreHandedOut) {
  proves("IBX-031", "IBX-032", "IBX-033", "IBX-038", "R-02", "R-03");
  put_every_situation();
  const std::vector<std::string> claimed = ids_of(claim({.owner = bob}));
  EXPECT_EQ(std::set<std::string>(claimed.begin(), claimed.end()),
            (std::set<std::string>{"ready", "lapsed"}));
  EXPECT_EQ(claimed.size(), 2U);
  EXPECT_TRUE(claim({.owner = bob}).empty());
}

TEST_P(ClaimConformance, LimitIsRespected) {
  proves("IBX-030", "IBX-039");
  enqueue_ids({"a", "b", "c", "d", "e"});
  EXPECT_EQ(claim_ids(2), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(claim_ids(1), std::vector<std::string>{"c"});
  EXPECT_EQ(claim_ids(50), (std::vector<std::string>{"d", "e"}));
  EXPECT_TRUE(claim_ids().empty());
}

TEST_P(ClaimConformance, DefaultsAreThirtySecondsAndFiftyMessages) {
  proves("R-26", "IBX-119", "IBX-120");
  std::vector<Message> batch;
  batch.reserve(60);
  for (int i = 0; i < 60; ++i) batch.push_back(message("m" + std::to_string(i)));
  queue().enqueue(batch);
  const std::vector<ClaimedMessage> claimed = claim({.owner = alice});
  ASSERT_EQ(claimed.size(), 50U);
  for (const ClaimedMessage& one : claimed) EXPECT_EQ(at(one.locked_until), at(now() + 30s));
}

TEST_P(ClaimConformance, LeasedMessageIsHandedToNobodyUntilTheLeaseEnds) {
  proves("IBX-033", "IBX-106", "R-16");
  enqueue(message("a"));
  claim_one(alice, 10s);
  EXPECT_TRUE(claim({.owner = bob}).empty());
  EXPECT_TRUE(claim({.owner = alice}).empty()) << "not even to its own holder again";
  advance(10s - 1ms);
  EXPECT_TRUE(claim({.owner = bob}).empty());
  advance(1ms);
  EXPECT_EQ(claim_one(bob).owner, bob) << "a lease that ends now has ended";
}

TEST_P(ClaimConformance, ClaimTakesOverALapsedLeaseWithoutAReaper) {
  proves("R-23", "R-09", "R-15", "IBX-033");
  enqueue(message("a"));
  const ClaimedMessage first = claim_one(alice, 10s);
  advance(10s);
  const ClaimedMessage second = claim_one(bob, 10s);
  EXPECT_GT(second.delivery, first.delivery);
  EXPECT_EQ(second.history.deliveries, 2);
  EXPECT_EQ(second.history.lapses, 1);
  EXPECT_EQ(second.history.attempt, 0) << "a lapsed lease is not a failed attempt";
  EXPECT_EQ(at(second.locked_until), at(now() + 10s));
  EXPECT_EQ(record("a").lease->owner, bob);
}

TEST_P(ClaimConformance, DeliveryNumbersOfAMessageOnlyGrow) {
  proves("R-15", "R-24");
  enqueue(message("a"));
  DeliveryNumber last{};
  const auto claim_next = [&] {
    const ClaimedMessage claimed = claim_one();
    EXPECT_GT(claimed.delivery, last);
    last = claimed.delivery;
    return claimed;
  };
  claim_next();
  advance(defaults::kLease);  // lapsed, taken over by a claim
  claim_next();
  advance(defaults::kLease);
  queue().reap();
  settle(claim_next(), Release{});
  settle(claim_next(), Abandon{.delay = 1s});
  advance(1s);
  settle(claim_next(), Fail{.error = "broken"});
  const std::vector<MessageKey> keys{key("a")};
  queue_operator().revive(keys);
  reopen();
  EXPECT_EQ(claim_next().history.deliveries, 1) << "deliveries began anew, the number did not";
}

TEST_P(ClaimConformance, AbandonedMessageIsNotHandedOutBeforeItsBackoffEnds) {
  proves("IBX-042", "IBX-056");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.delay = 10s});
  advance(10s - 1ms);
  EXPECT_TRUE(claim_ids().empty());
  advance(1ms);
  EXPECT_EQ(claim_ids(), std::vector<std::string>{"a"});
}

TEST_P(ClaimConformance, OnlyTheTopicsAskedForAreHandedOut) {
  proves("R-19", "R-20", "IBX-021");
  for (const char* topic : {"order.created", "order.paid", "Order.Created", "order", "stock"}) {
    enqueue(message(topic, {.topic = topic}));
  }
  const auto claim_topics = [&](const TopicSelection& topics) {
    const std::vector<ClaimedMessage> claimed = claim({.owner = alice, .topics = topics});
    for (const ClaimedMessage& one : claimed) settle(one, Release{});
    return ids_of(claimed);
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(claim_topics({.only = {"order.created"}}), Ids{"order.created"});
  EXPECT_EQ(claim_topics({.only = {"order.*"}}), (Ids{"order.created", "order.paid"}));
  EXPECT_EQ(claim_topics({.only = {"order*"}}), (Ids{"order.created", "order.paid", "order"}));
  EXPECT_EQ(claim_topics({.only = {"order.*"}, .except = {"order.paid"}}), Ids{"order.created"});
  EXPECT_EQ(claim_topics({.except = {"order.*", "stock"}}), (Ids{"Order.Created", "order"}));
  EXPECT_EQ(claim_topics({.only = {"stock", "Order.*"}}), (Ids{"Order.Created", "stock"}));
  EXPECT_EQ(claim_topics({.only = {"*"}}).size(), 5U);
  EXPECT_TRUE(claim_topics({.except = {"*"}}).empty());
  EXPECT_TRUE(claim_topics({.only = {"orders"}}).empty());
}

TEST_P(ClaimConformance, PatternCharactersOfTheBackendMeanNothingInTopics) {
  proves("R-20");
  for (const char* topic : {"a_b", "axb", "a%b", "a[x]b", "a*b", "a?b", "a\\b"}) {
    enqueue(message(topic, {.topic = topic}));
  }
  for (const char* topic : {"a_b", "a%b", "a[x]b", "a*b", "a?b", "a\\b"}) {
    EXPECT_EQ(ids_of(claim({.owner = alice, .topics = {.only = {topic}}})),
              std::vector<std::string>{topic});
  }
  EXPECT_EQ(claim_ids(), std::vector<std::string>{"axb"});
}

TEST_P(ClaimConformance, PrefixPatternTakesTheStemLiterally) {
  proves("R-20");
  for (const char* topic : {"a_b.1", "axb.1", "a%.1", "abc.1", "Ω.1", "Ω"}) {
    enqueue(message(topic, {.topic = topic}));
  }
  const auto claim_pattern = [&](const char* pattern) {
    return ids_of(claim({.owner = alice, .topics = {.only = {pattern}}}));
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(claim_pattern("a_b*"), Ids{"a_b.1"});
  EXPECT_EQ(claim_pattern("a%*"), Ids{"a%.1"});
  EXPECT_EQ(claim_pattern("Ω.*"), Ids{"Ω.1"});
  EXPECT_EQ(claim_pattern("Ω*"), Ids{"Ω"});
}

TEST_P(ClaimConformance, ManyClaimsHandOutEverythingOnce) {
  proves("IBX-030", "IBX-036", "IBX-106");
  std::vector<Message> batch;
  batch.reserve(500);
  for (int i = 0; i < 500; ++i) batch.push_back(message("m" + std::to_string(i)));
  queue().enqueue(batch);
  std::set<std::string> handed_out;
  for (int i = 0; i < 100; ++i) {
    for (const std::string& id : claim_ids(7)) {
      EXPECT_TRUE(handed_out.insert(id).second) << id << " was handed out twice";
    }
  }
  EXPECT_EQ(handed_out.size(), 500U);
}

TEST_P(ClaimConformance, InboxAndOutboxAreSeparateSpaces) {
  proves("IBX-001", "R-01");
  Store& both = store();
  both.inbox().enqueue(message("a", {.payload = "in", .partition = "p"}));
  EXPECT_EQ(both.outbox().find(key("a")), std::nullopt);
  EXPECT_EQ(both.outbox().enqueue(message("a", {.payload = "out", .partition = "p"})).status,
            EnqueueStatus::accepted);

  const std::vector<ClaimedMessage> in = both.inbox().claim({.owner = alice});
  const std::vector<ClaimedMessage> out = both.outbox().claim({.owner = alice});
  ASSERT_EQ(in.size(), 1U);
  ASSERT_EQ(out.size(), 1U) << "the same partition key of another queue does not block";
  EXPECT_EQ(in[0].message.payload, Payload("in"));
  EXPECT_EQ(out[0].message.payload, Payload("out"));

  EXPECT_EQ(both.inbox().settle({.delivery = delivery_of(in[0])}), SettleStatus::settled);
  EXPECT_EQ(both.outbox().find(key("a"))->status, Status::processing);
  EXPECT_EQ(both.inbox_operator().count({.statuses = {Status::done}}), 1U);
  EXPECT_EQ(both.outbox_operator().count({.statuses = {Status::done}}), 0U);
  EXPECT_EQ(both.outbox_operator().stats().total().leased, 1U);
}

}  // namespace oncebox::conformance
