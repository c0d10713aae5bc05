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

}  // namespace oncebox::conformance
