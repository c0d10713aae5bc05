// Beginning keys, finding them again, and forgetting them: KIN-01, KIN-03, KIN-06, KIN-09, PKT-06.

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class KeysConformance : public StoreConformance {
 protected:
  BeginOutcome begin(std::string_view key, Duration lease = 60s) {
    return keys().begin({.key = key, .owner = "worker", .lease = lease});
  }

  KeyRecord key_record(std::string_view key) {
    std::optional<KeyRecord> found = keys().find(IdempotencyKey(key));
    if (found) return *std::move(found);
    throw std::runtime_error("the key is unknown: " + std::string(key));
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, KeysConformance, testing::ValuesIn(on_inbox()), case_name);

TEST_P(KeysConformance, UnknownKeyIsAcquired) {
  proves("KIN-03", "KIN-06", "PKT-06");
  EXPECT_EQ(keys().find("a"), std::nullopt);
  const BeginOutcome outcome = begin("a", 90s);
  EXPECT_EQ(outcome.status, BeginStatus::acquired);
  EXPECT_TRUE(outcome.lease_id);
  EXPECT_EQ(at(outcome.lease_until), at(now() + 90s));
  EXPECT_EQ(outcome.attempts, 1);
  EXPECT_EQ(outcome.result, std::nullopt);
  EXPECT_EQ(outcome.error, std::nullopt);
  const KeyRecord expected{.key = "a",
                           .status = KeyStatus::in_progress,
                           .attempts = 1,
                           .first_seen_at = now(),
                           .last_seen_at = now(),
                           .owner = "worker",
                           .lease_until = now() + 90s,
                           .keep_until = now() + defaults::kKeyRetention};
  EXPECT_EQ(key_record("a"), expected);
}

TEST_P(KeysConformance, DefaultsAreOneMinuteAndThirtyDays) {
  proves("KIN-03", "KIN-09");
  EXPECT_EQ(at(keys().begin({.key = "a"}).lease_until), at(now() + 60s));
  EXPECT_EQ(at(key_record("a").keep_until), at(now() + std::chrono::days{30}));
  keys().complete({.key = "b"});
  EXPECT_EQ(at(key_record("b").keep_until), at(now() + std::chrono::days{30}));
}

TEST_P(KeysConformance, HeldKeyIsBusyEvenForTheSameOwner) {
  proves("KIN-03", "PKT-06");
  const BeginOutcome first = begin("a");
  advance(10s);
  KeyRecord expected = key_record("a");
  const BeginOutcome second = begin("a", 300s);
  EXPECT_EQ(second.status, BeginStatus::busy);
  EXPECT_EQ(second.lease_id, std::nullopt) << "the holder's lease id is nobody else's business";
  EXPECT_EQ(second.lease_until, first.lease_until);
  EXPECT_EQ(second.attempts, 1);
  expected.last_seen_at = now();
  EXPECT_EQ(key_record("a"), expected) << "only last_seen changes";
}

TEST_P(KeysConformance, LapsedLeaseIsAcquiredAnew) {
  proves("KIN-03", "PKT-05", "R-16");
  const TimePoint start = now();
  const BeginOutcome first = begin("a", 60s);
  advance(60s - 1ms);
  EXPECT_EQ(begin("a").status, BeginStatus::busy);
  advance(1ms);
  const BeginOutcome second =
      keys().begin({.key = "a", .owner = "another", .lease = 30s, .retention = 1h});
  EXPECT_EQ(second.status, BeginStatus::acquired);
  EXPECT_NE(second.lease_id, first.lease_id);
  EXPECT_EQ(second.attempts, 2);
  const KeyRecord expected{.key = "a",
                           .status = KeyStatus::in_progress,
                           .attempts = 2,
                           .first_seen_at = start,
                           .last_seen_at = now(),
                           .owner = "another",
                           .lease_until = now() + 30s,
                           .keep_until = now() + 1h};
  EXPECT_EQ(key_record("a"), expected);
}

TEST_P(KeysConformance, LapsedLeaseStillReadsAsInProgress) {
  proves("KIN-06");
  begin("a", 60s);
  const KeyRecord before = key_record("a");
  advance(1h);
  EXPECT_EQ(key_record("a"), before);
}

// A store need not recognise anything; what it does recognise, `begin` would say, too.
TEST_P(KeysConformance, RecognitionIsWhatBeginWouldAnswerOrNothing) {
  proves("KIN-03", "PKT-06");
  begin("running");
  begin("lapsed", 1s);
  const auto put_ended = [&](std::string_view key, auto end) {
    end(begin(key, 300s).lease_id.value());
  };
  put_ended("released", [&](const LeaseId& id) { keys().release({"released", id}); });
  put_ended("failed", [&](const LeaseId& id) { keys().fail({"failed", id, "boom"}); });
  put_ended("done", [&](const LeaseId& id) { keys().complete({.key = "done", .lease_id = id}); });
  keys().complete({.key = "forgotten", .retention = 1s});
  advance(10s);
  for (const FailedKeyPolicy on_failed : {FailedKeyPolicy::retry, FailedKeyPolicy::suppress}) {
    for (const char* key : {"running", "failed", "done"}) {
      SCOPED_TRACE(key);
      advance(1s);
      KeyRecord expected = key_record(key);
      const std::optional<BeginStatus> recognised = keys().recognise(key, on_failed);
      if (recognised) expected.last_seen_at = now();
      EXPECT_EQ(key_record(key), expected) << "only last_seen changes";
      const bool acquires =
          std::string_view(key) == "failed" && on_failed == FailedKeyPolicy::retry;
      EXPECT_FALSE(acquires && recognised);
      if (acquires || !recognised) continue;
      EXPECT_EQ(recognised, keys().begin({.key = key, .on_failed = on_failed}).status);
    }
    for (const char* key : {"lapsed", "released"}) {
      const KeyRecord before = key_record(key);
      EXPECT_EQ(keys().recognise(key, on_failed), std::nullopt) << key;
      EXPECT_EQ(key_record(key), before) << key;
    }
    for (const char* text : {"forgotten", "unknown", "", "\xff is no text"}) {
      EXPECT_EQ(keys().recognise(text, on_failed), std::nullopt) << text;
    }
  }
}

TEST_P(KeysConformance, ProcessedKeyAnswersItsResult) {
  proves("KIN-03", "KIN-04", "PKT-06");
  const BeginOutcome first = begin("a");
  keys().complete({.key = "a", .lease_id = first.lease_id, .result = "receipt 7"});
  advance(1h);
  KeyRecord expected = key_record("a");
  const BeginOutcome again = begin("a");
  EXPECT_EQ(again.status, BeginStatus::processed);
  EXPECT_EQ(again.result, "receipt 7");
  EXPECT_EQ(again.lease_id, std::nullopt);
  EXPECT_EQ(again.attempts, 1);
  expected.last_seen_at = now();
  EXPECT_EQ(key_record("a"), expected);
}

TEST_P(KeysConformance, BatchIsAnsweredInOrderAsIfOneByOne) {
  proves("KIN-03", "IBX-102");
  keys().mark_processed("done");
  const std::vector<BeginRequest> batch{{.key = "a"}, {.key = "done"}, {.key = "a"}, {.key = "b"}};
  const std::vector<BeginOutcome> outcomes = keys().begin(batch);
  ASSERT_EQ(outcomes.size(), 4U);
  EXPECT_EQ(outcomes[0].status, BeginStatus::acquired);
  EXPECT_EQ(outcomes[1].status, BeginStatus::processed);
  EXPECT_EQ(outcomes[2].status, BeginStatus::busy);
  EXPECT_EQ(outcomes[3].status, BeginStatus::acquired);
  EXPECT_NE(outcomes[0].lease_id, outcomes[3].lease_id);
  const std::vector<IdempotencyKey> looked_up{"b", "nobody", "a", "b"};
  const auto found = keys().find(looked_up);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0], key_record("b"));
  EXPECT_EQ(found[1], std::nullopt);
  EXPECT_EQ(found[2], key_record("a"));
  EXPECT_EQ(found[3], key_record("b"));
}

