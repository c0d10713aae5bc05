// The edges of every range that keys have, and that nothing changes beyond them: KIN-03, KIN-09.

#include <algorithm>

#include "oncebox/conformance/fixture.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class KeysLimitsConformance : public StoreConformance {
 protected:
  static constexpr std::size_t kTooManyItems = limits::kMaxBatchItems + 1;

  /// `call` throws this code, and the key "held" is as before, and "a" is unknown as before.
  void expect_refused_key(std::string_view what, ErrorCode code, const std::function<void()>& call,
                          std::source_location where = std::source_location::current()) {
    const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()),
                                     std::string(what));
    const std::vector<IdempotencyKey> watched{"held", "a", "b"};
    const auto before = keys().find(watched);
    EXPECT_EQ(error_of(call), code);
    EXPECT_EQ(keys().find(watched), before);
  }

  /// Of the n-th key, which no other has.
  static std::string largest_result(std::size_t n) {
    std::string result = std::to_string(n);
    result.resize(limits::kMaxResultBytes, 'x');
    return result;
  }

  /// Processed keys "k0", "k1" …
  std::vector<IdempotencyKey> complete_with_largest_results(std::size_t count) {
    std::vector<IdempotencyKey> completed;
    for (std::size_t i = 0; i < count; ++i) {
      completed.emplace_back("k" + std::to_string(i));
      keys().complete({.key = completed.back(), .result = largest_result(i)});
    }
    return completed;
  }

  LeaseId hold() { return keys().begin({.key = "held"}).lease_id.value(); }
};

INSTANTIATE_TEST_SUITE_P(Stores, KeysLimitsConformance, testing::ValuesIn(on_inbox()), case_name);

TEST_P(KeysLimitsConformance, LeaseOutOfRangeIsRefused) {
  proves("KIN-03");
  const LeaseId held = hold();
  for (const Duration lease : {Duration(0), Duration(-1), Duration(1s - 1ms), Duration(300s + 1ms),
                               Duration::min(), Duration::max()}) {
    const std::string what = "a lease of " + std::to_string(lease.count()) + " ms";
    expect_refused_key(what, ErrorCode::out_of_range,
                       [&] { keys().begin({.key = "a", .lease = lease}); });
    expect_refused_key(what, ErrorCode::out_of_range,
                       [&] { keys().extend({.key = "held", .lease_id = held, .lease = lease}); });
    const std::vector<BeginRequest> batch{{.key = "b"}, {.key = "a", .lease = lease}};
    expect_refused_key(what, ErrorCode::out_of_range, [&] { keys().begin(batch); });
  }
}

TEST_P(KeysLimitsConformance, LeaseOnItsEdgesIsAccepted) {
  proves("KIN-03");
  const BeginOutcome shortest = keys().begin({.key = "a", .lease = 1s});
  EXPECT_EQ(at(shortest.lease_until), at(now() + 1s));
  EXPECT_EQ(at(keys().begin({.key = "b", .lease = 300s}).lease_until), at(now() + 300s));
  const LeaseId lease_id = shortest.lease_id.value();
  EXPECT_EQ(at(keys().extend({.key = "a", .lease_id = lease_id, .lease = 300s}).lease_until),
            at(now() + 300s));
  EXPECT_EQ(at(keys().extend({.key = "a", .lease_id = lease_id, .lease = 1s}).lease_until),
            at(now() + 300s));
}

TEST_P(KeysLimitsConformance, RetentionOutOfRangeIsRefused) {
  proves("KIN-09");
  const LeaseId held = hold();
  for (const Duration retention :
       {Duration(0), Duration(-1), Duration::min(), limits::kMaxRetention + 1ms}) {
    expect_refused_key("begin", ErrorCode::out_of_range,
                       [&] { keys().begin({.key = "a", .retention = retention}); });
    expect_refused_key("complete", ErrorCode::out_of_range, [&] {
      keys().complete({.key = "held", .lease_id = held, .retention = retention});
    });
    expect_refused_key("complete an unknown key", ErrorCode::out_of_range,
                       [&] { keys().complete({.key = "a", .retention = retention}); });
  }
}

TEST_P(KeysLimitsConformance, RetentionOnItsEdgesIsAccepted) {
  proves("KIN-09");
  keys().complete({.key = "short", .retention = 1ms});
  keys().complete({.key = "long", .retention = limits::kMaxRetention});
  EXPECT_TRUE(keys().is_processed("short"));
  advance(1ms);
  EXPECT_FALSE(keys().is_processed("short"));
  advance(limits::kMaxRetention - 2ms);
  EXPECT_TRUE(keys().is_processed("long"));
  advance(1ms);
  EXPECT_FALSE(keys().is_processed("long"));
}

