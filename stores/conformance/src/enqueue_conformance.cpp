// Taking messages in: section 6.2, and for keys that are known.

#include <variant>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class EnqueueConformance : public StoreConformance {
 protected:
  /// A message that comes again under the same key with other content.
  static Message other(std::string_view id, MessageParts parts = {}) {
    parts.payload = "other content";
    return message(id, parts);
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, EnqueueConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(EnqueueConformance, NewMessageIsAcceptedAndReady) {
  proves("IBX-013", "IBX-024", "IBX-025", "IBX-027", "R-09");
  const Message whole = message("a", {.headers = {{"correlationId", "c-1"}},
                                      .hash = hash_of("a"),
                                      .priority = 7,
                                      .partition = "customer-1",
                                      .expires_at = now() + 1h});
  EXPECT_EQ(queue().enqueue(whole), EnqueueOutcome{});
  const MessageRecord expected{
      .key = key("a"),
      .status = Status::processing,
      .state = State::ready,
      .message = whole,
      .hash = hash_of("a"),
      .history = {.content_version = 1, .first_seen_at = now(), .last_seen_at = now()},
      .eligible_at = now()};
  EXPECT_EQ(record("a"), expected);
}

TEST_P(EnqueueConformance, SeenMessageIsAccepted) {
  proves("IBX-025", "IBX-026", "IBX-029", "R-02");
  put(Situation::seen, "a");
  const TimePoint first_seen_at = now();
  advance(5s);
  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::accepted);
  const MessageHistory expected{
      .content_version = 1, .first_seen_at = first_seen_at, .last_seen_at = now()};
  EXPECT_EQ(record("a").history, expected);
  EXPECT_EQ(at(record("a").eligible_at), at(now()));
  EXPECT_EQ(claim_one().message, message("a"));
}

TEST_P(EnqueueConformance, ProcessingWithoutContentIsAccepted) {
  proves("IBX-029", "R-03");
  put(Situation::marked_processing, "a");
  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::accepted);
  EXPECT_EQ(record("a").history.content_version, 1);
  EXPECT_EQ(record("a").history.duplicates, 0);
  EXPECT_EQ(claim_one().message, message("a"));
}

TEST_P(EnqueueConformance, SameContentIsAPlainDuplicate) {
  proves("IBX-014", "IBX-026", "R-07", "R-09");
  const Message first = message("a", {.headers = {{"traceparent", "first"}}});
  enqueue(first);
  MessageRecord expected = record("a");
  advance(5s);
  EXPECT_EQ(enqueue(message("a", {.headers = {{"traceparent", "second"}}})),
            EnqueueStatus::duplicate);
  expected.history.duplicates = 1;
  expected.history.last_seen_at = now();
  EXPECT_EQ(record("a"), expected) << "payload and headers stay, and so does its place in line";
  EXPECT_EQ(claim_one().message, first);
  EXPECT_TRUE(claim_ids().empty()) << "a duplicate is not queued again";
}

TEST_P(EnqueueConformance, EveryEnqueueAfterTheFirstCountsAsADuplicate) {
  proves("IBX-014", "R-09");
  enqueue(message("a"));
  for (int i = 1; i <= 3; ++i) {
    enqueue(message("a"));
    enqueue(other("a"));
    EXPECT_EQ(record("a").history.duplicates, 2 * i);
    EXPECT_EQ(record("a").history.content_version, 2 * i) << "but the first brought nothing new";
  }
}

TEST_P(EnqueueConformance, ReadyMessageTakesNewContent) {
  proves("IBX-014", "IBX-029", "R-08", "R-09");
  enqueue(message("a", {.hash = hash_of("one")}));
  settle(claim_one(), Abandon{.delay = 1s});
  const Message newer = other("a", {.topic = "order.changed",
                                    .headers = {{"correlationId", "c-2"}},
                                    .hash = hash_of("one more"),
                                    .priority = 3,
                                    .due_at = now() + 10s,
                                    .expires_at = now() + 1h});
  EXPECT_EQ(enqueue(newer), EnqueueStatus::updated);
  const MessageRecord updated = record("a");
  EXPECT_EQ(updated.message, newer);
  EXPECT_EQ(updated.hash, newer.hash);
  EXPECT_EQ(updated.history.content_version, 2);
  EXPECT_EQ(updated.history.attempt, 1) << "attempts are never touched";
  EXPECT_EQ(at(updated.eligible_at), at(newer.due_at));
}

TEST_P(EnqueueConformance, EqualHashMeansEqualContentWhateverTheBytes) {
  proves("R-07", "R-18");
  enqueue(message("a", {.payload = "{\"total\": 1}", .hash = hash_of("one")}));
  EXPECT_EQ(enqueue(message("a", {.payload = "{\"total\":1}", .hash = hash_of("one")})),
            EnqueueStatus::duplicate);
  EXPECT_EQ(record("a").message->payload, Payload("{\"total\": 1}"));
  EXPECT_EQ(record("a").history.content_version, 1);
}