TEST_P(KeysConformance, EmptyBatchesAreNoOps) {
  proves("PKT-06");
  EXPECT_TRUE(keys().begin(std::vector<BeginRequest>{}).empty());
  EXPECT_TRUE(keys().complete(std::vector<CompleteRequest>{}).empty());
  EXPECT_TRUE(keys().fail(std::vector<FailRequest>{}).empty());
  EXPECT_TRUE(keys().release(std::vector<ReleaseRequest>{}).empty());
  EXPECT_TRUE(keys().extend(std::vector<KeyExtension>{}).empty());
  EXPECT_TRUE(keys().find(std::vector<IdempotencyKey>{}).empty());
}

TEST_P(KeysConformance, SmallestClientContractRemembersWhatWasProcessed) {
  proves("KIN-01", "KIN-04");
  EXPECT_FALSE(keys().is_processed("a"));
  EXPECT_EQ(keys().find("a"), std::nullopt) << "asking stores nothing";
  keys().mark_processed("a");
  EXPECT_TRUE(keys().is_processed("a"));
  keys().mark_processed("a");
  EXPECT_TRUE(keys().is_processed("a"));
  EXPECT_FALSE(keys().is_processed("b"));
}

TEST_P(KeysConformance, KeyInAnyOtherStateIsNotProcessed) {
  proves("KIN-01", "KIN-06");
  const LeaseId held = begin("held").lease_id.value();
  keys().release({.key = "released", .lease_id = begin("released").lease_id.value()});
  keys().fail({.key = "failed", .lease_id = begin("failed").lease_id.value(), .error = "boom"});
  for (const char* key : {"held", "released", "failed"}) EXPECT_FALSE(keys().is_processed(key));
  EXPECT_EQ(key_record("held").status, KeyStatus::in_progress);
  EXPECT_EQ(key_record("released").status, KeyStatus::released);
  EXPECT_EQ(key_record("failed").status, KeyStatus::failed);
  keys().complete({.key = "held", .lease_id = held});
  EXPECT_EQ(key_record("held").status, KeyStatus::processed);
}

