#include "oncebox/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <limits>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "oncebox/message.hpp"
#include "oncebox/testing/fake_clock.hpp"

namespace oncebox {
namespace {

TEST(TextLogger, WritesOneLineWithFields) {
  const testing::FakeClock clock;
  std::ostringstream out;
  TextLogger logger(out, clock, LogLevel::debug);
  logger.log(LogLevel::info, "enqueued",
             {{"topic", Topic("order.created")}, {"count", 3}, {"fresh", true}, {"share", 0.5}});
  EXPECT_EQ(out.str(),
            "2026-01-01T00:00:00.000Z info enqueued topic=order.created count=3 fresh=true "
            "share=0.5\n");
}

TEST(TextLogger, NoValueCanForgeALineOrAField) {
  const testing::FakeClock clock;
  std::ostringstream out;
  TextLogger logger(out, clock);
  logger.log(LogLevel::info, "x",
             {{"a", "two words"}, {"b", "line\nbreak"}, {"c", "q\"=\\"}, {"d", ""}});
  EXPECT_EQ(out.str(),
            "2026-01-01T00:00:00.000Z info x a=\"two words\" b=\"line\\x0abreak\" "
            "c=\"q\\\"=\\\\\" d=\"\"\n");
}

TEST(TextLogger, DropsWhatIsBelowItsLevel) {
  const testing::FakeClock clock;
  std::ostringstream out;
  TextLogger logger(out, clock, LogLevel::warning);
  logger.log(LogLevel::info, "quiet", {});
  EXPECT_EQ(out.str(), "");
  logger.log(LogLevel::error, "loud", {});
  EXPECT_NE(out.str().find("error loud"), std::string::npos);
}

TEST(JsonLogger, WritesOneObjectALine) {
  const testing::FakeClock clock;
  std::ostringstream out;
  JsonLogger logger(out, clock);
  logger.log(LogLevel::warning, "too slow",
             {{"topic", Topic("order.created")},
              {"count", 3},
              {"fresh", true},
              {"share", 0.5},
              {"none", std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(out.str(),
            R"({"time":"2026-01-01T00:00:00.000Z","level":"warning","message":"too slow",)"
            R"("topic":"order.created","count":3,"fresh":true,"share":0.5,"none":null})"
            "\n");
}

TEST(JsonLogger, EscapesWhateverAValueHolds) {
  const testing::FakeClock clock;
  std::ostringstream out;
  JsonLogger logger(out, clock);
  logger.log(LogLevel::info, "x",
             {{"a", "q\"\\"},
              {"b", "line\r\nbreak"},
              {"c", std::string_view("\0\x1b\x7f", 3)},
              {"d", "gr\xC3\xBC\xC3\x9F"},
              {"e", "bad\xFF"}});
  EXPECT_EQ(out.str(),
            "{\"time\":\"2026-01-01T00:00:00.000Z\",\"level\":\"info\",\"message\":\"x\","
            "\"a\":\"q\\\"\\\\\",\"b\":\"line\\u000d\\u000abreak\","
            "\"c\":\"\\u0000\\u001b\\u007f\","
            "\"d\":\"gr\xC3\xBC\xC3\x9F\",\"e\":\"bad\xEF\xBF\xBD\"}\n");
}

TEST(StreamLogger, ItsLevelCanChange) {
  const testing::FakeClock clock;
  std::ostringstream out;
  TextLogger logger(out, clock, LogLevel::warning);
  logger.log(LogLevel::info, "quiet", {});
  logger.set_min_level(LogLevel::debug);
  logger.log(LogLevel::debug, "loud", {});
  EXPECT_EQ(out.str(), "2026-01-01T00:00:00.000Z debug loud\n");
}

TEST(StreamLogger, LinesMayWaitButWarningsDoNot) {
  const testing::FakeClock clock;
  std::ostringstream out;
  {
    TextLogger logger(out, clock, {.flush_interval = std::chrono::hours{1}});
    logger.log(LogLevel::info, "first", {});
    EXPECT_EQ(out.str(), "");
    logger.log(LogLevel::warning, "second", {});
    EXPECT_EQ(out.str(),
              "2026-01-01T00:00:00.000Z info first\n2026-01-01T00:00:00.000Z warning second\n");
    logger.log(LogLevel::info, "third", {});
  }
  EXPECT_THAT(out.str(), ::testing::EndsWith("info third\n"));
}

/// Tells when something was written.
class SignallingBuffer : public std::stringbuf {
 public:
  std::string wait() {
    std::unique_lock lock(mutex_);
    synced_.wait(lock, [this] { return has_synced_; });
    return str();
  }

 private:
  int sync() override {
    const std::lock_guard lock(mutex_);
    has_synced_ = true;
    synced_.notify_all();
    return 0;
  }

  std::mutex mutex_;
  std::condition_variable synced_;
  bool has_synced_ = false;
};

TEST(StreamLogger, WhatWaitsIsWrittenAfterTheInterval) {
  const testing::FakeClock clock;
  SignallingBuffer buffer;
  std::ostream out(&buffer);
  TextLogger logger(out, clock, {.flush_interval = Duration{5}});
  logger.log(LogLevel::info, "first", {});
  EXPECT_EQ(buffer.wait(), "2026-01-01T00:00:00.000Z info first\n");
}

TEST(StreamLogger, LinesOfManyThreadsStayWhole) {
  const testing::FakeClock clock;
  std::ostringstream out;
  constexpr int kThreads = 4;
  constexpr int kLines = 500;
  {
    TextLogger logger(out, clock, {.flush_interval = Duration{1}});
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&logger] {
        for (int i = 0; i < kLines; ++i) logger.log(LogLevel::info, "line", {{"a", "b"}});
      });
    }
  }
  std::istringstream lines(out.str());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_EQ(line, "2026-01-01T00:00:00.000Z info line a=b");
  }
  EXPECT_EQ(count, kThreads * kLines);
}

TEST(LogField, CannotBeMadeFromAPayloadOrAMessage) {
  RecordProperty("requirement", "IBX-127");
  static_assert(!std::is_constructible_v<LogField, std::string_view, Payload>);
  static_assert(!std::is_constructible_v<LogField, std::string_view, Message>);
  static_assert(!std::is_constructible_v<LogField, std::string_view, Headers>);
  static_assert(std::is_constructible_v<LogField, std::string_view, Topic>);
  static_assert(!std::is_convertible_v<Payload, std::string>);
  static_assert(!std::is_convertible_v<Payload, std::string_view>);
}

}  // namespace
}  // namespace oncebox