TEST_P(EnqueueConformance, WithoutComparableHashesEqualBytesMeanEqualContent) {
  proves("R-07", "R-18", "IBX-007");
  enqueue(message("a"));
  EXPECT_EQ(queue().enqueue(message("a", {.hash = hash_of("one")})),
            EnqueueOutcome{.status = EnqueueStatus::duplicate});
  EXPECT_EQ(record("a").hash, hash_of("one")) << "a hash is stored where there was none";

  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::duplicate);
  EXPECT_EQ(record("a").hash, hash_of("one"));

  const ContentHash md5("md5", "0123456789abcdef");
  EXPECT_EQ(queue().enqueue(message("a", {.hash = md5})),
            EnqueueOutcome{.status = EnqueueStatus::duplicate});
  EXPECT_EQ(record("a").hash, hash_of("one"));

  EXPECT_EQ(queue().enqueue(other("a", {.hash = md5})),
            EnqueueOutcome{.status = EnqueueStatus::updated});
  EXPECT_EQ(record("a").hash, md5);
  EXPECT_EQ(record("a").history.content_version, 2);
}

TEST_P(EnqueueConformance, NewTopicCountsAsNewContent) {
  proves("R-07", "IBX-021", "IBX-029");
  enqueue(message("a", {.topic = "order.created"}));
  EXPECT_EQ(enqueue(message("a", {.topic = "Order.Created"})), EnqueueStatus::updated);
  EXPECT_EQ(record("a").message->topic, Topic("Order.Created"));
  EXPECT_EQ(record("a").history.content_version, 2);

  const ClaimedMessage claimed = claim_one();
  EXPECT_EQ(enqueue(message("a", {.topic = "order.paid"})), EnqueueStatus::superseding);
  EXPECT_EQ(settle(claimed), SettleStatus::superseded) << "the holder ran the wrong handler";
  EXPECT_EQ(claim_one().message.topic, Topic("order.paid"));
}

TEST_P(EnqueueConformance, DuplicateTakesPriorityDueTimeAndExpiryNullIncluded) {
  proves("R-08", "IBX-029");
  enqueue(message("a", {.priority = 5, .due_at = now() + 60s, .expires_at = now() + 1h}));
  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::duplicate);
  EXPECT_EQ(record("a").message, message("a"));
  EXPECT_EQ(at(record("a").eligible_at), at(now()));

  const Message later =
      message("a", {.priority = -5, .due_at = now() + 5s, .expires_at = now() + 9s});
  EXPECT_EQ(enqueue(later), EnqueueStatus::duplicate);
  EXPECT_EQ(record("a").message, later);
  EXPECT_EQ(at(record("a").eligible_at), at(now() + 5s));
  EXPECT_TRUE(claim_ids().empty());
}

TEST_P(EnqueueConformance, NewDueTimeNeverShortensABackoff) {
  proves("R-08", "R-09", "IBX-042");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.delay = 40s});
  const TimePoint backoff_end = now() + 40s;

  enqueue(message("a"));
  EXPECT_EQ(at(record("a").eligible_at), at(backoff_end));
  enqueue(message("a", {.due_at = now() + 10s}));
  EXPECT_EQ(at(record("a").eligible_at), at(backoff_end));
  enqueue(message("a", {.due_at = now() + 100s}));
  EXPECT_EQ(at(record("a").eligible_at), at(now() + 100s));
  enqueue(message("a"));
  EXPECT_EQ(at(record("a").eligible_at), at(backoff_end));
  EXPECT_EQ(record("a").history.attempt, 1);

  advance(40s - 1ms);
  EXPECT_TRUE(claim_ids().empty());
  advance(1ms);
  EXPECT_EQ(claim_one().history.attempt, 1);
}

TEST_P(EnqueueConformance, ReadyDuplicateKeepsItsPlaceInLine) {
  proves("R-08", "R-17");
  enqueue(message("a"));
  advance(1s);
  enqueue(message("b"));
  advance(1s);
  enqueue(message("a"));
  enqueue(message("a", {.due_at = now() - 1s}));
  EXPECT_EQ(claim_ids(), (std::vector<std::string>{"a", "b"}));
}

TEST_P(EnqueueConformance, LeasedMessageWithTheSameContentStaysWithItsHolder) {
  proves("R-07", "IBX-014");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::duplicate);
  EXPECT_EQ(record("a").lease->owner, alice);
  EXPECT_EQ(settle(claimed), SettleStatus::settled);
  EXPECT_EQ(record("a").status, Status::done);
}

