// Completing, failing, releasing and prolonging keys: KIN-04, KIN-05, PKT-05, PKT-06.

#include "oncebox/conformance/fixture.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class KeysVerdictConformance : public StoreConformance {
 protected:
  LeaseId acquire(std::string_view key, Duration lease = 60s) {
    const BeginOutcome outcome = keys().begin({.key = key, .owner = "worker", .lease = lease});
    if (outcome.lease_id) return *outcome.lease_id;
    throw std::runtime_error("the key was not acquired: " + std::string(key));
  }

  KeyRecord key_record(std::string_view key) {
    std::optional<KeyRecord> found = keys().find(IdempotencyKey(key));
    if (found) return *std::move(found);
    throw std::runtime_error("the key is unknown: " + std::string(key));
  }

  CompleteOutcome complete(std::string_view key, std::optional<LeaseId> lease_id,
                           std::optional<std::string> result = {}) {
    return keys().complete({.key = key, .lease_id = lease_id, .result = std::move(result)});
  }
  FailOutcome fail(std::string_view key, const LeaseId& lease_id, std::string error = "boom") {
    return keys().fail({.key = key, .lease_id = lease_id, .error = std::move(error)});
  }
  ReleaseOutcome release(std::string_view key, const LeaseId& lease_id) {
    return keys().release({.key = key, .lease_id = lease_id});
  }

  /// Every call under this lease is answered as lost, and the key stays as it is.
  void expect_lost(std::string_view key, const LeaseId& lease_id) {
    const KeyRecord before = key_record(key);
    EXPECT_EQ(complete(key, lease_id, "late"), CompleteOutcome::lease_lost);
    EXPECT_EQ(fail(key, lease_id, "late"), FailOutcome::lease_lost);
    EXPECT_EQ(keys().extend({.key = key, .lease_id = lease_id}), KeyExtendOutcome{});
    const bool processed = before.status == KeyStatus::processed;
    EXPECT_EQ(release(key, lease_id),
              processed ? ReleaseOutcome::processed : ReleaseOutcome::lease_lost);
    EXPECT_EQ(key_record(key), before);
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, KeysVerdictConformance, testing::ValuesIn(on_inbox()), case_name);

TEST_P(KeysVerdictConformance, HolderCompletesItsKey) {
  proves("KIN-04", "PKT-05", "PKT-06");
  const LeaseId lease_id = acquire("a");
  advance(5s);
  KeyRecord expected = key_record("a");
  EXPECT_EQ(complete("a", lease_id, "receipt 7"), CompleteOutcome::processed);
  expected.status = KeyStatus::processed;
  expected.lease_until.reset();
  expected.result = "receipt 7";
  expected.keep_until = now() + defaults::kKeyRetention;
  EXPECT_EQ(key_record("a"), expected);
}

TEST_P(KeysVerdictConformance, RepeatedCompletionIsProcessedAgainAndChangesNothing) {
  proves("KIN-04");
  const LeaseId lease_id = acquire("a");
  complete("a", lease_id, "receipt 7");
  const KeyRecord before = key_record("a");
  advance(5s);
  EXPECT_EQ(complete("a", lease_id, "receipt 7"), CompleteOutcome::processed);
  EXPECT_EQ(key_record("a"), before);
}

TEST_P(KeysVerdictConformance, LapsedLeaseCompletesUntilSomebodyElseBegan) {
  proves("KIN-04", "PKT-05");
  const LeaseId lease_id = acquire("a", 60s);
  advance(1h);
  EXPECT_EQ(complete("a", lease_id), CompleteOutcome::processed);
}

TEST_P(KeysVerdictConformance, LeaseIsLostOnceSomebodyElseBegan) {
  proves("KIN-03", "KIN-04", "KIN-05");
  const LeaseId first = acquire("a", 60s);
  advance(60s);
  const LeaseId second = acquire("a", 60s);
  expect_lost("a", first);
  EXPECT_EQ(complete("a", second, "second"), CompleteOutcome::processed);
  expect_lost("a", first);
  EXPECT_EQ(key_record("a").result, "second");
}