TEST_P(KeysLimitsConformance, ResultAboveItsLimitIsRefused) {
  proves("KIN-04", "PKT-06");
  const LeaseId held = hold();
  const std::string too_large(limits::kMaxResultBytes + 1, 'x');
  expect_refused_key("of a held key", ErrorCode::invalid_argument, [&] {
    keys().complete({.key = "held", .lease_id = held, .result = too_large});
  });
  const std::vector<CompleteRequest> batch{{.key = "a"}, {.key = "b", .result = too_large}};
  expect_refused_key("after a good one", ErrorCode::invalid_argument,
                     [&] { keys().complete(batch); });
}

TEST_P(KeysLimitsConformance, KeysOf1024CodePointsAreKeptInEveryScript) {
  proves("KIN-06", "R-21");
  for (const std::string character : {"x", "Ω", "漢", "😀"}) {
    std::string longest;
    for (std::size_t i = 0; i < kMaxIdempotencyKeyCodePoints; ++i) longest += character;
    EXPECT_EQ(keys().begin({.key = longest}).status, BeginStatus::acquired) << character;
    EXPECT_EQ(keys().begin({.key = longest}).status, BeginStatus::busy) << character;
    EXPECT_EQ(keys().find(IdempotencyKey(longest)).value().key.str(), longest);
    const std::string shorter = longest.substr(0, longest.size() - character.size());
    EXPECT_EQ(keys().begin({.key = shorter}).status, BeginStatus::acquired) << character;
    EXPECT_EQ(error_of([&] { keys().begin({.key = longest + character}); }),
              ErrorCode::invalid_argument);
  }
}

TEST_P(KeysLimitsConformance, BadKeysAndOwnersAreRejected) {
  proves("KIN-03", "R-21");
  hold();
  for (const std::string& text : {std::string(), std::string("\xFF"), std::string("a\0b", 3)}) {
    expect_refused_key("key", ErrorCode::invalid_argument, [&] { keys().begin({.key = text}); });
    expect_refused_key("key", ErrorCode::invalid_argument,
                       [&] { (void)keys().is_processed(text); });
  }
  for (const std::string& text :
       {std::string(256, 'x'), std::string("\xFF"), std::string(1, '\0')}) {
    expect_refused_key("owner", ErrorCode::invalid_argument,
                       [&] { keys().begin({.key = "a", .owner = text}); });
  }
  EXPECT_EQ(error_of([] { (void)LeaseId(Uuid()); }), ErrorCode::invalid_argument);
}

TEST_P(KeysLimitsConformance, OwnerIsALabelThatComesBackAsGiven) {
  proves("KIN-03");
  std::string longest;
  for (int i = 0; i < 255; ++i) longest += "漢";
  for (const std::string& owner : {std::string(), std::string(" padded "), longest}) {
    const std::string key = "key of '" + owner.substr(0, 30) + "'";
    keys().begin({.key = key, .owner = owner});
    EXPECT_EQ(keys().find(IdempotencyKey(key)).value().owner, owner);
  }
}

TEST_P(KeysLimitsConformance, BatchesAboveTheLimitAreRefused) {
  proves("IBX-102", "PKT-06");
  const LeaseId held = hold();
  const std::vector<BeginRequest> begins(kTooManyItems, {.key = "a"});
  const std::vector<CompleteRequest> completions(kTooManyItems, {.key = "a"});
  const std::vector<FailRequest> failures(kTooManyItems,
                                          {.key = "held", .lease_id = held, .error = "x"});
  const std::vector<ReleaseRequest> releases(kTooManyItems, {.key = "held", .lease_id = held});
  const std::vector<KeyExtension> extensions(kTooManyItems,
                                             {.key = "held", .lease_id = held, .lease = 300s});
  const std::vector<IdempotencyKey> finds(kTooManyItems, "a");
  const auto expect_out_of_range = [&](std::string_view what, const std::function<void()>& call) {
    expect_refused_key(what, ErrorCode::out_of_range, call);
  };
  expect_out_of_range("begin", [&] { keys().begin(begins); });
  expect_out_of_range("complete", [&] { keys().complete(completions); });
  expect_out_of_range("fail", [&] { keys().fail(failures); });
  expect_out_of_range("release", [&] { keys().release(releases); });
  expect_out_of_range("extend", [&] { keys().extend(extensions); });
  expect_out_of_range("find", [&] { (void)keys().find(finds); });
  expect_out_of_range("cleanup of none", [&] { keys().cleanup(0); });
  expect_out_of_range("cleanup of too many", [&] { keys().cleanup(kTooManyItems); });
  EXPECT_EQ(keys().cleanup(limits::kMaxBatchItems), 0U);
}

