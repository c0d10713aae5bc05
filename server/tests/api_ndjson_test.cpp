#include <gtest/gtest.h>

#include <random>

#include "api/line_splitter.hpp"
#include "api/ndjson_intake.hpp"
#include "api_fixture.hpp"
#include "faulty_store.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

TestCall ndjson(std::string body, std::string target = "/v1/messages") {
  return {.target = std::move(target),
          .body = std::move(body),
          .fields = {{"Content-Type", "application/x-ndjson"}}};
}

std::string line_of(std::size_t number) {
  return R"({"source":"s","messageId":"m)" + std::to_string(number) +
         R"(","topic":"t","payload":{"n":)" + std::to_string(number) + "}}\n";
}

std::string lines_of(std::size_t count) {
  std::string body;
  for (std::size_t i = 0; i < count; ++i) body += line_of(i);
  return body;
}

class Ndjson : public ApiTest {};
ONCEBOX_OVER_EACH_STORE(Ndjson);

TEST_P(Ndjson, StoresEachLineAndSaysWhatBecameOfThem) {
  enqueue("known");
  const Response response = call(ndjson(
      line_of(1) + line_of(2) +
      R"({"source":"shop","messageId":"known","topic":"order.created","payload":{"id":"known"}})"));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(json_of(response), json::parse(R"({
      "received":3, "accepted":2, "duplicate":1, "updated":0, "superseding":0, "duplicateDone":0,
      "duplicateDead":0, "revived":0, "rejected":0, "quarantined":0, "hashMismatches":0,
      "failedCount":0, "failed":[]})"));
  EXPECT_TRUE(store_->inbox().find(MessageKey{"s", "m2"}));
}

TEST_P(Ndjson, ABadLineFailsAlone) {
  const Response response =
      call(ndjson(line_of(1) + "nonsense\n" + R"({"topic":"t"})" + "\n" + line_of(2) +
                  R"({"topic":"t","payload":"","bogus":1})" + "\n"));
  ASSERT_EQ(response.status, 200) << response.body;
  const json::value summary = json_of(response);
  EXPECT_EQ(summary.at("received"), 5);
  EXPECT_EQ(summary.at("accepted"), 2);
  EXPECT_EQ(summary.at("failedCount"), 3);
  EXPECT_EQ(summary.at("failed").at(0).at("line"), 2);
  EXPECT_EQ(summary.at("failed").at(0).at("code"), "invalid_argument");
  EXPECT_EQ(summary.at("failed").at(1).at("line"), 3);
  EXPECT_NE(summary.at("failed").at(1).at("detail").as_string().find("payload"), std::string::npos);
  EXPECT_EQ(summary.at("failed").at(2).at("line"), 5);
  EXPECT_NE(summary.at("failed").at(2).at("detail").as_string().find("bogus"), std::string::npos);
}

TEST_P(Ndjson, OnlyTheFirstBadLinesAreListed) {
  std::string body;
  for (int i = 0; i < 250; ++i) body += "bad\n";
  const json::value summary = json_of(call(ndjson(body)));
  EXPECT_EQ(summary.at("failedCount"), 250);
  EXPECT_EQ(summary.at("failed").as_array().size(), 100U);
}

TEST_P(Ndjson, BlankLinesAndLineEndsOfWindowsDoNoHarm) {
  const json::value summary =
      json_of(call(ndjson("\n\r\n  \n" + line_of(1).substr(0, line_of(1).size() - 1) + "\r\n\n")));
  EXPECT_EQ(summary.at("received"), 1);
  EXPECT_EQ(summary.at("accepted"), 1);
  EXPECT_EQ(json_of(call(ndjson(""))).at("received"), 0);
}

TEST_P(Ndjson, AnyWayToCutTheBodyGivesTheSame) {
  const std::string body = "bad\n" + lines_of(3) + "\r\n" + line_of(9);
  for (std::size_t piece = 1; piece < 40; ++piece) {
    const json::value summary = json_of(under_test_.call(ndjson(body), piece));
    EXPECT_EQ(summary.at("received"), 5) << piece;
    EXPECT_EQ(summary.at("failedCount"), 1) << piece;
    EXPECT_EQ(summary.at("accepted").to_number<int>() + summary.at("duplicate").to_number<int>(), 4)
        << piece;
  }
}

TEST_P(Ndjson, FollowsTheQueryAndTheIdempotencyKey) {
  TestCall call_with_key =
      ndjson("{\"topic\":\"t\",\"payload\":1}\n\n{\"topic\":\"t\",\"payload\":2}\n",
             "/v1/messages?missingHash=Leave&onHashMismatch=Warn");
  call_with_key.fields.push_back({"Idempotency-Key", "k"});
  EXPECT_EQ(json_of(call(call_with_key)).at("accepted"), 2);
  const auto third = store_->inbox().find(MessageKey{"http", "k/2"});
  ASSERT_TRUE(third) << "the place counts every line";
  EXPECT_FALSE(third->hash);
  EXPECT_EQ(third->message->headers.idempotency_key(), "k/2");
  EXPECT_EQ(json_of(call(call_with_key)).at("duplicate"), 2) << "sending it again is safe";
  EXPECT_EQ(call(ndjson(line_of(1), "/v1/messages?bogus=1")).status, 400);
}

TEST_P(Ndjson, GoesToTheOutboxToo) {
  EXPECT_EQ(json_of(call(ndjson(lines_of(2), "/v1/stores/second/outbox/messages"))).at("accepted"),
            2);
  EXPECT_TRUE(second_->outbox().find(MessageKey{"s", "m1"}));
}