TEST_P(KeysConformance, FindChangesNothing) {
  proves("KIN-06");
  begin("a");
  const KeyRecord before = key_record("a");
  advance(1s);
  EXPECT_EQ(key_record("a"), before);
  EXPECT_FALSE(keys().is_processed("a"));
  EXPECT_EQ(key_record("a"), before);
}

TEST_P(KeysConformance, KeyIsForgottenWhenItsRetentionEnds) {
  proves("KIN-09", "PKT-06");
  keys().complete({.key = "a", .result = "old", .retention = 7 * 24h});
  EXPECT_EQ(at(key_record("a").keep_until), at(now() + 7 * 24h));
  advance(7 * 24h - 1ms);
  EXPECT_TRUE(keys().is_processed("a"));
  advance(1ms);
  EXPECT_FALSE(keys().is_processed("a")) << "whether or not it was removed yet";
  EXPECT_EQ(keys().find("a"), std::nullopt);
  const BeginOutcome anew = begin("a");
  EXPECT_EQ(anew.status, BeginStatus::acquired);
  EXPECT_EQ(anew.attempts, 1);
  EXPECT_EQ(at(key_record("a").first_seen_at), at(now()));
  EXPECT_EQ(key_record("a").result, std::nullopt);
}

TEST_P(KeysConformance, ForgottenKeyIsUnknownToEveryCall) {
  proves("KIN-09", "KIN-05");
  const LeaseId lease_id =
      keys().begin({.key = "a", .lease = 1s, .retention = 1s}).lease_id.value();
  advance(1s);
  EXPECT_EQ(keys().release({.key = "a", .lease_id = lease_id}), ReleaseOutcome::unknown);
  EXPECT_EQ(keys().fail({.key = "a", .lease_id = lease_id, .error = "x"}), FailOutcome::lease_lost);
  EXPECT_EQ(keys().extend({.key = "a", .lease_id = lease_id}), KeyExtendOutcome{});
  EXPECT_EQ(keys().find("a"), std::nullopt);
}

TEST_P(KeysConformance, KeyIsKeptAtLeastUntilItsLeaseEnds) {
  proves("KIN-09", "PKT-05");
  const BeginOutcome first = keys().begin({.key = "a", .lease = 60s, .retention = 1ms});
  EXPECT_EQ(at(key_record("a").keep_until), at(now() + 60s));
  advance(30s);
  keys().extend({.key = "a", .lease_id = first.lease_id.value(), .lease = 60s});
  advance(59s);
  EXPECT_EQ(begin("a").status, BeginStatus::busy) << "an extension keeps it, too";
}