TEST_P(EnqueueConformance, LeasedMessageWithOtherContentIsSuperseded) {
  proves("R-07", "R-09", "IBX-029");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  const MessageLease lease = *record("a").lease;
  advance(3s);
  EXPECT_EQ(enqueue(other("a")), EnqueueStatus::superseding);
  EXPECT_EQ(record("a").lease, lease) << "the holder keeps its lease until it settles";
  EXPECT_EQ(record("a").history.content_version, 2);
  EXPECT_TRUE(claim_ids().empty());

  advance(3s);
  EXPECT_EQ(settle(claimed), SettleStatus::superseded);
  EXPECT_EQ(record("a").lease, std::nullopt);
  EXPECT_EQ(at(record("a").eligible_at), at(now()));
  const ClaimedMessage again = claim_one();
  EXPECT_EQ(again.message, other("a"));
  EXPECT_EQ(again.history.attempt, 0);
  EXPECT_EQ(again.history.deliveries, 2);
  EXPECT_EQ(settle(again), SettleStatus::settled);
}

TEST_P(EnqueueConformance, ContentThatComesWhileALapsedLeaseIsUnsettledSupersedesItToo) {
  proves("R-07", "R-14", "R-16");
  enqueue(message("a"));
  const ClaimedMessage claimed = claim_one();
  advance(defaults::kLease);
  EXPECT_EQ(enqueue(other("a")), EnqueueStatus::updated) << "it is not leased any more";
  EXPECT_EQ(settle(claimed), SettleStatus::superseded);
  EXPECT_EQ(claim_one().message, other("a"));
}

TEST_P(EnqueueConformance, DoneMessageChangesNothingButLastSeenAndDuplicates) {
  proves("IBX-028", "IBX-014", "R-06");
  put(Situation::done, message("a", {.hash = hash_of("one")}));
  MessageRecord expected = record("a");
  advance(5s);
  const Message again = other("a", {.topic = "order.paid",
                                    .hash = hash_of("one"),
                                    .priority = 9,
                                    .due_at = now() + 1h,
                                    .expires_at = now() + 2h});
  EXPECT_EQ(enqueue(again), EnqueueStatus::duplicate_done);
  EXPECT_EQ(enqueue(again, {.on_dead = DeadPolicy::revive}), EnqueueStatus::duplicate_done);
  expected.history.last_seen_at = now();
  expected.history.duplicates = 2;
  EXPECT_EQ(record("a"), expected);
  advance(2h);
  EXPECT_TRUE(claim_ids().empty());
}

TEST_P(EnqueueConformance, ObservedAndMarkedProcessedIsDoneForAnEnqueueToo) {
  proves("IBX-028", "R-06", "R-03");
  put(Situation::seen, "a");
  queue().mark({.key = key("a"), .as = MarkAs::processed});
  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::duplicate_done);
  EXPECT_EQ(record("a").message, std::nullopt);
  EXPECT_TRUE(claim_ids().empty());
}

TEST_P(EnqueueConformance, DeadMessageTakesContentAndStaysDead) {
  proves("IBX-029", "R-05");
  put(Situation::dead, "a");
  const MessageRecord dead = record("a");
  advance(5s);
  const Message newer = other("a", {.topic = "order.paid", .hash = hash_of("one")});
  EXPECT_EQ(enqueue(newer), EnqueueStatus::duplicate_dead);
  const MessageRecord updated = record("a");
  EXPECT_EQ(updated.status, Status::dead);
  EXPECT_EQ(updated.message, newer);
  EXPECT_EQ(updated.hash, newer.hash);
  EXPECT_EQ(updated.history.content_version, 2);
  EXPECT_EQ(updated.history.duplicates, 1);
  EXPECT_EQ(updated.history.last_error, "broken");
  EXPECT_EQ(updated.finished_at, dead.finished_at);
  EXPECT_EQ(updated.revivals, dead.revivals);

  EXPECT_EQ(enqueue(newer), EnqueueStatus::duplicate_dead);
  EXPECT_EQ(record("a").history.content_version, 2) << "the same content brings nothing new";
  advance(1h);
  EXPECT_TRUE(claim_ids().empty());
}

TEST_P(EnqueueConformance, DeadMessageComesBackWhenAskedFor) {
  proves("R-05", "R-24");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.delay = 1s});
  advance(1s);
  settle(claim_one(), Fail{.error = "broken"});
  advance(5s);
  EXPECT_EQ(enqueue(other("a"), {.on_dead = DeadPolicy::revive}), EnqueueStatus::revived);
  const MessageRecord revived = record("a");
  EXPECT_EQ(revived.status, Status::processing);
  EXPECT_EQ(revived.history.attempt, 0);
  EXPECT_EQ(revived.history.deliveries, 0);
  EXPECT_EQ(revived.history.last_error, "broken");
  EXPECT_EQ(at(revived.finished_at), kNever);
  EXPECT_EQ(at(revived.eligible_at), at(now()));
  EXPECT_EQ(revived.revivals.count, 1);
  EXPECT_EQ(at(revived.revivals.last_at), at(now()));
  EXPECT_EQ(claim_one().message, other("a"));
}