TEST_P(Ndjson, WhatWasStoredBeforeTheClientBrokeOffStays) {
  const auto exchange = under_test_.begin(ndjson(""));
  EXPECT_TRUE(exchange->send_piece(lines_of(NdjsonIntake::kBatchLines) + "{\"top"));
  exchange->break_body();
  EXPECT_TRUE(store_->inbox().find(MessageKey{"s", "m1"}));
}

TEST_P(Ndjson, AfterItsTokenIsRevokedNothingMoreIsStored) {
  const auto exchange = under_test_.begin(ndjson(""));
  ASSERT_TRUE(exchange->send_piece(lines_of(NdjsonIntake::kBatchLines)));
  exchange->revoke_token();
  ASSERT_TRUE(exchange->send_piece(line_of(NdjsonIntake::kBatchLines)));
  exchange->end_body();
  const Response response = exchange->wait();
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(json_of(response).at("linesStored"), NdjsonIntake::kBatchLines);
  EXPECT_EQ(store_->inbox_operator().count({}), NdjsonIntake::kBatchLines);
}

TEST_P(Ndjson, AfterItsTokenIsChangedTheOtherLinesAreToBeSentAgain) {
  const auto exchange = under_test_.begin(ndjson(""));
  exchange->change_token();
  ASSERT_TRUE(exchange->send_piece(line_of(1)));
  exchange->end_body();
  const Response response = exchange->wait();
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(json_of(response).at("linesStored"), 0);
  EXPECT_EQ(store_->inbox_operator().count({}), 0U);
}

class NdjsonLimits : public ApiTest {
 protected:
  NdjsonLimits() : ApiTest(options()) {}
  static ServerOptions options() {
    ServerOptions small = quiet_options();
    small.limits.max_line_bytes = 200;
    return small;
  }
};
ONCEBOX_OVER_EACH_STORE(NdjsonLimits);

TEST_P(NdjsonLimits, ALineThatIsTooLongFailsAlone) {
  const std::string body = line_of(1) + std::string(5'000, 'x') + "\n" + line_of(2) +
                           std::string(201, ' ') + "\n" + line_of(3) + std::string(900, 'y');
  for (const std::size_t piece : {7U, 190U, 4'096U}) {
    const json::value summary = json_of(under_test_.call(ndjson(body), piece));
    EXPECT_EQ(summary.at("failedCount"), 3) << piece;
    EXPECT_EQ(summary.at("failed").at(0).at("code"), "too_large");
    EXPECT_EQ(summary.at("failed").at(0).at("line"), 2);
    EXPECT_EQ(summary.at("failed").at(2).at("line"), 6);
  }
}

TEST(NdjsonFaults, AStoreThatFailsInTheMiddleSaysHowManyLinesAreStored) {
  const testing::FakeClock clock;
  int batches = 0;
  FaultyStore store(clock, [&](std::string_view call) {
    return call == "enqueue" && ++batches == 3 ? testing::Fault::before : testing::Fault::none;
  });
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  const std::string body = lines_of(NdjsonIntake::kBatchLines * 4);
  const Response failed = under_test.call(ndjson(body), std::size_t{16} << 10);
  EXPECT_EQ(failed.status, 503);
  EXPECT_EQ(problem_code(failed), "unavailable");
  EXPECT_TRUE(failed.fields.get("Retry-After"));
  EXPECT_EQ(json_of(failed).at("linesStored"), 2 * NdjsonIntake::kBatchLines);
  EXPECT_EQ(store.inbox_operator().count({}), 2 * NdjsonIntake::kBatchLines);
  const json::value again = json_of(under_test.call(ndjson(body)));
  EXPECT_EQ(again.at("duplicate"), 2 * NdjsonIntake::kBatchLines);
  EXPECT_EQ(again.at("accepted"), 2 * NdjsonIntake::kBatchLines);
}

TEST(NdjsonFaults, AMessageThatTheStoreDoesNotTakeFailsAlone) {
  const testing::FakeClock clock;
  memory::MemoryStore store(clock, {.max_payload_bytes = 50});
  ApiUnderTest under_test(quiet_options(), {{"main", store}}, clock);
  const json::value summary = json_of(under_test.call(
      ndjson(line_of(1) + R"({"topic":"t","payload":")" + std::string(60, 'x') + "\"}\n")));
  EXPECT_EQ(summary.at("accepted"), 1);
  EXPECT_EQ(summary.at("failed").at(0).at("line"), 2);
}

TEST(LineSplitterTest, GivesTheSameLinesHoweverTheTextIsCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (std::size_t i = random() % 60; i > 0; --i) text += "ab\r\n\n"[random() % 5];
    const auto split = [&](const auto& next_size) {
      std::vector<std::string> lines;
      const auto on_line = [&](std::string_view line) { lines.emplace_back(line); };
      const auto on_long = [&] { lines.emplace_back("<long>"); };
      LineSplitter splitter(5);
      for (std::string_view rest = text; !rest.empty();) {
        const std::string_view piece = rest.substr(0, next_size());
        rest.remove_prefix(piece.size());
        splitter.feed(piece, on_line, on_long);
      }
      splitter.finish(on_line, on_long);
      return lines;
    };
    const auto whole = split([&] { return text.size(); });
    EXPECT_EQ(split([] { return std::size_t{1}; }), whole);
    EXPECT_EQ(split([&] { return 1 + random() % 9; }), whole);
  }
}

}  // namespace

}  // namespace oncebox::server
