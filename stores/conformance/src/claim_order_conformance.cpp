// In which order messages are handed out: R-17. Every claim here is made by one thread, so the
// order is exact.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class ClaimOrderConformance : public StoreConformance {};

INSTANTIATE_TEST_SUITE_P(Stores, ClaimOrderConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(ClaimOrderConformance, EnqueueOrderDecidesAmongEquals) {
  proves("R-17");
  enqueue(message("z"));
  enqueue(message("a"));
  const std::vector<Message> batch{message("m"), message("c"), message("y")};
  queue().enqueue(batch);
  EXPECT_EQ(claim_ids(), (Ids{"z", "a", "m", "c", "y"}));
}

TEST_P(ClaimOrderConformance, HigherPriorityGoesFirstOverItsWholeRange) {
  proves("R-17");
  for (const int priority : {-100, 0, 1, 100, -1, 99, -99}) {
    enqueue(message(std::to_string(priority), {.priority = priority}));
    advance(1s);
  }
  EXPECT_EQ(claim_ids(3), (Ids{"100", "99", "1"}));
  EXPECT_EQ(claim_ids(), (Ids{"0", "-1", "-99", "-100"}));
}

TEST_P(ClaimOrderConformance, TimeOfEligibilityDecidesWithinAPriority) {
  proves("R-17");
  enqueue(message("due_at_30", {.due_at = now() + 30s}));
  enqueue(message("due_at_10", {.due_at = now() + 10s}));
  advance(20s);
  enqueue(message("came_at_20"));
  advance(20s);
  enqueue(message("came_at_40"));
  EXPECT_EQ(claim_ids(), (Ids{"due_at_10", "came_at_20", "due_at_30", "came_at_40"}));
}

TEST_P(ClaimOrderConformance, DueTimeInThePastDoesNotJumpTheQueue) {
  proves("R-17", "IBX-024");
  enqueue(message("a"));
  advance(10s);
  enqueue(message("b", {.due_at = now() - 1h}));
  EXPECT_EQ(claim_ids(), (Ids{"a", "b"}));
}

TEST_P(ClaimOrderConformance, PriorityOutweighsWaiting) {
  proves("R-17");
  enqueue(message("early"));
  advance(1h);
  enqueue(message("urgent", {.priority = 1}));
  EXPECT_EQ(claim_ids(), (Ids{"urgent", "early"}));
}

TEST_P(ClaimOrderConformance, PriorityThatIsNotYetDueDoesNotHoldUpOthers) {
  proves("R-17", "IBX-023");
  enqueue(message("urgent", {.priority = 100, .due_at = now() + 1s}));
  enqueue(message("ordinary"));
  EXPECT_EQ(claim_ids(1), Ids{"ordinary"});
}

TEST_P(ClaimOrderConformance, NewPriorityOfADuplicateMovesIt) {
  proves("R-17", "R-08");
  enqueue_ids({"a", "b", "c"});
  enqueue(message("c", {.priority = 5}));
  enqueue(message("a", {.priority = -5}));
  EXPECT_EQ(claim_ids(), (Ids{"c", "b", "a"}));
}

TEST_P(ClaimOrderConformance, AbandonedMessageStandsWhereItsBackoffEnds) {
  proves("R-17", "IBX-056");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.delay = 10s});
  advance(5s);
  enqueue(message("b"));
  advance(6s);
  enqueue(message("c"));
  EXPECT_EQ(claim_ids(), (Ids{"b", "a", "c"}));
}

TEST_P(ClaimOrderConformance, ReleasedMessageKeepsItsPlace) {
  proves("R-17");
  enqueue(message("a"));
  advance(1s);
  enqueue(message("b"));
  advance(1s);
  const std::vector<ClaimedMessage> claimed = claim(1);
  ASSERT_EQ(ids_of(claimed), Ids{"a"});
  advance(1s);
  settle(claimed[0], Release{});
  EXPECT_EQ(claim_ids(), (Ids{"a", "b"}));
}