TEST_P(KeysVerdictConformance, LeaseThatWasNeverGivenIsLost) {
  proves("KIN-04", "KIN-05");
  acquire("a");
  expect_lost("a", LeaseId::generate(now()));
  const LeaseId of_another = acquire("b");
  expect_lost("a", of_another);
}

TEST_P(KeysVerdictConformance, CompletionWithoutALeaseIsUnconditional) {
  proves("KIN-04", "KIN-01");
  const LeaseId held = acquire("held");
  release("released", acquire("released"));
  fail("failed", acquire("failed"));
  for (const char* key : {"held", "released", "failed"}) {
    EXPECT_EQ(complete(key, std::nullopt, "forced"), CompleteOutcome::processed) << key;
    const KeyRecord processed = key_record(key);
    EXPECT_EQ(processed.status, KeyStatus::processed) << key;
    EXPECT_EQ(processed.result, "forced") << key;
    EXPECT_EQ(processed.error, std::nullopt) << key;
    EXPECT_EQ(at(processed.lease_until), kNever) << key;
  }
  expect_lost("held", held);
}

TEST_P(KeysVerdictConformance, UnconditionalCompletionLeavesAProcessedKeyAsItIs) {
  proves("KIN-04");
  complete("a", acquire("a"), "first");
  const KeyRecord before = key_record("a");
  advance(1h);
  EXPECT_EQ(complete("a", std::nullopt, "second"), CompleteOutcome::processed);
  keys().mark_processed("a");
  EXPECT_EQ(key_record("a"), before);
}

TEST_P(KeysVerdictConformance, UnknownKeyIsCreatedProcessed) {
  proves("KIN-04");
  EXPECT_EQ(complete("a", std::nullopt, "result"), CompleteOutcome::processed);
  const KeyRecord expected{.key = "a",
                           .status = KeyStatus::processed,
                           .attempts = 0,
                           .first_seen_at = now(),
                           .last_seen_at = now(),
                           .keep_until = now() + defaults::kKeyRetention,
                           .result = "result"};
  EXPECT_EQ(key_record("a"), expected);
  EXPECT_EQ(complete("b", LeaseId::generate(now())), CompleteOutcome::processed)
      << "with a lease id as well: the work was done, and the key was forgotten meanwhile";
  EXPECT_TRUE(keys().is_processed("b"));
}

TEST_P(KeysVerdictConformance, ResultsOfAnyBytesComeBackAsGiven) {
  proves("KIN-04", "PKT-06");
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
  const std::vector<std::optional<std::string>> results{every_byte, std::string(), std::nullopt,
                                                        std::string(limits::kMaxResultBytes, '\0'),
                                                        "  trailing  "};
  for (std::size_t i = 0; i < results.size(); ++i) {
    SCOPED_TRACE(i);
    const std::string key = "a" + std::to_string(i);
    complete(key, acquire(key), results[i]);
    EXPECT_TRUE(key_record(key).result == results[i]) << "by find";  // too much to print
    EXPECT_TRUE(keys().begin({.key = key}).result == results[i]) << "by begin";
  }
}

TEST_P(KeysVerdictConformance, ReleasedKeyIsAcquiredByTheNext) {
  proves("KIN-05", "KIN-06");
  const LeaseId lease_id = acquire("a");
  advance(5s);
  KeyRecord expected = key_record("a");
  EXPECT_EQ(release("a", lease_id), ReleaseOutcome::released);
  expected.status = KeyStatus::released;
  expected.lease_until.reset();
  EXPECT_EQ(key_record("a"), expected);
  const BeginOutcome next = keys().begin({.key = "a"});
  EXPECT_EQ(next.status, BeginStatus::acquired);
  EXPECT_EQ(next.attempts, 2);
  expect_lost("a", lease_id);
}