TEST_P(KeysConformance, CompletionCountsTheRetentionAnew) {
  proves("KIN-09", "KIN-04");
  const BeginOutcome first = keys().begin({.key = "a", .retention = std::chrono::days{30}});
  advance(30s);
  keys().complete({.key = "a", .lease_id = first.lease_id, .retention = 1h});
  EXPECT_EQ(at(key_record("a").keep_until), at(now() + 1h));
}

TEST_P(KeysConformance, CleanupRemovesWhatIsPastItsRetentionInBatches) {
  proves("KIN-09");
  for (int i = 0; i < 5; ++i) {
    keys().complete({.key = "old" + std::to_string(i), .retention = 1h});
  }
  keys().begin({.key = "abandoned", .lease = 60s, .retention = 1h});
  keys().complete({.key = "kept", .retention = 1h + 1ms});
  EXPECT_EQ(keys().cleanup(10), 0U);
  advance(1h);
  std::size_t removed = 0;
  for (int i = 0; i < 4; ++i) {
    const std::size_t batch = keys().cleanup(4);
    EXPECT_LE(batch, 4U);
    removed += batch;
  }
  // A backend with a time to live of its own may have removed some of them already.
  EXPECT_LE(removed, 6U);
  EXPECT_TRUE(removed == 6U || store().capabilities().native_ttl);
  EXPECT_TRUE(keys().is_processed("kept"));
  EXPECT_EQ(keys().find("abandoned"), std::nullopt);
}

TEST_P(KeysConformance, KeysAreComparedByteByByteAndNeverTrimmed) {
  proves("KIN-06", "R-21");
  const std::vector<std::string> delicate{
      "a",       "A",       "a ",    " a",     "  ",
      "é",       "e\u0301", "ß",     "ss",     "orders:main:billing:42",
      "a/b",     "a%2Fb",   "a%2fb", "a//b",   "a:b",
      "a::b",    "a\tb",    "a\nb",  "a'b",    "a\"b",
      "a\\b",    "{a}",     "漢字",  "😀",     "*",
      "a*",      "a?",      "[a]",   "\u200B", "0",
      "00",      "null",    "a_b",   "axb",    "a%b",
      "\uFEFFa", "../a",    "a b"};
  for (const std::string& key : delicate) {
    EXPECT_EQ(begin(key).status, BeginStatus::acquired) << testing::PrintToString(key);
  }
  for (const std::string& key : delicate) {
    EXPECT_EQ(key_record(key).key.str(), key);
    EXPECT_EQ(begin(key).status, BeginStatus::busy) << testing::PrintToString(key);
  }
}

TEST_P(KeysConformance, KeysAndMessagesAreSeparateSpaces) {
  proves("KIN-01");
  keys().mark_processed("a");
  EXPECT_EQ(enqueue(message("a")), EnqueueStatus::accepted);
  EXPECT_EQ(queue_operator().count({}), 1U);
}

TEST_P(KeysConformance, EverythingSurvivesReopening) {
  proves("KIN-01", "PKT-06");
  const LeaseId held = begin("held").lease_id.value();
  keys().complete({.key = "done", .result = std::string("\0\xFF", 2)});
  keys().fail({.key = "failed", .lease_id = begin("failed").lease_id.value(), .error = "boom"});
  const std::vector<IdempotencyKey> all{"held", "done", "failed"};
  const auto before = keys().find(all);
  reopen();
  EXPECT_EQ(keys().find(all), before);
  EXPECT_EQ(begin("held").status, BeginStatus::busy);
  EXPECT_EQ(keys().complete({.key = "held", .lease_id = held}), CompleteOutcome::processed);
}

TEST_P(KeysConformance, TwoHandlesSeeTheSameKeys) {
  proves("KIN-01", "KIN-03");
  const std::shared_ptr<Store> other = open();
  const BeginOutcome first = begin("a");
  EXPECT_EQ(other->keys().begin({.key = "a"}).status, BeginStatus::busy);
  EXPECT_EQ(other->keys().complete({.key = "a", .lease_id = first.lease_id, .result = "r"}),
            CompleteOutcome::processed);
  EXPECT_EQ(begin("a").result, "r");
}

}  // namespace oncebox::conformance