TEST_P(EnqueueConformance, KeyThatDiedWithoutContentStaysDead) {
  proves("R-05", "R-03");
  put(Situation::seen, "a");
  queue().mark({.key = key("a"), .as = MarkAs::dead});
  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::duplicate_dead);
  EXPECT_EQ(record("a").status, Status::dead);
  EXPECT_EQ(record("a").message, message("a"));
  EXPECT_EQ(record("a").history.duplicates, 1);
  EXPECT_TRUE(claim_ids().empty());
  EXPECT_EQ(enqueue(message("a"), {.on_dead = DeadPolicy::revive}), EnqueueStatus::revived);
  EXPECT_EQ(claim_one().message, message("a"));
}

TEST_P(EnqueueConformance, PartitionKeyIsFixedByTheFirstEnqueue) {
  proves("R-29");
  enqueue(message("a", {.partition = "first"}));
  enqueue(message("b"));
  enqueue(other("a", {.partition = "second"}));
  enqueue(message("a"));
  enqueue(message("b", {.partition = "late"}));
  EXPECT_EQ(record("a").message->partition_key, PartitionKey("first"));
  EXPECT_EQ(record("b").message->partition_key, std::nullopt);
}

TEST_P(EnqueueConformance, BatchAnswersInOrderAsIfOneByOne) {
  proves("IBX-014", "IBX-102");
  const std::vector<Message> batch{message("a"), message("b"), message("a"), other("a")};
  const std::vector<EnqueueOutcome> expected{{.status = EnqueueStatus::accepted},
                                             {.status = EnqueueStatus::accepted},
                                             {.status = EnqueueStatus::duplicate},
                                             {.status = EnqueueStatus::updated}};
  EXPECT_EQ(queue().enqueue(batch), expected);
  EXPECT_EQ(record("a").message, other("a"));
  EXPECT_EQ(record("a").history.duplicates, 2);
  EXPECT_TRUE(queue().enqueue(std::vector<Message>{}).empty());
  EXPECT_EQ(claim_ids(), (std::vector<std::string>{"a", "b"}));
}

TEST_P(EnqueueConformance, TwoSourcesMayUseOneMessageId) {
  proves("IBX-001", "R-01");
  EXPECT_EQ(enqueue(message("a", {.source = "stripe"})), EnqueueStatus::accepted);
  const auto only_one = find_by_id(queue_operator(), "a");
  ASSERT_TRUE(std::holds_alternative<MessageRecord>(only_one));
  EXPECT_EQ(std::get<MessageRecord>(only_one), record("a", "stripe"));

  EXPECT_EQ(enqueue(message("a", {.source = "paypal"})), EnqueueStatus::accepted);
  EXPECT_TRUE(std::holds_alternative<Ambiguous>(find_by_id(queue_operator(), "a")));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(find_by_id(queue_operator(), "b")));

  const std::vector<ClaimedMessage> claimed = claim();
  ASSERT_EQ(claimed.size(), 2U);
  EXPECT_EQ(settle(claimed[0]), SettleStatus::settled);
  EXPECT_EQ(record("a", "stripe").status, Status::done);
  EXPECT_EQ(record("a", "paypal").status, Status::processing);
}

TEST_P(EnqueueConformance, FutureDueTimeIsWaitedForToTheMillisecond) {
  proves("IBX-023", "IBX-032");
  enqueue(message("a", {.due_at = now() + 60s}));
  EXPECT_EQ(at(record("a").eligible_at), at(now() + 60s));
  EXPECT_TRUE(claim_ids().empty());
  advance(60s - 1ms);
  EXPECT_TRUE(claim_ids().empty());
  advance(1ms);
  EXPECT_EQ(claim_ids(), std::vector<std::string>{"a"});
}

TEST_P(EnqueueConformance, PastOrPresentOrNoDueTimeMeansAtOnce) {
  proves("IBX-024", "IBX-032");
  enqueue(message("none"));
  enqueue(message("past", {.due_at = now() - 24h}));
  enqueue(message("present", {.due_at = now()}));
  enqueue(message("epoch", {.due_at = kMinTime}));
  for (const char* id : {"none", "past", "present", "epoch"}) {
    EXPECT_EQ(at(record(id).eligible_at), at(now())) << id;
  }
  EXPECT_EQ(claim_ids(), (std::vector<std::string>{"none", "past", "present", "epoch"}));
}

}  // namespace oncebox::conformance
