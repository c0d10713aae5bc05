// The edges of every range: what lies on the edge is accepted, what lies one beyond is refused with
// the documented code, and then nothing has changed.

#include <algorithm>

#include "oncebox/conformance/fixture.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class LimitsConformance : public StoreConformance {
 protected:
  static constexpr std::size_t kTooManyItems = limits::kMaxBatchItems + 1;

  static std::vector<MessageKey> numbered_keys(std::size_t count) {
    std::vector<MessageKey> keys;
    keys.reserve(count);
    for (std::size_t i = 0; i < count; ++i) keys.push_back(key("m" + std::to_string(i)));
    return keys;
  }

  Settlement abandon_leased(Duration delay) {
    return {.delivery = {.key = key("leased"), .owner = alice}, .verdict = Abandon{.delay = delay}};
  }

  void expect_out_of_range(std::string_view what, const std::function<void()>& call,
                           std::source_location where = std::source_location::current()) {
    expect_refused(what, ErrorCode::out_of_range, call, where);
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, LimitsConformance, testing::ValuesIn(on_inbox()), case_name);

TEST_P(LimitsConformance, ClaimLeaseOutOfRangeIsRefused) {
  proves("IBX-040");
  put_every_situation();
  for (const Duration lease :
       {0ms, -1ms, Duration::min(), limits::kMaxLease + 1ms, Duration::max()}) {
    expect_out_of_range("a lease of " + std::to_string(lease.count()) + " ms",
                        [&] { (void)queue().claim({.owner = alice, .lease = lease}); });
  }
}

TEST_P(LimitsConformance, ClaimLeaseOnItsEdgesIsAccepted) {
  proves("IBX-040", "IBX-034", "IBX-119");
  for (const Duration lease :
       {limits::kMinLease, Duration(10s), Duration(300s), limits::kMaxLease}) {
    enqueue(message("a" + std::to_string(lease.count())));
    EXPECT_EQ(at(claim_one(alice, lease).locked_until), at(now() + lease));
    advance(lease - 1ms);
    EXPECT_TRUE(claim({.owner = bob}).empty());
    advance(1ms);
    settle(claim_one(bob));
  }
}

TEST_P(LimitsConformance, ClaimLimitOutOfRangeIsRefused) {
  proves("IBX-041");
  put_every_situation();
  expect_out_of_range("a limit of none",
                      [&] { (void)queue().claim({.owner = alice, .limit = 0}); });
  expect_out_of_range("a limit above the largest",
                      [&] { (void)queue().claim({.owner = alice, .limit = kTooManyItems}); });
  expect_out_of_range("a negative number that became unsigned", [&] {
    (void)queue().claim({.owner = alice, .limit = static_cast<std::size_t>(-1)});
  });
}

TEST_P(LimitsConformance, TooManyTopicPatternsAreRefused) {
  proves("IBX-041");
  enqueue_ids({"a"});
  std::vector<TopicPattern> patterns;
  while (patterns.size() < limits::kMaxTopicPatterns) {
    patterns.emplace_back("other." + std::to_string(patterns.size()));
  }
  EXPECT_TRUE(claim({.owner = alice, .topics = {.only = patterns}}).empty());
  expect_out_of_range("one more", [&] {
    (void)queue().claim({.owner = alice, .topics = {.only = patterns, .except = {"more"}}});
  });
  expect_out_of_range("next due",
                      [&] { (void)queue().next_due({.only = patterns, .except = {"more"}}); });
  // Names of 255 code points that have four bytes each.
  std::string longest;
  for (int i = 0; i < 255; ++i) longest += "\U0001F4EE";
  const std::vector<TopicPattern> large(limits::kMaxTopicPatternBytes / longest.size() + 1,
                                        TopicPattern(longest));
  expect_out_of_range("too many bytes",
                      [&] { (void)queue().claim({.owner = alice, .topics = {.except = large}}); });
  EXPECT_EQ(ids_of(claim({.owner = alice, .topics = {.except = patterns}})), Ids{"a"});
}

TEST_P(LimitsConformance, ClaimLimitOnItsEdgesIsAccepted) {
  proves("IBX-041", "IBX-120");
  enqueue_ids({"a", "b", "c"});
  EXPECT_EQ(claim_ids(1), Ids{"a"});
  EXPECT_EQ(claim_ids(limits::kMaxBatchItems), (Ids{"b", "c"}));
}