TEST_P(ClaimOrderConformance, LapsedLeaseStandsWhereTheLeaseEndedHoweverLateItIsNoticed) {
  proves("R-17", "R-23");
  for (const bool reap_first : {false, true}) {
    SCOPED_TRACE(reap_first ? "reaped first" : "taken over by the claim");
    const std::string suffix = reap_first ? "2" : "1";
    enqueue(message("lapses" + suffix));
    claim_one(alice, 30s);
    advance(20s);
    enqueue(message("before" + suffix));
    advance(20s);
    enqueue(message("after" + suffix));
    advance(1h);
    if (reap_first) queue().reap();
    const std::vector<ClaimedMessage> claimed = claim({.owner = bob});
    EXPECT_EQ(ids_of(claimed), (Ids{"before" + suffix, "lapses" + suffix, "after" + suffix}));
    for (const ClaimedMessage& one : claimed) settle(one);
  }
}

TEST_P(ClaimOrderConformance, SupersededMessageStandsWhereItsDeliveryEnded) {
  proves("R-17", "R-07");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  enqueue(message("a", {.payload = "newer"}));
  advance(1s);
  enqueue(message("b"));
  advance(1s);
  EXPECT_EQ(settle(claimed), SettleStatus::superseded);
  EXPECT_EQ(claim_ids(), (Ids{"b", "a"}));
}

TEST_P(ClaimOrderConformance, RevivedMessageStandsWhereItWasRevived) {
  proves("R-17", "R-24");
  put(Situation::dead, "a");
  advance(1s);
  enqueue(message("b"));
  advance(1s);
  const std::vector<MessageKey> keys{key("a")};
  queue_operator().revive(keys);
  advance(1s);
  enqueue(message("c"));
  EXPECT_EQ(claim_ids(), (Ids{"b", "a", "c"}));
}

TEST_P(ClaimOrderConformance, ObservationGivesNoPlaceInLine) {
  proves("R-17", "R-02");
  put(Situation::seen, "a");
  advance(1s);
  enqueue(message("b"));
  enqueue(message("a"));
  EXPECT_EQ(claim_ids(), (Ids{"b", "a"}));
}

TEST_P(ClaimOrderConformance, OrderSurvivesReopening) {
  proves("R-17", "IBX-013");
  enqueue_ids({"c", "a", "b"});
  enqueue(message("urgent", {.priority = 1}));
  reopen();
  enqueue(message("d"));
  EXPECT_EQ(claim_ids(), (Ids{"urgent", "c", "a", "b", "d"}));
}

TEST_P(ClaimOrderConformance, WantedTopicsAmongManyOthersAreClaimedInOrder) {
  proves("R-17", "R-20");
  std::vector<Message> messages;
  for (int i = 0; i < 300; ++i) {
    const std::string number = std::to_string(i);
    messages.push_back(message("m" + number, {.topic = "other." + number}));
  }
  queue().enqueue(messages);
  enqueue(message("a", {.topic = "order.paid"}));
  enqueue(message("b", {.topic = "order.sent", .priority = 1}));
  enqueue(message("c", {.topic = "mail"}));
  enqueue(message("d", {.topic = "order.paid", .priority = 1}));
  enqueue(message("e", {.topic = "mail.sent"}));
  enqueue(message("f", {.topic = "order.paid"}));
  const TopicSelection topics{.only = {"order.*", "mail", "order.paid", "none"},
                              .except = {"order.s*"}};
  EXPECT_EQ(ids_of(claim({.owner = alice, .limit = 2, .topics = topics})), (Ids{"d", "a"}));
  EXPECT_EQ(ids_of(claim({.owner = alice, .limit = 9, .topics = topics})), (Ids{"c", "f"}));
  EXPECT_TRUE(claim({.owner = alice, .topics = topics}).empty());
  EXPECT_EQ(claim({.owner = alice, .limit = 400}).size(), 302U);
}

}  // namespace oncebox::conformance
