// What calls read from stores is counted before it is read (R-38).

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "api_fixture.hpp"
#include "faulty_store.hpp"
#include "http/memory_budget.hpp"
#include "oncebox/wire/message_json.hpp"
#include "watched.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr const char* kFind = R"({"keys":[{"source":"s","messageId":"m"}]})";

class ReadingTest : public ::testing::Test {
 protected:
  [[nodiscard]] TestCall counted(TestCall call) const {
    call.address = address;
    return call;
  }
  [[nodiscard]] std::size_t held() const { return address->memory->held(); }
  [[nodiscard]] static bool a_claim_waits(ApiUnderTest& under_test) {
    constexpr const char* kOneWaits = "\noncebox_waiting_claims{store=\"main\"} 1\n";
    return under_test.metrics().expose().find(kOneWaits) != std::string::npos;
  }

  const testing::FakeClock clock;
  const std::shared_ptr<ClientAddress> address =
      std::make_shared<ClientAddress>(std::make_shared<MemoryBudget>(64 * kMebibyte));
  const std::shared_ptr<ClientAddress> somebody_else =
      std::make_shared<ClientAddress>(address->memory);
};

TEST_F(ReadingTest, ACallThatLooksIsRefusedBeforeTheStoreIsAskedWhenThereIsNoRoom) {
  const std::vector<TestCall> looks{
      post("/v1/messages/find", kFind),
      get("/v1/messages?payloads=true"),
      get("/v1/messages/s/m"),
      get("/v1/dead"),
      get("/v1/dead/s/m"),
      get("/v1/dead/s/m/history"),
      get("/v1/dead/groups"),
      get("/v1/audit"),
  };
  StuckStore stuck(clock);
  ApiUnderTest under_test(quiet_options(), {{"main", stuck.store()}}, clock);
  MemoryHold others(somebody_else, MemoryPart::callers);
  others.force(63 * kMebibyte);
  for (const TestCall& look : looks) {
    const Response refused = under_test.call(counted(look));
    EXPECT_EQ(refused.status, 503) << look.target;
    EXPECT_EQ(problem_code(refused), "overloaded");
    EXPECT_TRUE(refused.fields.get("Retry-After"));
  }
  EXPECT_EQ(stuck.looks(), 0);
  EXPECT_EQ(held(), 63 * kMebibyte);
}

TEST_F(ReadingTest, WhatIsBeingReadStaysWithinTheBudgetHoweverManyAsk) {
  StuckStore stuck(clock);
  ApiUnderTest under_test(quiet_options(), {{"main", stuck.store()}}, clock);
  std::vector<std::shared_ptr<TestExchange>> asking;
  for (int i = 0; i < 20; ++i) {
    asking.push_back(under_test.begin(counted(post("/v1/messages/find", kFind))));
  }
  stuck.wait_for_first_look();
  EXPECT_GT(held(), 2 * kMebibyte) << "nobody knows yet how large the message is";
  EXPECT_LE(held(), 64 * kMebibyte);
  stuck.let_go();
  for (const auto& exchange : asking) EXPECT_EQ(exchange->wait().status, 200);
  asking.clear();
  EXPECT_LT(held(), kMebibyte) << "what was found is small";
}

TEST_F(ReadingTest, AFindAsksForNoMoreThanItsShareOfTheMemory) {
  memory::MemoryStore store(clock);
  std::string keys;
  for (int i = 0; i < 8; ++i) {
    const std::string id = std::to_string(i);
    store.inbox().enqueue(
        {.key = {"s", MessageId(id)}, .topic = "t", .payload = std::string(kMebibyte, 'x')});
    keys += (i > 0 ? "," : "") + (R"({"source":"s","messageId":")" + id + R"("})");
  }
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  const json::value found =
      json_of(under_test.call(counted(post("/v1/messages/find", R"({"keys":[)" + keys + "]}"))));
  EXPECT_EQ(found.at("results").as_array().size(), 3U) << "an eighth of 48 MiB, for two copies";
  EXPECT_EQ(found.at("truncated"), true);
}