TEST_P(LimitsConformance, DeliveryCapOutOfRangeIsRefused) {
  proves("R-10");
  put_every_situation();
  for (const int cap : {0, -1, limits::kMaxDeliveries + 1}) {
    expect_out_of_range("a cap", [&] { set_policy("*", {.max_deliveries = cap}); });
  }
  set_policy("*", {.max_deliveries = limits::kMaxDeliveries});
  EXPECT_EQ(queue().claim({.owner = bob}).size(), 2U);
}

TEST_P(LimitsConformance, EmptyOwnerCannotBeMade) {
  proves("IBX-043", "IBX-130");
  EXPECT_EQ(error_of([] { (void)OwnerToken(Uuid()); }), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([] { (void)OwnerToken::parse("00000000-0000-0000-0000-000000000000"); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([] { (void)OwnerToken::parse(""); }), ErrorCode::invalid_argument);
}

TEST_P(LimitsConformance, AbandonDelayOutOfRangeIsRefused) {
  proves("IBX-058", "R-13");
  put_every_situation();
  for (const Duration delay : {0ms, -1ms, Duration::min(), limits::kMaxDelay + 1ms}) {
    expect_out_of_range("a delay of " + std::to_string(delay.count()) + " ms",
                        [&] { queue().settle(abandon_leased(delay)); });
  }
  const std::vector<Settlement> batch{
      {.delivery = {.key = key("leased"), .owner = alice}, .verdict = Ack{}}, abandon_leased(0ms)};
  expect_out_of_range("one bad delay among good settlements", [&] { queue().settle(batch); });
}

TEST_P(LimitsConformance, AbandonDelayOnItsEdgesIsAccepted) {
  proves("IBX-053", "IBX-058", "R-13");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.delay = 1ms});
  EXPECT_EQ(at(record("a").eligible_at), at(now() + 1ms));
  advance(1ms);
  settle(claim_one(), Abandon{.delay = limits::kMaxDelay});
  EXPECT_EQ(at(record("a").eligible_at), at(now() + limits::kMaxDelay));
}

TEST_P(LimitsConformance, ExtensionOutOfRangeIsRefused) {
  proves("IBX-040");
  put_every_situation();
  const Delivery delivery{.key = key("leased"), .owner = alice};
  for (const Duration lease : {0ms, -1ms, limits::kMaxLease + 1ms}) {
    expect_out_of_range("an extension of " + std::to_string(lease.count()) + " ms",
                        [&] { queue().extend({.delivery = delivery, .lease = lease}); });
  }
  const ExtendOutcome longest{.locked_until = now() + limits::kMaxLease};
  EXPECT_EQ(queue().extend({.delivery = delivery, .lease = limits::kMaxLease}), longest);
  EXPECT_EQ(queue().extend({.delivery = delivery, .lease = limits::kMinLease}), longest);
}

TEST_P(LimitsConformance, DueTimeAndExpiryOutOfRangeAreRefused) {
  proves("IBX-023", "R-28");
  put_every_situation();
  for (const TimePoint time :
       {kMinTime - 1ms, kMaxTime + 1ms, TimePoint::min(), TimePoint::max()}) {
    expect_out_of_range("a due time", [&] { enqueue(message("a", {.due_at = time})); });
    expect_out_of_range("an expiry", [&] { enqueue(message("a", {.expires_at = time})); });
    const std::vector<Message> batch{message("b"), message("a", {.due_at = time})};
    expect_out_of_range("one bad time among good messages", [&] { queue().enqueue(batch); });
  }
}

TEST_P(LimitsConformance, DueTimeAndExpiryOnTheirEdgesComeBackExactly) {
  proves("IBX-023", "IBX-024", "R-28");
  const Message early = message("early", {.due_at = kMinTime, .expires_at = kMaxTime});
  const Message late = message("late", {.due_at = kMaxTime, .expires_at = kMinTime});
  const Message odd = message("odd", {.due_at = now() + 1ms, .expires_at = now() + 999ms});
  for (const Message& one : {early, late, odd}) {
    enqueue(one);
    EXPECT_EQ(record(one.key.message_id.str()).message, one);
  }
  EXPECT_EQ(claim_one().message, early);
}

