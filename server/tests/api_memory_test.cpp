// How much memory the routes need. A program of its own: a sanitizer has memory for itself.

#include <gtest/gtest.h>

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "api/api_json.hpp"
#include "api/heap_trimmer.hpp"
#include "api_fixture.hpp"
#include "counted_memory.hpp"
#include "faulty_store.hpp"
#include "http/memory_budget.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "resident_memory.hpp"
#include "watched.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

TEST(NdjsonSize, AHundredThousandLinesNeedTheMemoryOfABatch) {
  const testing::FakeClock clock;
  const testing::TemporaryFolder folder;
  const auto store = make_store(StoreKind::sqlite, clock, folder);
  ApiUnderTest under_test(quiet_options(), {{"main", *store}}, clock);
  const auto exchange = under_test.begin(
      {.target = "/v1/messages", .fields = {{"Content-Type", "application/x-ndjson"}}});
  constexpr std::size_t kLines = 100'000;
  constexpr std::size_t kPerPiece = 1'000;
  std::size_t most = 0;
  std::size_t before = 0;
  std::string piece;
  for (std::size_t line = 0; line < kLines; ++line) {
    const std::string number = std::to_string(line % 20'000);
    piece += R"({"source":"s","messageId":"m)" + number + R"(","topic":"t","payload":{"n":)" +
             number + "}}\n";
    if ((line + 1) % kPerPiece != 0) continue;
    exchange->send_piece(std::exchange(piece, {}));
    const std::size_t used = mallinfo2().uordblks;
    if (before == 0) before = used;
    most = std::max(most, used);
  }
  exchange->end_body();
  const json::value summary = json_of(exchange->wait());
  EXPECT_EQ(summary.at("received"), kLines);
  EXPECT_EQ(summary.at("accepted"), 20'000);
  EXPECT_EQ(summary.at("duplicate"), 80'000);
  EXPECT_LT(most - before, std::size_t{16} << 20) << "the body has about 6 MB, its messages more";
}

/// What clients may hold, and an address that holds it.
std::shared_ptr<ClientAddress> with_budget(std::size_t bytes) {
  return std::make_shared<ClientAddress>(std::make_shared<MemoryBudget>(bytes));
}

struct HeldLines {
  const char* name;
  std::string key;
  std::string line;
  std::size_t lines;

  friend std::ostream& operator<<(std::ostream& out, const HeldLines& lines) {
    return out << lines.name;
  }
};

class NdjsonHold : public ::testing::TestWithParam<HeldLines> {
 protected:
  static constexpr std::size_t kPieceBytes = std::size_t{16} << 10;
};

TEST_P(NdjsonHold, WhatIsKeptBetweenTwoPiecesCountsForAllThatItTakes) {
  RecordProperty("requirement", "R-38");
  const testing::FakeClock clock;
  memory::MemoryStore store(clock);
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  TestCall call{.target = "/v1/messages",
                .fields = {{"Content-Type", "application/x-ndjson"}},
                .address = with_budget(std::size_t{64} << 20)};
  if (!GetParam().key.empty()) call.fields.push_back({"Idempotency-Key", GetParam().key});
  const auto exchange = under_test.begin(call);
  ASSERT_TRUE(exchange->send_piece("\n"));  // its thread is there
  const std::size_t before = allocated_bytes();
  std::string lines;
  for (std::size_t i = 0; i < GetParam().lines; ++i) {
    lines += GetParam().line + "\n";
    if (lines.size() < kPieceBytes && i + 1 < GetParam().lines) continue;
    ASSERT_TRUE(exchange->send_piece(std::exchange(lines, {})));
  }
  const std::size_t held = call.address->memory->held();
  const std::size_t taken = allocated_bytes() - before;
  RecordProperty("held", std::to_string(held));
  RecordProperty("taken", std::to_string(taken));
  EXPECT_LE(taken, held + 2 * kPieceBytes) << "the connection counts a piece";
  EXPECT_LE(held, 2 * taken + kPieceBytes) << "it is not refused for what it does not take";
}

INSTANTIATE_TEST_SUITE_P(
    Lines, NdjsonHold,
    ::testing::Values(HeldLines{"Short", "", R"({"messageId":"1","topic":"t","payload":1})", 499},
                      HeldLines{"ShortWithALongKey", std::string(1'024, 'k'),
                                R"({"messageId":"1","topic":"t","payload":1})", 499},
                      HeldLines{"Headers", "",
                                R"({"topic":"t","payload":"","headers":{"a":"","b":"","c":""}})",
                                499},
                      HeldLines{"Payloads", "",
                                R"({"topic":"t","payload":")" + std::string(4'000, 'x') + R"("})",
                                200},
                      HeldLines{"WrongOnes", "k", R"({"payload":1})", 100'000},
                      HeldLines{"WrongOnesOfLongNames", "",
                                R"({"topic":"t",")" + std::string(10'000, 'x') + R"(":1})", 100}),
    [](const auto& lines) { return lines.param.name; });

TEST(ArrayHold, WhatItsMessagesTakeIsCountedBeforeTheyAreStored) {
  RecordProperty("requirement", "R-38");
  const testing::FakeClock clock;
  const auto address = with_budget(std::size_t{256} << 20);
  std::size_t held = 0;
  std::size_t taken = 0;
  std::size_t before = 0;
  FaultyStore store(clock, [&](std::string_view call) {
    if (call != "enqueue") return testing::Fault::none;
    held = address->memory->held();
    taken = allocated_bytes() - before;
    return testing::Fault::before;
  });
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  constexpr std::size_t kItems = 10'000;
  std::string items;
  for (std::size_t i = 0; i < kItems; ++i) {
    items += (i > 0 ? "," : "[") + (R"({"messageId":")" + std::to_string(i)) +
             R"(","topic":"t","payload":1})";
  }
  TestCall call = post("/v1/messages", items + "]");
  call.fields.push_back({"Idempotency-Key", std::string(1'024, 'k')});
  call.address = address;
  before = allocated_bytes();
  EXPECT_EQ(under_test.call(call).status, 503) << "the store failed";
  EXPECT_GT(taken, kItems * 1'024);
  EXPECT_LE(taken, held + 4 * call.body.size()) << "the connection counts the body";
  EXPECT_LE(held, 2 * taken);
  EXPECT_EQ(address->memory->held(), 0U);

  MemoryHold others(std::make_shared<ClientAddress>(address->memory), MemoryPart::callers);
  others.force(std::size_t{180} << 20);
  held = 0;
  const Response refused = under_test.call(call);
  EXPECT_EQ(problem_code(refused), "overloaded");
  EXPECT_NE(problem_detail(refused).find("limits.memory"), std::string::npos);
  EXPECT_EQ(held, 0U) << "the store was not asked";
}

constexpr std::size_t kTopics = 20'000;

std::string name_of_topic(std::size_t number) {
  return "a topic, number " + std::to_string(number);
}

TEST(StatsSize, SixteenWhoAskAtOnceNeedTheMemoryOfOne) {
  RecordProperty("requirement", "R-38");
  const testing::FakeClock clock;
  memory::MemoryStore store(clock);
  for (std::size_t begin = 0; begin < kTopics; begin += 1'000) {
    std::vector<Message> batch;
    for (std::size_t i = begin; i < begin + 1'000; ++i) {
      batch.push_back({.key = {"s", std::to_string(i)}, .topic = Topic(name_of_topic(i))});
    }
    (void)store.inbox().enqueue(batch);
  }
  ServerOptions options = quiet_options();
  options.call_threads = 16;
  ApiUnderTest under_test(options, {{"main", store}}, clock);
  const std::size_t bytes = bytes_needed_for([&] {
    std::vector<std::shared_ptr<TestExchange>> all;
    for (int i = 0; i < 16; ++i) all.push_back(under_test.begin(get("/v1/stats")));
    for (const auto& exchange : all) {
      const json::value page = json_of(exchange->wait());
      EXPECT_EQ(page.at("topics").as_array().size(), 1'000U);
      EXPECT_EQ(page.at("total").at("ready"), kTopics);
    }
  });
  RecordProperty("bytes", std::to_string(bytes / kTopics));
  EXPECT_LT(bytes, std::size_t{32} << 20) << "one reading has about 4 MB, a page 0.4 MB";
}

TEST(EventSize, AnEventOfManyTopicsNeedsLittle) {
  RecordProperty("requirement", "R-38");
  QueueStats stats;
  for (std::size_t i = 0; i < kTopics; ++i) {
    stats.topics.push_back({.topic = Topic(name_of_topic(i)), .ready = i});
  }
  const std::vector<QueueSample> samples{{"main", "inbox", std::move(stats)}};
  std::size_t length = 0;
  const std::size_t bytes = bytes_needed_for(
      [&] { length = write_samples(samples, testing::FakeClock::kDefaultStart).size(); });
  EXPECT_LT(length, std::size_t{64} << 10);
  EXPECT_LT(bytes, std::size_t{1} << 20) << "all of the topics as JSON have 6 MB";
}

/// Dead messages, each with as many headers as there may be.
void bury_with_large_headers(QueueStore& queue, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Message message{.key = {"s", MessageId(std::to_string(i))}, .topic = "t"};
    for (std::size_t header = 0; header < Headers::kMaxEntries; ++header) {
      message.headers.set("h" + std::to_string(header), std::string(Headers::kMaxValueBytes, 'x'));
    }
    queue.enqueue(message);
    queue.mark(Mark{.key = message.key, .as = MarkAs::dead});
  }
}

TEST(StepSize, AFindOfKeysReadsAsManyResultsAsTheMemoryAllows) {
  RecordProperty("requirement", "R-38");
  const testing::FakeClock clock;
  memory::MemoryStore store(clock);
  std::string names;
  for (int i = 0; i < 16; ++i) {
    const IdempotencyKey key(std::to_string(i));
    store.keys().complete(
        CompleteRequest{.key = key, .result = std::string(limits::kMaxResultBytes, 'x')});
    names += (i > 0 ? R"(",")" : R"(")") + key.str();
  }
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  TestCall find = post("/v1/keys/find", R"({"keys":[)" + names + R"("]})");
  find.address = with_budget(std::size_t{64} << 20);
  MemoryHold others(std::make_shared<ClientAddress>(find.address->memory), MemoryPart::callers);
  others.force(std::size_t{40} << 20);
  const std::size_t bytes = bytes_needed_for([&] {
    const json::value found = json_of(under_test.call(find));
    EXPECT_EQ(found.at("results").as_array().size(), 1U);
    EXPECT_EQ(found.at("truncated"), true);
  });
  EXPECT_LT(bytes, std::size_t{8} << 20) << "the results of all have 16 MiB";
}

TEST(GroupSize, GroupsWithTheLongestNamesNeedNoMoreThanIsCounted) {
  RecordProperty("requirement", "R-38");
  const testing::FakeClock clock;
  memory::MemoryStore store(clock);
  std::string longest;
  while (longest.size() < 1'000) longest += "\U0001F4EC";
  constexpr std::size_t kGroups = 1'000;
  for (std::size_t i = 0; i < kGroups; ++i) {
    const std::string name = longest + std::to_string(i);
    const MessageKey key{Source(longest), MessageId(name)};
    store.inbox().enqueue({.key = key, .topic = Topic(name)});
    store.inbox().mark(
        Mark{.key = key, .as = MarkAs::dead, .error = std::string(2'000, 'x') + ' ' + name});
  }
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  Response response;
  const std::size_t bytes =
      bytes_needed_for([&] { response = under_test.call(get("/v1/dead/groups")); });
  EXPECT_EQ(json_of(response).at("groups").as_array().size(), kGroups);
  RecordProperty("bytes", std::to_string(bytes / kGroups));
  EXPECT_LT(bytes / kGroups, std::size_t{20} << 10) << "twice what one is taken for";
}

/// An array with the keys of these messages, and what else each item of a call has.
std::string items_with(std::size_t count, const std::string& rest) {
  std::string items;
  for (std::size_t i = 0; i < count; ++i) {
    items += (i > 0 ? "," : "") + (R"({"source":"s","messageId":")" + std::to_string(i)) + R"(")" +
             rest + "}";
  }
  return "[" + items + "]";
}

TEST(StepSize, CallsThatGoThroughManyMessagesReadFewAtATime) {
  RecordProperty("requirement", "R-38");
  const testing::FakeClock clock;
  const testing::TemporaryFolder folder;
  const auto store = make_store(StoreKind::sqlite, clock, folder);
  constexpr std::size_t kMessages = 40;  // 20 MiB of headers
  bury_with_large_headers(store->inbox(), kMessages);
  const std::string keys = items_with(kMessages, "");
  ApiUnderTest under_test(quiet_options(), {{"main", *store}}, clock);
  TestCall looked_up = post("/v1/messages/run-now", R"({"keys":)" + keys + "}");
  looked_up.limits.topics = {TopicPattern("t")};
  const std::vector<TestCall> calls{
      get("/v1/dead/groups"),
      post("/v1/dead/revive", R"({"all":true,"perSecond":1,"dryRun":true})"),
      looked_up,
      post("/v1/messages/cancel", R"({"keys":)" + keys + R"(,"dryRun":true})"),
      post("/v1/messages/settle", R"({"owner":"0190a0b0-0000-7000-8000-000000000001","items":)" +
                                      items_with(kMessages, R"(,"verdict":"Ack")") + "}"),
      post("/v1/messages/delete", R"({"all":true})"),
  };
  for (const TestCall& call : calls) {
    const std::size_t bytes = bytes_needed_for([&] {
      const Response response = under_test.call(call);
      EXPECT_EQ(response.status, 200) << call.target << response.body;
    });
    EXPECT_LT(bytes, std::size_t{6} << 20) << call.target;
  }
}

TEST(HeapTrimmer, WhatClientsHeldGoesBackToTheSystem) {
  RecordProperty("requirement", "R-38");
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  constexpr std::size_t kBody = std::size_t{64} << 10;
  testing::ManualClock clock;
  std::atomic<std::size_t> held = 0;
  std::atomic<int> looks = 0;
  const HeapTrimmer trimmer(
      [&] {
        ++looks;
        return held.load();
      },
      clock);
  const auto look = [&] {
    const int before = looks;
    clock.advance(HeapTrimmer::kInterval);
    EXPECT_TRUE(eventually([&] { return looks > before; }));
  };
  malloc_trim(0);
  const std::size_t before = resident_bytes();
  std::vector<std::unique_ptr<std::string>> bodies;
  std::vector<std::unique_ptr<std::string>> what_stays;
  for (std::size_t bytes = 0; bytes < kBytes; bytes += kBody) {
    bodies.push_back(std::make_unique<std::string>(kBody, 'x'));
    what_stays.push_back(std::make_unique<std::string>(kBody, 'x'));
  }
  held = kBytes;
  look();
  EXPECT_TRUE(kIsSanitized || resident_bytes() >= before + 2 * kBytes);
  bodies.clear();
  EXPECT_TRUE(kIsSanitized || resident_bytes() >= before + 2 * kBytes - kBytes / 4)
      << "the allocator keeps it";
  held = 0;
  look();
  EXPECT_TRUE(eventually([&] {
    return kIsSanitized || resident_bytes() < before + kBytes + kBytes / 8;
  })) << before
      << " " << resident_bytes();
}

// The next two are what docs/configuration.md says a topic and a waiting claim cost at most.

class TopicSize : public ::testing::TestWithParam<StoreKind> {};

TEST_P(TopicSize, StatisticsOfTopicsWithTheLongestNamesNeedNoMoreThanTheDocsSay) {
  const testing::FakeClock clock;
  const testing::TemporaryFolder folder;
  const auto store = make_store(GetParam(), clock, folder);
  constexpr std::size_t kLongTopics = 4'000;
  std::string longest;
  while (longest.size() < 1'000) longest += "\U0001F4EC";
  for (std::size_t begin = 0; begin < kLongTopics; begin += 1'000) {
    std::vector<Message> batch;
    for (std::size_t i = begin; i < begin + 1'000; ++i) {
      batch.push_back(
          {.key = {"s", std::to_string(i)}, .topic = Topic(longest + std::to_string(i))});
    }
    (void)store->inbox().enqueue(batch);
  }
  ApiUnderTest under_test(quiet_options(), {{"main", *store}}, clock);
  TestCall limited = get("/v1/stats?limit=10");
  limited.limits.topics = {TopicPattern("*")};
  const std::size_t bytes = bytes_needed_for(
      [&] { EXPECT_EQ(json_of(under_test.call(limited)).at("total").at("ready"), kLongTopics); });
  RecordProperty("bytes", std::to_string(bytes / kLongTopics));
  EXPECT_LT(bytes / kLongTopics, std::size_t{6} << 10);
}

INSTANTIATE_TEST_SUITE_P(Stores, TopicSize, ::testing::ValuesIn(store_kinds()));

TEST(WaitingClaimSize, TheLongestPatternsNeedNoMoreThanTheDocsSay) {
  RecordProperty("requirement", "R-38");
  const testing::FakeClock clock;
  memory::MemoryStore store(clock);
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  std::string body = R"({"waitSeconds":30,"topics":{"only":[)";
  for (int i = 0; i < 256; ++i) {
    const std::string number = std::to_string(i);
    body += (i == 0 ? "\"" : ",\"") + std::string(255 - number.size(), 'x') + number + "\"";
  }
  body += "]}}";
  constexpr std::size_t kClaims = 50;
  std::vector<std::shared_ptr<TestExchange>> waiting;
  const std::size_t before = allocated_bytes();
  for (std::size_t i = 0; i < kClaims; ++i) {
    waiting.push_back(under_test.begin(post("/v1/messages/claim", body)));
  }
  const std::string all_wait =
      "\noncebox_waiting_claims{store=\"main\"} " + std::to_string(kClaims) + "\n";
  EXPECT_TRUE(eventually(
      [&] { return under_test.metrics().expose().find(all_wait) != std::string::npos; }));
  const std::size_t each = (allocated_bytes() - before) / kClaims;
  RecordProperty("bytes", std::to_string(each));
  EXPECT_LT(each - body.size(), std::size_t{96} << 10);
  for (const auto& exchange : waiting) {
    EXPECT_FALSE(exchange->answered()) << problem_detail(exchange->wait());
  }
  under_test.api().drain();
}

}  // namespace

}  // namespace oncebox::server
