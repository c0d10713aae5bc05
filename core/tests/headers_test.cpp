#include "oncebox/headers.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"

namespace oncebox {
namespace {

TEST(Headers, TheWellKnownOnesHaveNames) {
  RecordProperty("requirement", "MSG-04");
  const Headers headers{{"correlationId", "c"},  {"causationId", "a"},  {"messageId", "m"},
                        {"idempotencyKey", "i"}, {"partitionKey", "p"}, {"contentType", "t"},
                        {"traceparent", "w"},    {"x-other", "o"}};
  EXPECT_EQ(headers.correlation_id(), "c");
  EXPECT_EQ(headers.causation_id(), "a");
  EXPECT_EQ(headers.message_id(), "m");
  EXPECT_EQ(headers.idempotency_key(), "i");
  EXPECT_EQ(headers.partition_key(), "p");
  EXPECT_EQ(headers.content_type(), "t");
  EXPECT_EQ(headers.traceparent(), "w");
  EXPECT_EQ(headers.get("x-other"), "o");
  EXPECT_EQ(headers.get("X-Other"), std::nullopt);
}

TEST(Headers, TheTimestampIsATime) {
  RecordProperty("requirement", "MSG-04");
  Headers headers;
  EXPECT_EQ(headers.timestamp(), std::nullopt);
  const TimePoint time = parse_rfc3339("2026-01-31T08:15:30.250Z");
  EXPECT_EQ(headers.set_timestamp(time).timestamp(), time);
  headers.set(header_names::kTimestamp, "yesterday");
  expect_error(ErrorCode::invalid_argument, [&] { (void)headers.timestamp(); });
}

TEST(Headers, StandInTheOrderOfTheirNamesWhateverOrderTheyCameIn) {
  const Headers a{{"b", "2"}, {"a", "1"}};
  const Headers b{{"a", "0"}, {"b", "2"}, {"a", "1"}};
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.begin()->first, "a");
}

TEST(Headers, EraseRemovesOneAndIgnoresTheUnknown) {
  Headers headers{{"a", "1"}, {"b", "2"}};
  headers.erase("a");
  headers.erase("c");
  EXPECT_EQ(headers, (Headers{{"b", "2"}}));
}

TEST(Headers, HaveLimitsAndARefusedOneChangesNothing) {
  Headers headers;
  for (std::size_t i = 0; i < Headers::kMaxEntries; ++i) headers.set(std::to_string(i), "v");
  const Headers before = headers;
  expect_error(ErrorCode::invalid_argument, [&] { headers.set("one more", "v"); });
  expect_error(ErrorCode::invalid_argument, [&] { headers.set("", "v"); });
  expect_error(ErrorCode::invalid_argument, [&] { headers.set(std::string(129, 'n'), "v"); });
  expect_error(ErrorCode::invalid_argument, [&] { headers.set("1", std::string(8193, 'v')); });
  expect_error(ErrorCode::invalid_argument, [&] { headers.set("1", "\xFF"); });
  expect_error(ErrorCode::invalid_argument, [&] { headers.set("1", std::string_view("\0", 1)); });
  EXPECT_EQ(headers, before);
  EXPECT_EQ(headers.set("1", std::string(8192, 'v')).get("1")->size(), 8192U);
}

TEST(Headers, AnErrorNeverShowsTheValue) {
  Headers headers;
  const std::string text =
      expect_error(ErrorCode::invalid_argument, [&] { headers.set("token", "s3cret\xFF"); });
  EXPECT_EQ(text.find("s3cret"), std::string::npos);
}

}  // namespace
}  // namespace oncebox