TEST_P(LimitsConformance, PriorityOutOfRangeCannotBeMade) {
  proves("R-17");
  for (const int priority : {-101, 101, -32'769, 65'536}) {
    EXPECT_EQ(error_of([&] { (void)Priority(priority); }), ErrorCode::out_of_range) << priority;
  }
  for (const int priority : {-100, 100}) {
    const std::string id = std::to_string(priority);
    enqueue(message(id, {.priority = priority}));
    EXPECT_EQ(record(id).message->priority.value(), priority);
  }
}

TEST_P(LimitsConformance, ReapLimitOutOfRangeIsRefused) {
  proves("IBX-068");
  put_every_situation();
  expect_out_of_range("a limit of none", [&] { queue().reap({.limit = 0}); });
  expect_out_of_range("a limit above the largest", [&] { queue().reap({.limit = kTooManyItems}); });
  EXPECT_EQ(queue().reap({.limit = 1}).released, 1U);
  EXPECT_EQ(queue().reap({.limit = limits::kMaxBatchItems}), ReapResult{});
}

TEST_P(LimitsConformance, BatchesAboveTheLimitAreRefused) {
  proves("IBX-102");
  put_every_situation();
  const std::vector<MessageKey> many = numbered_keys(kTooManyItems);
  std::vector<Message> messages;
  std::vector<Observation> observations;
  std::vector<Mark> marks;
  std::vector<Settlement> settlements;
  std::vector<LeaseExtension> extensions;
  for (const MessageKey& one : many) {
    messages.push_back({.key = one, .topic = "t", .payload = {}});
    observations.push_back({.key = one});
    marks.push_back({.key = one});
    settlements.push_back({.delivery = {.key = one, .owner = alice}});
    extensions.push_back({.delivery = {.key = one, .owner = alice}});
  }
  expect_out_of_range("enqueue", [&] { queue().enqueue(messages); });
  expect_out_of_range("observe", [&] { queue().observe(observations); });
  expect_out_of_range("mark", [&] { queue().mark(marks); });
  expect_out_of_range("settle", [&] { queue().settle(settlements); });
  expect_out_of_range("extend", [&] { queue().extend(extensions); });
  expect_out_of_range("find", [&] { (void)queue().find(many); });
  expect_out_of_range("revive", [&] { queue_operator().revive(many); });
  expect_out_of_range("purge", [&] { queue_operator().purge(many); });
}

TEST_P(LimitsConformance, BatchAtTheLimitIsOneCall) {
  proves("IBX-102", "IBX-039");
  const std::vector<MessageKey> keys = numbered_keys(limits::kMaxBatchItems);
  std::vector<Message> messages;
  messages.reserve(keys.size());
  for (const MessageKey& one : keys) messages.push_back({.key = one, .topic = "t", .payload = {}});
  EXPECT_EQ(queue().enqueue(messages).size(), limits::kMaxBatchItems);
  const std::vector<ClaimedMessage> claimed =
      claim({.owner = alice, .limit = limits::kMaxBatchItems});
  ASSERT_EQ(claimed.size(), limits::kMaxBatchItems);
  std::vector<Settlement> settlements;
  settlements.reserve(claimed.size());
  for (const ClaimedMessage& one : claimed) settlements.push_back({.delivery = delivery_of(one)});
  const std::vector<SettleOutcome> outcomes = queue().settle(settlements);
  EXPECT_EQ(std::count(outcomes.begin(), outcomes.end(), SettleStatus::settled),
            std::ptrdiff_t{limits::kMaxBatchItems});
  EXPECT_EQ(queue_operator().stats().total().done, limits::kMaxBatchItems);
}

TEST_P(LimitsConformance, ListLimitOutOfRangeIsRefused) {
  proves("R-30");
  put_every_situation();
  for (const std::size_t bytes : {std::size_t{0}, limits::kMaxClaimBytes + 1}) {
    expect_out_of_range("bytes", [&] { (void)queue_operator().list({.max_bytes = bytes}); });
  }
  expect_out_of_range("none", [&] { (void)queue_operator().list({.limit = 0}); });
  expect_out_of_range("above the largest",
                      [&] { (void)queue_operator().list({.limit = limits::kMaxListItems + 1}); });
  EXPECT_EQ(queue_operator().list({.limit = 1}).records.size(), 1U);
  EXPECT_EQ(queue_operator().list({.limit = limits::kMaxListItems}).records.size(), 8U);
}