TEST_P(KeysLimitsConformance, BatchAtTheLimitIsOneCall) {
  proves("IBX-102", "PKT-06");
  std::vector<BeginRequest> begins;
  begins.reserve(limits::kMaxBatchItems);
  for (std::size_t i = 0; i < limits::kMaxBatchItems; ++i) {
    begins.push_back({.key = "k" + std::to_string(i)});
  }
  const std::vector<BeginOutcome> outcomes = keys().begin(begins);
  EXPECT_EQ(std::count_if(outcomes.begin(), outcomes.end(),
                          [](const BeginOutcome& outcome) {
                            return outcome.status == BeginStatus::acquired;
                          }),
            std::ptrdiff_t{limits::kMaxBatchItems});
}

TEST_P(KeysLimitsConformance, FindAnswersEveryKeyHoweverMuchThatIs) {
  proves("KIN-01");
  std::vector<IdempotencyKey> all;
  for (int i = 0; i < 20; ++i) {
    all.emplace_back("k" + std::to_string(i));
    keys().complete({.key = all.back(), .result = std::string(limits::kMaxResultBytes, 'x')});
  }
  const auto found = keys().find(all);
  ASSERT_EQ(found.size(), all.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].value().key, all[i]);
    EXPECT_EQ(found[i]->result.value().size(), limits::kMaxResultBytes);
  }
}

// 20 keys with the largest results, of which 16 fit into one answer.
TEST_P(KeysLimitsConformance, BeginLeavesOutResultsThatHaveNoRoom) {
  proves("R-38", "KIN-03");
  constexpr std::size_t kRoom = limits::kMaxBegunResultBytes / limits::kMaxResultBytes;
  const std::vector<IdempotencyKey> all = complete_with_largest_results(kRoom + 4);
  std::vector<BeginRequest> requests;
  for (const IdempotencyKey& key : all) requests.push_back({.key = key});
  const std::vector<BeginOutcome> outcomes = keys().begin(requests);
  ASSERT_EQ(outcomes.size(), all.size());
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, all[i].str());
    EXPECT_EQ(outcomes[i].status, BeginStatus::processed);
    EXPECT_EQ(outcomes[i].result_left_out, i >= kRoom);
    const auto expected = i < kRoom ? std::optional(largest_result(i)) : std::nullopt;
    EXPECT_TRUE(outcomes[i].result == expected);
    EXPECT_TRUE(keys().find(all[i]).value().result == largest_result(i));
  }
  const BeginOutcome alone = keys().begin(requests.back());
  EXPECT_TRUE(alone.result == largest_result(all.size() - 1));
  EXPECT_FALSE(alone.result_left_out);
}

TEST_P(KeysLimitsConformance, BeginCountsTheResultOfARepeatedKeyEachTime) {
  proves("R-38", "KIN-03");
  constexpr std::size_t kRoom = limits::kMaxBegunResultBytes / limits::kMaxResultBytes;
  complete_with_largest_results(1);
  const std::vector<BeginRequest> requests(3 * kRoom, {.key = "k0"});
  const std::vector<BeginOutcome> outcomes = keys().begin(requests);
  ASSERT_EQ(outcomes.size(), requests.size());
  const std::string result = largest_result(0);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].result_left_out, i >= kRoom) << i;
    EXPECT_EQ(outcomes[i].result == result, i < kRoom) << i;
  }
}

TEST_P(KeysLimitsConformance, BeginAnswersWhatStillFits) {
  proves("R-38", "KIN-03");
  constexpr std::size_t kRoom = limits::kMaxBegunResultBytes / limits::kMaxResultBytes;
  complete_with_largest_results(1);
  keys().complete({.key = "forgotten", .result = std::string(1000, 'x'), .retention = 1ms});
  advance(1ms);
  keys().complete({.key = "small", .result = "ok"});
  keys().complete({.key = "empty", .result = ""});
  keys().complete({.key = "without"});
  std::vector<BeginRequest> requests{{.key = "forgotten"}, {.key = "small"}};
  requests.insert(requests.end(), kRoom, {.key = "k0"});
  for (const char* key : {"small", "empty", "without", "new"}) requests.push_back({.key = key});
  const std::vector<BeginOutcome> outcomes = keys().begin(requests);
  ASSERT_EQ(outcomes.size(), requests.size());
  EXPECT_EQ(outcomes[0].status, BeginStatus::acquired);
  EXPECT_FALSE(outcomes[0].result_left_out);
  EXPECT_EQ(outcomes[1].result, "ok");
  const auto after_large = std::span(outcomes).subspan(2 + kRoom - 1);
  EXPECT_TRUE(after_large[0].result_left_out) << "two bytes are missing";
  EXPECT_EQ(after_large[1].result, "ok");
  EXPECT_EQ(after_large[2].result, "");
  EXPECT_EQ(after_large[3].result, std::nullopt);
  EXPECT_FALSE(after_large[3].result_left_out) << "none is stored";
  EXPECT_EQ(after_large[4].status, BeginStatus::acquired);
}

}  // namespace oncebox::conformance