TEST_P(KeysVerdictConformance, ReleaseAnswersWhatItFinds) {
  proves("KIN-05");
  EXPECT_EQ(release("nobody", LeaseId::generate(now())), ReleaseOutcome::unknown);
  EXPECT_EQ(keys().find("nobody"), std::nullopt);
  const LeaseId done = acquire("done");
  complete("done", done);
  EXPECT_EQ(release("done", done), ReleaseOutcome::processed);
  EXPECT_TRUE(keys().is_processed("done"));
  const LeaseId failed = acquire("failed");
  fail("failed", failed);
  EXPECT_EQ(release("failed", failed), ReleaseOutcome::lease_lost);
  const LeaseId lapsed = acquire("lapsed", 60s);
  advance(60s);
  EXPECT_EQ(release("lapsed", lapsed), ReleaseOutcome::released) << "nobody took it";
}

TEST_P(KeysVerdictConformance, ReleasedKeyHasNoHolder) {
  proves("KIN-04", "KIN-05");
  const LeaseId lease_id = acquire("a");
  release("a", lease_id);
  const KeyRecord before = key_record("a");
  EXPECT_EQ(complete("a", lease_id), CompleteOutcome::lease_lost);
  EXPECT_EQ(fail("a", lease_id), FailOutcome::lease_lost);
  EXPECT_EQ(keys().extend({.key = "a", .lease_id = lease_id}), KeyExtendOutcome{});
  EXPECT_EQ(key_record("a"), before);
}

TEST_P(KeysVerdictConformance, FailedKeyKeepsItsReason) {
  proves("PKT-05", "KIN-06", "PKT-06");
  const LeaseId lease_id = acquire("a");
  advance(5s);
  KeyRecord expected = key_record("a");
  EXPECT_EQ(fail("a", lease_id, "no route"), FailOutcome::failed);
  expected.status = KeyStatus::failed;
  expected.lease_until.reset();
  expected.error = "no route";
  EXPECT_EQ(key_record("a"), expected);
}

TEST_P(KeysVerdictConformance, FailedKeyCanBeBegunAgainByDefault) {
  proves("PKT-05");
  const LeaseId lease_id = acquire("a");
  fail("a", lease_id, "no route");
  const BeginOutcome again = keys().begin({.key = "a"});
  EXPECT_EQ(again.status, BeginStatus::acquired);
  EXPECT_EQ(again.attempts, 2);
  EXPECT_EQ(key_record("a").status, KeyStatus::in_progress);
  EXPECT_EQ(key_record("a").error, std::nullopt);
  expect_lost("a", lease_id);
}

TEST_P(KeysVerdictConformance, FailedKeyCanBeSuppressed) {
  proves("PKT-05");
  fail("a", acquire("a"), "no route");
  KeyRecord expected = key_record("a");
  advance(1h);
  const BeginOutcome again = keys().begin({.key = "a", .on_failed = FailedKeyPolicy::suppress});
  EXPECT_EQ(again.status, BeginStatus::failed);
  EXPECT_EQ(again.error, "no route");
  EXPECT_EQ(again.lease_id, std::nullopt);
  EXPECT_EQ(again.attempts, 1);
  expected.last_seen_at = now();
  EXPECT_EQ(key_record("a"), expected);
}

TEST_P(KeysVerdictConformance, SuppressionDoesNotStopALapsedOrReleasedKey) {
  proves("PKT-05");
  acquire("lapsed", 60s);
  advance(60s);
  release("released", acquire("released"));
  for (const char* key : {"lapsed", "released", "new"}) {
    EXPECT_EQ(keys().begin({.key = key, .on_failed = FailedKeyPolicy::suppress}).status,
              BeginStatus::acquired)
        << key;
  }
}