TEST_P(LimitsConformance, ErrorFilterOutOfRangeIsRefused) {
  proves("R-30");
  put_every_situation();
  for (const std::string& text : {std::string(), std::string(limits::kMaxErrorBytes + 1, 'x')}) {
    const MessageFilter filter{.error_contains = text};
    expect_out_of_range("list", [&] { (void)queue_operator().list({.filter = filter}); });
    expect_out_of_range("count", [&] { (void)queue_operator().count(filter); });
    expect_out_of_range("revive", [&] { queue_operator().revive_matching(filter, {}, 1); });
    expect_out_of_range("purge", [&] { queue_operator().purge_matching(filter, 1); });
  }
  EXPECT_EQ(queue_operator().count({.error_contains = "b"}), 1U);
  EXPECT_EQ(queue_operator().count({.error_contains = std::string(limits::kMaxErrorBytes, 'x')}),
            0U);
}

TEST_P(LimitsConformance, RevivalOutOfRangeIsRefused) {
  proves("R-13", "R-24");
  put_every_situation();
  const std::vector<MessageKey> keys{key("dead")};
  for (const Duration delay : {-1ms, Duration::min(), limits::kMaxDelay + 1ms}) {
    expect_out_of_range("revive", [&] { queue_operator().revive(keys, {.delay = delay}); });
    expect_out_of_range("revive matching",
                        [&] { queue_operator().revive_matching({}, {.delay = delay}, 1); });
  }
  for (const std::size_t limit : {std::size_t{0}, kTooManyItems}) {
    expect_out_of_range("limit", [&] { queue_operator().revive_matching({}, {}, limit); });
  }
  queue_operator().revive(keys, {.delay = limits::kMaxDelay});
  EXPECT_EQ(at(record("dead").eligible_at), at(now() + limits::kMaxDelay));
}

TEST_P(LimitsConformance, OnlyTheDeadCanBeMatchedForRevivalOrPurge) {
  proves("R-24", "R-30", "IBX-099");
  put_every_situation();
  for (const Status status : {Status::seen, Status::processing, Status::done}) {
    const MessageFilter filter{.statuses = {Status::dead, status}};
    expect_refused("revive", ErrorCode::invalid_argument,
                   [&] { queue_operator().revive_matching(filter, {}, 10); });
    expect_refused("purge", ErrorCode::invalid_argument,
                   [&] { queue_operator().purge_matching(filter, 10); });
  }
  for (const std::size_t limit : {std::size_t{0}, kTooManyItems}) {
    expect_out_of_range("limit", [&] { queue_operator().purge_matching({}, limit); });
  }
  EXPECT_EQ(queue_operator().purge_matching({.statuses = {Status::dead}}, 10), 1U);
}

TEST_P(LimitsConformance, CleanupOutOfRangeIsRefused) {
  proves("IBX-100", "IBX-101", "R-22");
  put_every_situation();
  for (const Duration retention : {-1ms, Duration::min(), limits::kMaxRetention + 1ms}) {
    expect_out_of_range("of the done",
                        [&] { queue_operator().cleanup({.done_retention = retention}); });
    expect_out_of_range("of the dead",
                        [&] { queue_operator().cleanup({.dead_retention = retention}); });
  }
  for (const std::size_t limit : {std::size_t{0}, kTooManyItems}) {
    expect_out_of_range("limit", [&] { queue_operator().cleanup({.limit = limit}); });
  }
  EXPECT_EQ(queue_operator().cleanup({.done_retention = limits::kMaxRetention,
                                      .dead_retention = limits::kMaxRetention,
                                      .limit = limits::kMaxBatchItems}),
            CleanupResult{});
}

TEST_P(LimitsConformance, PayloadAboveTheStoresLimitIsRefused) {
  proves("IBX-118");
  put_every_situation();
  const std::size_t most = store().capabilities().max_payload_bytes;
  ASSERT_GE(most, std::size_t{16} << 20) << "every store takes 16 MiB";
  const Message huge = message("huge", {.payload = std::string(most + 1, 'x')});
  expect_refused("alone", ErrorCode::invalid_argument, [&] { queue().enqueue(huge); });
  const std::vector<Message> batch{message("small"), huge};
  expect_refused("after a good one", ErrorCode::invalid_argument, [&] { queue().enqueue(batch); });
}

}  // namespace oncebox::conformance
