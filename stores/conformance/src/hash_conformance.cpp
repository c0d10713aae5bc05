// A key that comes again with another content hash: IBX-007, IBX-008 and R-18, under each policy.
// `keep_first` compares more than hashes, so it has tests of its own at the end.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class HashConformance : public StoreConformance {
 protected:
  static Message first(std::string_view id) {
    return message(id, {.payload = "first", .hash = hash_of("first")});
  }
  static Message second(std::string_view id) {
    return message(id, {.payload = "second", .hash = hash_of("second")});
  }

  EnqueueOutcome enqueue_second(std::string_view id, HashMismatchPolicy policy) {
    return queue().enqueue(second(id), {.on_hash_mismatch = policy});
  }

  /// For each situation: a message that is in it, what the queue says to the second content, and
  /// `check` afterwards with the record as it was before.
  template <class Check>
  void in_every_situation(HashMismatchPolicy policy, Check check) {
    for (const Situation situation : kEverySituation) {
      const std::string id = to_string(situation);
      SCOPED_TRACE(id);
      put(situation, first(id));
      const MessageRecord before = record(id);
      advance(1ms);
      check(situation, before, enqueue_second(id, policy));
      queue().mark({.key = key(id), .as = MarkAs::processed});  // out of the next one's way
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, HashConformance, testing::ValuesIn(on_each_queue()), case_name);

TEST_P(HashConformance, WarnGoesOnInEveryStateAndFlagsIt) {
  proves("IBX-008", "IBX-029", "R-18", "R-06", "R-05");
  const auto expected_status = [](Situation situation) {
    switch (situation) {
      case Situation::seen:
      case Situation::marked_processing:
        return EnqueueStatus::accepted;
      case Situation::ready:
      case Situation::waiting:
      case Situation::lapsed:
        return EnqueueStatus::updated;
      case Situation::leased:
        return EnqueueStatus::superseding;
      case Situation::done:
        return EnqueueStatus::duplicate_done;
      case Situation::dead:
        return EnqueueStatus::duplicate_dead;
    }
    throw std::logic_error("no such situation");
  };
  in_every_situation(HashMismatchPolicy::warn, [&](Situation situation, const MessageRecord& before,
                                                   const EnqueueOutcome& outcome) {
    EXPECT_EQ(outcome.status, expected_status(situation));
    EXPECT_TRUE(outcome.hash_mismatch);
    EXPECT_EQ(outcome.quarantined_as, std::nullopt);
    const MessageRecord after = record(before.key.message_id.str());
    EXPECT_EQ(after.status == Status::done, situation == Situation::done);
    const ContentHash stored = situation == Situation::done ? hash_of("first") : hash_of("second");
    EXPECT_EQ(after.hash, stored);
    const Payload payload = situation == Situation::done ? "first" : "second";
    EXPECT_EQ(after.message->payload, payload);
  });
}

TEST_P(HashConformance, RejectChangesNothingButLastSeenInEveryState) {
  proves("IBX-008", "R-18");
  in_every_situation(HashMismatchPolicy::reject, [&](Situation, const MessageRecord& before,
                                                     const EnqueueOutcome& outcome) {
    const EnqueueOutcome rejected{.status = EnqueueStatus::rejected, .hash_mismatch = true};
    EXPECT_EQ(outcome, rejected);
    MessageRecord expected = before;
    expected.history.last_seen_at = now();
    EXPECT_EQ(record(before.key.message_id.str()), expected);
  });
}

TEST_P(HashConformance, QuarantineLeavesTheOriginalInEveryState) {
  proves("IBX-008", "R-18");
  in_every_situation(HashMismatchPolicy::quarantine,
                     [&](Situation, const MessageRecord& before, const EnqueueOutcome& outcome) {
                       const std::string id = before.key.message_id.str();
                       const MessageId derived = quarantine_id(before.key, hash_of("second"));
                       const EnqueueOutcome quarantined{.status = EnqueueStatus::quarantined,
                                                        .hash_mismatch = true,
                                                        .quarantined_as = derived,
                                                        .newly_dead = true};
                       EXPECT_EQ(outcome, quarantined);
                       MessageRecord expected = before;
                       expected.history.last_seen_at = now();
                       EXPECT_EQ(record(id), expected);
                       EXPECT_EQ(record(derived.str()).message, quarantined_copy(second(id)));
                     });
}

TEST_P(HashConformance, QuarantinedNewcomerIsDeadUnderADerivedId) {
  proves("R-18", "R-30");
  enqueue(first("a"));
  advance(5s);
  const EnqueueOutcome outcome = enqueue_second("a", HashMismatchPolicy::quarantine);
  ASSERT_TRUE(outcome.quarantined_as);
  EXPECT_NE(*outcome.quarantined_as, MessageId("a"));
  const MessageRecord expected{.key = {"stripe", *outcome.quarantined_as},
                               .status = Status::dead,
                               .state = State::dead,
                               .message = quarantined_copy(second("a")),
                               .hash = hash_of("second"),
                               .history = {.content_version = 1,
                                           .first_seen_at = now(),
                                           .last_seen_at = now(),
                                           .last_error = "content hash differs"},
                               .finished_at = now()};
  EXPECT_EQ(record(outcome.quarantined_as->str()), expected);
  EXPECT_EQ(expected.message->headers.get(header_names::kQuarantinedFrom), "a");
  EXPECT_EQ(claim_ids(), std::vector<std::string>{"a"}) << "only the original is handed out";
}

TEST_P(HashConformance, QuarantinedRedeliveryIsADuplicateThere) {
  proves("R-18", "R-09");
  enqueue(first("a"));
  EnqueueOutcome once = enqueue_second("a", HashMismatchPolicy::quarantine);
  EXPECT_TRUE(std::exchange(once.newly_dead, false));
  advance(5s);
  EXPECT_EQ(enqueue_second("a", HashMismatchPolicy::quarantine), once);
  EXPECT_EQ(queue_operator().count({}), 2U);
  const MessageRecord there = record(once.quarantined_as->str());
  EXPECT_EQ(there.history.duplicates, 1);
  EXPECT_EQ(at(there.history.last_seen_at), at(now()));
  EXPECT_EQ(there.status, Status::dead);
  EXPECT_EQ(record("a").history.duplicates, 0);

  const Message third = message("a", {.payload = "third", .hash = hash_of("third")});
  const EnqueueOutcome other =
      queue().enqueue(third, {.on_hash_mismatch = HashMismatchPolicy::quarantine});
  EXPECT_EQ(other.status, EnqueueStatus::quarantined);
  EXPECT_NE(other.quarantined_as, once.quarantined_as);
}

TEST_P(HashConformance, EachDeathByQuarantineIsToldOnce) {
  proves("R-18", "R-33");
  enqueue(first("a"));
  const auto again = [&] { return enqueue_second("a", HashMismatchPolicy::quarantine).newly_dead; };
  const MessageKey copy{"stripe", quarantine_id(first("a").key, hash_of("second"))};
  const std::vector<MessageKey> keys{copy};
  EXPECT_TRUE(again());
  EXPECT_FALSE(again());
  EXPECT_EQ(queue_operator().revive(keys), std::vector{ReviveOutcome::revived});
  EXPECT_FALSE(again()) << "it lives";
  queue().mark({.key = copy, .as = MarkAs::processed});
  EXPECT_FALSE(again()) << "it is done";
  EXPECT_EQ(queue_operator().act(keys, Delete{}), std::vector{ActOutcome::changed});
  EXPECT_TRUE(again()) << "it was forgotten";
  EXPECT_EQ(queue_operator().act(keys, Delete{}), std::vector{ActOutcome::changed});
  queue().observe({.key = copy});
  queue().mark({.key = copy, .as = MarkAs::dead});
  EXPECT_FALSE(again()) << "dead without content before";
}

TEST_P(HashConformance, QuarantinedMessageCanBeRevivedAndHandled) {
  proves("R-18", "R-24", "R-30");
  put(Situation::done, first("a"));
  const MessageId derived =
      enqueue_second("a", HashMismatchPolicy::quarantine).quarantined_as.value();
  const std::vector<MessageKey> keys{{"stripe", derived}};
  EXPECT_EQ(queue_operator().revive(keys), std::vector{ReviveOutcome::revived});
  EXPECT_EQ(claim_one().message, quarantined_copy(second("a")));
}

TEST_P(HashConformance, EqualHashIsNeverAMismatch) {
  proves("R-18", "IBX-007");
  for (const HashMismatchPolicy policy :
       {HashMismatchPolicy::warn, HashMismatchPolicy::reject, HashMismatchPolicy::quarantine,
        HashMismatchPolicy::keep_first}) {
    enqueue(first("a"));
    EXPECT_EQ(queue().enqueue(first("a"), {.on_hash_mismatch = policy}),
              EnqueueOutcome{.status = EnqueueStatus::duplicate});
  }
}

TEST_P(HashConformance, HashesThatCannotBeComparedAreNoMismatch) {
  proves("R-18");
  const ContentHash md5("md5", "0123456789abcdef");
  for (const HashMismatchPolicy policy :
       {HashMismatchPolicy::warn, HashMismatchPolicy::reject, HashMismatchPolicy::quarantine}) {
    const std::string id = "a" + std::to_string(static_cast<int>(policy));
    enqueue(message(id, {.payload = "first"}));
    const std::vector<Message> later{
        message(id, {.payload = "second", .hash = hash_of("second")}),  // none was stored
        message(id, {.payload = "third", .hash = md5}),                 // another algorithm
        message(id, {.payload = "fourth"})};                            // none is given
    for (const Message& one : later) {
      EXPECT_EQ(queue().enqueue(one, {.on_hash_mismatch = policy}),
                EnqueueOutcome{.status = EnqueueStatus::updated});
      EXPECT_EQ(record(id).hash, one.hash) << "new content brings its own hash, or none";
    }
  }
}

TEST_P(HashConformance, ObservedHashIsComparedWithTheEnqueuedOne) {
  proves("IBX-007", "IBX-008", "R-18");
  queue().observe({.key = key("a"), .hash = hash_of("first")});
  EXPECT_EQ(enqueue_second("a", HashMismatchPolicy::reject).status, EnqueueStatus::rejected);
  EXPECT_EQ(record("a").status, Status::seen);
  EXPECT_EQ(queue().enqueue(first("a"), {.on_hash_mismatch = HashMismatchPolicy::reject}),
            EnqueueOutcome{.status = EnqueueStatus::accepted});
  EXPECT_EQ(record("a").hash, hash_of("first"));
  EXPECT_TRUE(queue().observe({.key = key("a"), .hash = hash_of("second")}).hash_mismatch);
}

TEST_P(HashConformance, MismatchOfOneItemDoesNotStopTheOthers) {
  proves("IBX-008", "R-18", "IBX-102");
  enqueue(first("a"));
  const std::vector<Message> batch{first("b"), second("a"), second("c")};
  const std::vector<EnqueueOutcome> expected{
      {.status = EnqueueStatus::accepted},
      {.status = EnqueueStatus::rejected, .hash_mismatch = true},
      {.status = EnqueueStatus::accepted}};
  EXPECT_EQ(queue().enqueue(batch, {.on_hash_mismatch = HashMismatchPolicy::reject}), expected);
  EXPECT_EQ(claim_ids(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST_P(HashConformance, MismatchUnderRejectDoesNotReviveTheDead) {
  proves("R-18", "R-05");
  put(Situation::dead, first("a"));
  const EnqueueOutcome outcome = queue().enqueue(
      second("a"), {.on_hash_mismatch = HashMismatchPolicy::reject, .on_dead = DeadPolicy::revive});
  EXPECT_EQ(outcome.status, EnqueueStatus::rejected);
  EXPECT_EQ(record("a").status, Status::dead);
}

TEST_P(HashConformance, AlgorithmAndDigestComeBackAsGiven) {
  proves("R-18", "IBX-007");
  const std::string every_byte = [] {
    std::string bytes;
    for (int i = 0; i < 64; ++i) bytes += static_cast<char>(i * 4);
    return bytes;
  }();
  const ContentHash longest(std::string(32, 'x'), every_byte);
  const ContentHash shortest("a", std::string(1, '\0'));
  enqueue(message("longest", {.hash = longest}));
  enqueue(message("shortest", {.hash = shortest}));
  EXPECT_EQ(record("longest").hash, longest);
  EXPECT_EQ(record("shortest").hash, shortest);
  const std::vector<ClaimedMessage> claimed = claim();
  ASSERT_EQ(claimed.size(), 2U);
  EXPECT_EQ(claimed[0].message.hash, longest);
  EXPECT_EQ(claimed[1].message.hash, shortest);
}

TEST_P(HashConformance, QuarantineStoresTheNewcomerAlsoWhereItsIdWasOnlySeen) {
  proves("R-18");
  enqueue(message("a", {.payload = "one", .hash = hash_of("one")}));
  const Message other = message("a", {.payload = "two", .hash = hash_of("two")});
  const MessageId derived = quarantine_id(other.key, *other.hash);
  queue().observe({.key = {other.key.source, derived}});
  enqueue(other, {.on_hash_mismatch = HashMismatchPolicy::quarantine});
  const MessageRecord stored = record(derived.str());
  EXPECT_EQ(stored.status, Status::dead);
  ASSERT_TRUE(stored.message);
  EXPECT_EQ(stored.message->payload.bytes(), "two");
}

class KeepFirstConformance : public StoreConformance {
 protected:
  static Message first(std::string_view id) {
    return message(id, {.payload = "first", .hash = hash_of("first")});
  }
  static EnqueueStatus duplicate_in(Situation situation) {
    if (situation == Situation::done) return EnqueueStatus::duplicate_done;
    if (situation == Situation::dead) return EnqueueStatus::duplicate_dead;
    return EnqueueStatus::duplicate;
  }

  EnqueueOutcome enqueue_again(const Message& message, DeadPolicy on_dead = DeadPolicy::keep) {
    return queue().enqueue(
        message, {.on_hash_mismatch = HashMismatchPolicy::keep_first, .on_dead = on_dead});
  }

  /// A message in each situation that has content, one after the other.
  template <class Check>
  void in_every_situation_with_content(Check check) {
    for (const Situation situation : kEverySituation) {
      if (situation == Situation::seen || situation == Situation::marked_processing) continue;
      const std::string id = to_string(situation);
      SCOPED_TRACE(id);
      put(situation, first(id));
      check(situation, id);
      queue().mark({.key = key(id), .as = MarkAs::processed});  // out of the next one's way
    }
  }

  const ContentHash md5{"md5", "0123456789abcdef"};
};

INSTANTIATE_TEST_SUITE_P(Stores, KeepFirstConformance, testing::ValuesIn(on_each_queue()),
                         case_name);

TEST_P(KeepFirstConformance, AnotherTopicOrPayloadChangesNothingButLastSeenInEveryState) {
  proves("R-18", "R-05", "R-06");
  in_every_situation_with_content([&](Situation, const std::string& id) {
    const std::vector<Message> others{
        message(id, {.topic = "other", .payload = "first", .hash = hash_of("first")}),
        message(id, {.topic = "other", .payload = "first"}),
        message(id, {.payload = "second", .hash = hash_of("second")}),
        message(id, {.payload = "second", .hash = md5}),  // hashes that cannot be compared
        message(id, {.payload = "second"})};
    MessageRecord expected = record(id);
    for (const Message& other : others) {
      SCOPED_TRACE(testing::PrintToString(other));
      advance(1ms);
      const EnqueueOutcome rejected{.status = EnqueueStatus::rejected,
                                    .hash_mismatch = other.hash == hash_of("second")};
      EXPECT_EQ(enqueue_again(other), rejected);
      expected.history.last_seen_at = now();
      EXPECT_EQ(record(id), expected);
    }
  });
}

TEST_P(KeepFirstConformance, TheSameContentChangesNothingButLastSeenAndDuplicatesInEveryState) {
  proves("R-18", "R-05", "R-06", "R-07", "R-08", "R-09");
  in_every_situation_with_content([&](Situation situation, const std::string& id) {
    MessageRecord expected = record(id);
    const std::vector<std::optional<ContentHash>> hashes{hash_of("first"), md5, std::nullopt};
    for (const std::optional<ContentHash>& hash : hashes) {
      advance(1ms);
      const Message again = message(id, {.payload = "first",
                                         .headers = {{"traceparent", "second"}},
                                         .hash = hash,
                                         .priority = 7,
                                         .partition = PartitionKey("p"),
                                         .due_at = now() + 2h,
                                         .expires_at = now() + 3h});
      EXPECT_EQ(enqueue_again(again), EnqueueOutcome{.status = duplicate_in(situation)});
      expected.history.last_seen_at = now();
      ++expected.history.duplicates;
      EXPECT_EQ(record(id), expected);
    }
  });
}

TEST_P(KeepFirstConformance, PayloadsAreComparedWhereNoHashIsStored) {
  proves("R-18", "R-06");
  for (const Situation situation : {Situation::done, Situation::dead, Situation::ready}) {
    const std::string id = to_string(situation);
    put(situation, message(id, {.payload = "first"}));
    EXPECT_EQ(enqueue_again(first(id)).status, duplicate_in(situation));
    EXPECT_EQ(record(id).hash, std::nullopt) << "not even the hash is new";
    const Message other = message(id, {.payload = "second", .hash = hash_of("second")});
    EXPECT_EQ(enqueue_again(other).status, EnqueueStatus::rejected);
    EXPECT_EQ(record(id).message->payload, Payload("first"));
  }
}

TEST_P(KeepFirstConformance, HoldsWithinACall) {
  proves("R-18", "IBX-102");
  const Message other_topic = message("a", {.topic = "other", .payload = "first"});
  const std::vector<Message> batch{first("a"), other_topic, first("a"), first("b")};
  const std::vector<EnqueueOutcome> expected{{.status = EnqueueStatus::accepted},
                                             {.status = EnqueueStatus::rejected},
                                             {.status = EnqueueStatus::duplicate},
                                             {.status = EnqueueStatus::accepted}};
  EXPECT_EQ(queue().enqueue(batch, {.on_hash_mismatch = HashMismatchPolicy::keep_first}), expected);
  EXPECT_EQ(record("a").message, first("a"));
}

TEST_P(KeepFirstConformance, ContentIsTakenWhereNoneIsStored) {
  proves("R-18", "R-02", "R-03");
  for (const Situation situation : {Situation::seen, Situation::marked_processing}) {
    const std::string id = to_string(situation);
    put(situation, first(id));
    const Message other = message(id, {.payload = "second", .hash = hash_of("second")});
    EXPECT_EQ(enqueue_again(other).status, EnqueueStatus::rejected) << "another hash was seen";
    EXPECT_EQ(enqueue_again(first(id)).status, EnqueueStatus::accepted);
    EXPECT_EQ(record(id).message, first(id));
  }
}

TEST_P(KeepFirstConformance, OnlyTheSameContentBringsTheDeadBackAndWithItsOwnTimes) {
  proves("R-18", "R-05", "R-28");
  put(Situation::dead, first("a"));
  const Message other = message("a", {.topic = "other", .payload = "first"});
  EXPECT_EQ(enqueue_again(other, DeadPolicy::revive).status, EnqueueStatus::rejected);
  EXPECT_EQ(record("a").status, Status::dead);
  Message again = first("a");
  again.expires_at = now() + 1h;
  EXPECT_EQ(enqueue_again(again, DeadPolicy::revive).status, EnqueueStatus::revived);
  EXPECT_EQ(claim_one().message, again);
}

}  // namespace oncebox::conformance