TEST_P(KeysVerdictConformance, FailAnswersLeaseLostForWhatItDoesNotHold) {
  proves("PKT-05", "PKT-06");
  EXPECT_EQ(fail("nobody", LeaseId::generate(now())), FailOutcome::lease_lost);
  EXPECT_EQ(keys().find("nobody"), std::nullopt);
  const LeaseId done = acquire("done");
  complete("done", done, "result");
  const KeyRecord before = key_record("done");
  EXPECT_EQ(fail("done", done), FailOutcome::lease_lost);
  EXPECT_EQ(key_record("done"), before);
}

TEST_P(KeysVerdictConformance, LapsedLeaseFailsUntilSomebodyElseBegan) {
  proves("PKT-05");
  const LeaseId lease_id = acquire("a", 60s);
  advance(1h);
  EXPECT_EQ(fail("a", lease_id), FailOutcome::failed);
}

TEST_P(KeysVerdictConformance, ReasonIsCutAtACharacter) {
  proves("PKT-05", "R-27");
  std::string euros;
  for (int i = 0; i < 700; ++i) euros += "€";  // three bytes each
  fail("a", acquire("a"), euros);
  EXPECT_EQ(key_record("a").error, euros.substr(0, 682 * 3));
  fail("b", acquire("b"), std::string("bad \xFF\0", 6));
  EXPECT_EQ(key_record("b").error, "bad \uFFFD\uFFFD");
}

TEST_P(KeysVerdictConformance, ExtensionCountsFromNowAndNeverShortens) {
  proves("KIN-03", "PKT-05");
  const LeaseId lease_id = acquire("a", 60s);
  advance(30s);
  const auto extend = [&](Duration lease) {
    return at(keys().extend({.key = "a", .lease_id = lease_id, .lease = lease}).lease_until);
  };
  EXPECT_EQ(extend(1s), at(now() + 30s));
  EXPECT_EQ(extend(60s), at(now() + 60s));
  EXPECT_EQ(at(key_record("a").lease_until), at(now() + 60s));
  EXPECT_EQ(key_record("a").attempts, 1);
  advance(60s - 1ms);
  EXPECT_EQ(keys().begin({.key = "a"}).status, BeginStatus::busy);
  advance(1h);
  EXPECT_EQ(extend(10s), at(now() + 10s)) << "a lapsed lease, too, while nobody took it";
  EXPECT_EQ(keys().begin({.key = "a"}).status, BeginStatus::busy);
}

TEST_P(KeysVerdictConformance, BatchesAreAnsweredInOrderAsIfOneByOne) {
  proves("KIN-04", "KIN-05", "IBX-102");
  const LeaseId a = acquire("a");
  const LeaseId b = acquire("b");
  const LeaseId c = acquire("c");
  const std::vector<CompleteRequest> completions{
      {.key = "a", .lease_id = b}, {.key = "a", .lease_id = a}, {.key = "a", .lease_id = a}};
  EXPECT_EQ(keys().complete(completions),
            (std::vector{CompleteOutcome::lease_lost, CompleteOutcome::processed,
                         CompleteOutcome::processed}));
  const std::vector<FailRequest> failures{{.key = "b", .lease_id = a, .error = "x"},
                                          {.key = "b", .lease_id = b, .error = "x"}};
  EXPECT_EQ(keys().fail(failures), (std::vector{FailOutcome::lease_lost, FailOutcome::failed}));
  const std::vector<ReleaseRequest> releases{{.key = "a", .lease_id = a},
                                             {.key = "nobody", .lease_id = a},
                                             {.key = "c", .lease_id = b},
                                             {.key = "c", .lease_id = c}};
  EXPECT_EQ(keys().release(releases),
            (std::vector{ReleaseOutcome::processed, ReleaseOutcome::unknown,
                         ReleaseOutcome::lease_lost, ReleaseOutcome::released}));
}

}  // namespace oncebox::conformance
