// Bringing dead messages back with another payload, and keeping what they had.

#include "oncebox/conformance/fixture.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class OperatorEditConformance : public StoreConformance {
 protected:
  ReviveOutcome edit(std::string_view id, const Payload& payload,
                     const ReviveOptions& options = {}) {
    const std::vector<EditedMessage> edits{{.key = key(id), .payload = payload}};
    return queue_operator().revive_edited(edits, options).front();
  }

  [[nodiscard]] std::vector<PastContent> past(std::string_view id) {
    return queue_operator().past_contents(key(id));
  }

  void bury(std::string_view id) { queue().mark({.key = key(id), .as = MarkAs::dead}); }
};

INSTANTIATE_TEST_SUITE_P(Stores, OperatorEditConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(OperatorEditConformance, EditedMessageIsHandedOutWithItsNewPayloadAndItsOldHeaders) {
  proves("R-24", "R-30");
  Headers headers;
  headers.set("tenant", "acme");
  const Message original =
      message("a", {.payload = "amount: -1", .headers = headers, .hash = hash_of("amount: -1")});
  put(Situation::dead, original);
  advance(1h);
  MessageRecord expected = record("a");
  EXPECT_EQ(edit("a", "amount: 1", {.reason = "the sign was wrong"}), ReviveOutcome::revived);
  expected.status = Status::processing;
  expected.state = State::ready;
  expected.message->payload = "amount: 1";
  expected.message->hash = ContentHash::sha256_of("amount: 1");
  expected.hash = expected.message->hash;
  expected.history.attempt = 0;
  expected.history.deliveries = 0;
  expected.history.lapses = 0;
  ++expected.history.content_version;
  expected.finished_at.reset();
  expected.eligible_at = now();
  expected.revivals = {.count = 1, .last_at = now(), .last_reason = "the sign was wrong"};
  EXPECT_EQ(record("a"), expected);
  const ClaimedMessage claimed = claim_one();
  EXPECT_EQ(claimed.message, *expected.message);
  EXPECT_EQ(settle(claimed), SettleStatus::settled);
}

TEST_P(OperatorEditConformance, WhatWasReplacedIsKeptWithWhoWhenAndWhy) {
  proves("R-24", "R-30");
  put(Situation::dead, message("a", {.payload = "first", .hash = hash_of("first")}));
  EXPECT_TRUE(past("a").empty());
  advance(1s);
  const TimePoint first_edit = now();
  edit("a", "second", {.reason = "a typo", .actor = "alice"});
  bury("a");
  advance(1s);
  edit("a", std::string("\0\xff", 2), {.actor = "bob"});
  const std::vector<PastContent> expected{{.content_version = 1,
                                           .payload = "first",
                                           .hash = hash_of("first"),
                                           .replaced_at = first_edit,
                                           .replaced_by = harness().actor_named("alice"),
                                           .reason = "a typo"},
                                          {.content_version = 2,
                                           .payload = "second",
                                           .hash = ContentHash::sha256_of("second"),
                                           .replaced_at = now(),
                                           .replaced_by = harness().actor_named("bob")}};
  EXPECT_EQ(past("a"), expected);
  reopen();
  EXPECT_EQ(past("a"), expected);
  EXPECT_EQ(record("a").message->payload, Payload(std::string("\0\xff", 2)));
  EXPECT_TRUE(past("nobody").empty());
}

TEST_P(OperatorEditConformance, PayloadThatHadNoHashIsKeptWithout) {
  proves("R-24");
  put(Situation::dead, message("a", {.payload = ""}));
  edit("a", "");
  ASSERT_EQ(past("a").size(), 1U);
  EXPECT_FALSE(past("a").front().hash);
  EXPECT_EQ(past("a").front().payload, Payload());
  EXPECT_EQ(record("a").hash, ContentHash::sha256_of(""));
  EXPECT_EQ(record("a").history.content_version, 2) << "an edit is one, also when nothing differs";
}

TEST_P(OperatorEditConformance, OnlyTheDeadThatHaveContentAreEdited) {
  proves("R-24");
  put_every_situation();
  put(Situation::seen, "never enqueued");
  bury("never enqueued");
  const QueueDump before = dump();
  for (const Situation situation : kEverySituation) {
    if (situation == Situation::dead) continue;
    EXPECT_EQ(edit(to_string(situation), "x"), ReviveOutcome::not_dead) << to_string(situation);
  }
  EXPECT_EQ(edit("nobody", "x"), ReviveOutcome::unknown);
  EXPECT_EQ(edit("never enqueued", "x"), ReviveOutcome::no_content);
  EXPECT_TRUE(unchanged(before, dump()));
  EXPECT_TRUE(past("never enqueued").empty());
}

TEST_P(OperatorEditConformance, BatchIsAnsweredInOrderAndASecondEditOfOneMessageFindsItAlive) {
  proves("R-24", "R-30", "IBX-102");
  for (const char* id : {"a", "b"}) put(Situation::dead, id);
  put(Situation::done, "c");
  const std::vector<EditedMessage> edits{{key("b"), "b1"},
                                         {key("c"), "c1"},
                                         {key("nobody"), "n1"},
                                         {key("a"), "a1"},
                                         {key("b"), "b2"}};
  EXPECT_EQ(queue_operator().revive_edited(edits),
            (std::vector{ReviveOutcome::revived, ReviveOutcome::not_dead, ReviveOutcome::unknown,
                         ReviveOutcome::revived, ReviveOutcome::not_dead}));
  EXPECT_EQ(record("b").message->payload, Payload("b1"));
  EXPECT_EQ(past("b").size(), 1U);
  EXPECT_TRUE(queue_operator().revive_edited(std::vector<EditedMessage>{}).empty());
}

TEST_P(OperatorEditConformance, DelayDueTimeExpiryAndPartitionCountAsForARevival) {
  proves("R-13", "R-24", "R-28");
  const TimePoint due_at = now() + 1h;
  put(Situation::dead, "a");
  enqueue(message("b", {.due_at = due_at, .expires_at = now() + 1s}));
  enqueue(message("p1", {.partition = "p"}));
  enqueue(message("p2", {.partition = "p"}));
  bury("b");
  bury("p1");
  advance(1s);
  edit("a", "x", {.delay = 10s});
  edit("b", "x");
  edit("p1", "x");
  EXPECT_EQ(at(record("a").eligible_at), at(now() + 10s));
  EXPECT_EQ(at(record("b").eligible_at), at(due_at));
  EXPECT_EQ(at(record("b").message->expires_at), kNever);
  EXPECT_EQ(claim_one().message.key, key("p1")) << "the head of its partition again";
}

TEST_P(OperatorEditConformance, DuplicateOfTheOriginalIsNewContentAfterAnEdit) {
  proves("R-24", "R-06");
  const Message original = message("a", {.payload = "old", .hash = hash_of("old")});
  put(Situation::dead, original);
  edit("a", "new");
  EXPECT_EQ(enqueue(original), EnqueueStatus::updated);
  EXPECT_EQ(record("a").message->payload, Payload("old"));
  EXPECT_EQ(record("a").history.content_version, 3);
  EXPECT_EQ(past("a").size(), 1U) << "only what an operator replaced is kept";
}

TEST_P(OperatorEditConformance, PastGoesWithTheMessage) {
  proves("R-30", "IBX-098");
  for (const char* id : {"purged", "matched", "dead for long", "done for long"}) {
    put(Situation::dead, id);
    edit(id, "x");
    settle(claim_one(),
           std::string_view(id) == "done for long" ? Verdict(Ack{}) : Verdict(Fail{.error = "no"}));
    ASSERT_EQ(past(id).size(), 1U);
  }
  queue_operator().purge(std::vector{key("purged")});
  queue_operator().purge_matching({.message_id = "matched"}, 1);
  queue_operator().cleanup({.done_retention = 0s, .dead_retention = 0s});
  for (const char* id : {"purged", "matched", "dead for long", "done for long"}) {
    EXPECT_FALSE(is_stored(id)) << id;
    EXPECT_TRUE(past(id).empty()) << id;
    put(Situation::dead, id);
    EXPECT_TRUE(past(id).empty()) << "it is another message now: " << id;
    edit(id, "y");
    EXPECT_EQ(past(id).size(), 1U) << id;
    settle(claim_one());
  }
}

TEST_P(OperatorEditConformance, MessageThatWasEditedTooOftenIsAConflictAndTheWholeBatchWithIt) {
  proves("R-24", "IBX-102");
  put(Situation::dead, "a");
  for (std::size_t i = 0; i < limits::kMaxPastContents; ++i) {
    ASSERT_EQ(edit("a", std::to_string(i)), ReviveOutcome::revived);
    bury("a");
  }
  put(Situation::dead, "b");
  const std::vector<EditedMessage> edits{{key("b"), "x"}, {key("a"), "x"}};
  expect_refused("one more", ErrorCode::conflict, [&] { queue_operator().revive_edited(edits); });
  EXPECT_TRUE(past("b").empty());
  EXPECT_EQ(past("a").size(), limits::kMaxPastContents);
  EXPECT_EQ(queue_operator().revive(std::vector{key("a")}).front(), ReviveOutcome::revived);
}

TEST_P(OperatorEditConformance, LimitsHoldForEditsToo) {
  proves("R-13", "R-24");
  put(Situation::dead, "a");
  const std::vector<EditedMessage> one{{key("a"), "x"}};
  for (const Duration delay : {-1ms, limits::kMaxDelay + 1ms}) {
    expect_refused("delay", ErrorCode::out_of_range,
                   [&] { queue_operator().revive_edited(one, {.delay = delay}); });
  }
  const std::vector<EditedMessage> many(limits::kMaxBatchItems + 1, one.front());
  expect_refused("batch", ErrorCode::out_of_range, [&] { queue_operator().revive_edited(many); });
  const std::vector<EditedMessage> large{
      {key("a"), std::string(store().capabilities().max_payload_bytes + 1, 'x')}};
  expect_refused("payload", ErrorCode::invalid_argument,
                 [&] { queue_operator().revive_edited(large); });
}

TEST_P(OperatorEditConformance, LongActorsAndReasonsAreCutAtACharacter) {
  proves("R-24", "R-27");
  put(Situation::dead, "a");
  std::string text;
  for (int i = 0; i < 700; ++i) text += "€";  // three bytes each
  edit("a", "x", {.reason = text, .actor = text});
  EXPECT_EQ(past("a").front().reason, text.substr(0, 682 * 3));
  EXPECT_EQ(past("a").front().replaced_by, harness().actor_named(text.substr(0, 85 * 3)));
}

}  // namespace oncebox::conformance
