// How much memory the routes need. A program of its own: a sanitizer has memory for itself.

#include <gtest/gtest.h>

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/api_json.hpp"
#include "api/heap_trimmer.hpp"
#include "api_fixture.hpp"
#include "counted_memory.hpp"
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