TEST_F(ReadingTest, GroupsOfTheDeadAreAsManyAsTheMemoryAllows) {
  RecordProperty("requirement", "R-38");
  memory::MemoryStore store(clock);
  constexpr int kGroups = 300;
  for (int i = 0; i < kGroups; ++i) {
    const MessageKey key{"s", MessageId(std::to_string(i))};
    store.inbox().enqueue({.key = key, .topic = Topic("topic" + std::to_string(i))});
    store.inbox().mark(Mark{.key = key, .as = MarkAs::dead});
  }
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  const auto count_groups = [&] {
    const json::value found = json_of(under_test.call(counted(get("/v1/dead/groups"))));
    EXPECT_EQ(found.at("others").to_number<std::size_t>(),
              kGroups - found.at("groups").as_array().size());
    return found.at("groups").as_array().size();
  };
  EXPECT_EQ(count_groups(), kGroups);
  MemoryHold others(somebody_else, MemoryPart::callers);
  others.force(44 * kMebibyte);
  EXPECT_EQ(count_groups(), kMebibyte / 10'240) << "the others are counted";
}

TEST_F(ReadingTest, ResultsOfKeysCountAlsoAsTheAnswer) {
  RecordProperty("requirement", "R-38");
  memory::MemoryStore store(clock);
  store.keys().complete(CompleteRequest{.key = "k", .result = std::string(kMebibyte, 'x')});
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  const TestCall find = counted(post("/v1/keys/find", R"({"keys":["k"]})"));
  EXPECT_EQ(under_test.call(find).status, 200);
  MemoryHold others(somebody_else, MemoryPart::callers);
  others.force(48 * kMebibyte - 2 * kMebibyte - 1'000);
  EXPECT_EQ(problem_code(under_test.call(find)), "overloaded") << "as base64 it takes a third more";
}

TEST_F(ReadingTest, AMessageThatThereIsNoRoomForIsNotMadeIntoAnAnswer) {
  memory::MemoryStore store(clock);
  // As JSON each byte takes six.
  store.inbox().enqueue(
      {.key = {"s", "m"}, .topic = "t", .payload = std::string(6 * kMebibyte, '\x01')});
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  EXPECT_EQ(under_test.call(counted(get("/v1/messages/s/m"))).status, 503);
  EXPECT_EQ(held(), 0U);
  EXPECT_EQ(under_test.call(get("/v1/messages/s/m")).status, 200) << "without a budget it fits";
}

TEST_F(ReadingTest, AClaimOfAMessageThatThereIsNoRoomForGivesItBack) {
  memory::MemoryStore store(clock);
  store.inbox().enqueue(
      {.key = {"s", "m"}, .topic = "t", .payload = std::string(8 * kMebibyte, 'x')});
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  {
    MemoryHold others(somebody_else, MemoryPart::callers);
    others.force(56 * kMebibyte);
    const Response refused = under_test.call(counted(post("/v1/messages/claim", "{}")));
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(problem_code(refused), "overloaded");
  }
  const auto record = store.inbox().find({"s", "m"});
  EXPECT_EQ(record->state, State::ready);
  EXPECT_EQ(record->history.attempt, 0) << "it was released";
  const Response claimed = under_test.call(counted(post("/v1/messages/claim", "{}")));
  EXPECT_EQ(claimed.status, 200);
  EXPECT_GT(claimed.body.size(), 8 * kMebibyte);
}

TEST_F(ReadingTest, SmallMessagesAreClaimedWhateverOthersHold) {
  memory::MemoryStore store(clock);
  store.inbox().enqueue({.key = {"s", "m"}, .topic = "t", .payload = "small"});
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  MemoryHold others(somebody_else, MemoryPart::callers);
  others.force(64 * kMebibyte - 16'000);
  const json::value claimed = json_of(under_test.call(counted(post("/v1/messages/claim", "{}"))));
  EXPECT_EQ(claimed.at("messages").as_array().size(), 1U);
}

TEST_F(ReadingTest, ThePatternsOfAWaitingClaimCountUntilItIsAnswered) {
  memory::MemoryStore store(clock);
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  std::string patterns;
  for (int i = 0; i < 250; ++i) {
    patterns += (i > 0 ? "," : "") + (R"(")" + std::string(250, 'x')) + std::to_string(i) + R"(")";
  }
  const TestCall claim = counted(
      post("/v1/messages/claim", R"({"waitSeconds":30,"topics":{"only":[)" + patterns + "]}}"));
  {
    MemoryHold others(somebody_else, MemoryPart::callers);
    others.force(64 * kMebibyte);
    EXPECT_EQ(problem_code(under_test.call(claim)), "overloaded");
  }
  const auto waiting = under_test.begin(claim);
  ASSERT_TRUE(eventually([&] { return a_claim_waits(under_test); }));
  EXPECT_TRUE(eventually([&] { return held() > 250U * 250U && held() < 250'000; }))
      << "what a try holds meanwhile is more";
  under_test.api().drain();
  EXPECT_EQ(waiting->wait().status, 200);
  EXPECT_TRUE(eventually([&] { return held() < 4'096; }));
}

TEST_F(ReadingTest, WhatAWaitingClaimBuriedCountsUntilItIsTold) {
  memory::MemoryStore store(clock);
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  const std::string longest(200, 'x');
  for (int i = 0; i < 200; ++i) {
    store.inbox().enqueue({.key = {Source(longest), MessageId(longest + std::to_string(i))},
                           .topic = Topic(longest),
                           .payload = "x",
                           .expires_at = clock.now()});
  }
  const auto waiting =
      under_test.begin(counted(post("/v1/messages/claim", R"({"waitSeconds":30})")));
  ASSERT_TRUE(eventually([&] { return a_claim_waits(under_test); }));
  EXPECT_TRUE(eventually([&] { return held() > 200U * 600U && held() < 400'000; }))
      << "what a try holds meanwhile is more";
  under_test.api().drain();
  EXPECT_EQ(json_of(waiting->wait()).at("reaped").at("buried"), 200);
}

TEST_F(ReadingTest, CallsThatLookAndHangHoldUpNoClaim) {
  RecordProperty("requirement", "R-38");
  for (const TestCall& look : {post("/v1/messages/find", kFind), get("/v1/messages"),
                               get("/v1/dead/groups"), post("/v1/messages/count", "{}")}) {
    StuckStore stuck(clock);
    ServerOptions options = quiet_options();
    options.call_threads = 6;
    ApiUnderTest under_test(options, {{"main", stuck.store()}}, clock);
    std::vector<std::shared_ptr<TestExchange>> looking;
    for (int i = 0; i < 20; ++i) looking.push_back(under_test.begin(look));
    stuck.wait_for_first_look();
    std::vector<std::shared_ptr<TestExchange>> claims;
    for (int i = 0; i < 20; ++i)
      claims.push_back(under_test.begin(post("/v1/messages/claim", "{}")));
    for (const auto& claim : claims) EXPECT_EQ(claim->wait().status, 200) << look.target;
    for (const auto& exchange : looking) EXPECT_FALSE(exchange->answered()) << look.target;
    stuck.let_go();
    for (const auto& exchange : looking) EXPECT_EQ(exchange->wait().status, 200) << look.target;
  }
}

}  // namespace

}  // namespace oncebox::server
