#include "oncebox/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <sstream>
#include <string>
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

/// One of each kind that could drive a terminal, end a line or turn the direction of text.
constexpr std::string_view kDeceiving =
    "\u009b2J\u0085\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff";

TEST(TextLogger, NoValueCanDeceiveWhoReadsIt) {
  const testing::FakeClock clock;
  std::ostringstream out;
  TextLogger logger(out, clock);
  logger.log(LogLevel::info, kDeceiving,
             {{"a", kDeceiving}, {"b", "\x9b\xff"}, {"c", "gr\u00fcn"}});
  EXPECT_EQ(out.str(),
            "2026-01-01T00:00:00.000Z info "
            "\\x9b2J\\x85\\u{061c}\\u{200e}\\u{200f}\\u{2028}\\u{2029}\\u{202a}\\u{202e}\\u{2066}"
            "\\u{2069}\\u{feff} "
            "a=\"\\x9b2J\\x85\\u{061c}\\u{200e}\\u{200f}\\u{2028}\\u{2029}\\u{202a}\\u{202e}"
            "\\u{2066}\\u{2069}\\u{feff}\" b=\"\\x9b\\xff\" c=\"gr\u00fcn\"\n");
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

TEST(JsonLogger, NoValueCanDeceiveWhoReadsIt) {
  const testing::FakeClock clock;
  std::ostringstream out;
  JsonLogger logger(out, clock);
  logger.log(LogLevel::info, "x", {{"a", kDeceiving}});
  EXPECT_EQ(out.str(),
            "{\"time\":\"2026-01-01T00:00:00.000Z\",\"level\":\"info\",\"message\":\"x\","
            "\"a\":\"\\u009b2J\\u0085\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a\\u202e\\u2066"
            "\\u2069\\ufeff\"}\n");
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

TEST(StreamLogger, LinesMayWaitButWarningsDoNot) {
  const testing::FakeClock clock;
  SignallingBuffer buffer;
  std::ostream out(&buffer);
  {
    TextLogger logger(out, clock, {.flush_interval = std::chrono::hours{1}});
    logger.log(LogLevel::info, "first", {});
    EXPECT_EQ(buffer.str(), "");
    logger.log(LogLevel::warning, "second", {});
    EXPECT_EQ(buffer.wait(),
              "2026-01-01T00:00:00.000Z info first\n2026-01-01T00:00:00.000Z warning second\n");
    logger.log(LogLevel::info, "third", {});
  }
  EXPECT_THAT(buffer.str(), ::testing::EndsWith("info third\n"));
}

/// A reader that takes nothing until it is told to.
class StallingBuffer : public std::stringbuf {
 public:
  void go_on() {
    const std::lock_guard lock(mutex_);
    stalls_ = false;
    changed_.notify_all();
  }
  void wait_for_writer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_writer_; });
  }

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    std::unique_lock lock(mutex_);
    has_writer_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !stalls_; });
    return std::stringbuf::xsputn(text, size);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stalls_ = true;
  bool has_writer_ = false;
};

TEST(StreamLogger, AReaderThatStallsHoldsNobodyUpAndIsToldWhatItMissed) {
  const testing::FakeClock clock;
  StallingBuffer buffer;
  std::ostream out(&buffer);
  const std::string text(1'000, 'x');
  std::uint64_t dropped = 0;
  constexpr std::uint64_t kLines = 10'000;  // 10 MB, of which 4 MiB may wait
  {
    TextLogger logger(out, clock, {.flush_interval = Duration{1}});
    logger.log(LogLevel::warning, "first", {});
    buffer.wait_for_writer();
    for (std::uint64_t i = 0; i < kLines; ++i) logger.log(LogLevel::warning, text, {});
    dropped = logger.dropped_lines();
    buffer.go_on();
  }
  EXPECT_GT(dropped, kLines / 2);
  EXPECT_LT(dropped, kLines);
  const std::string written = buffer.str();
  EXPECT_EQ(static_cast<std::uint64_t>(std::count(written.begin(), written.end(), '\n')),
            1 + kLines - dropped + 1);
  EXPECT_THAT(written, ::testing::EndsWith(
                           "warning log lines dropped count=" + std::to_string(dropped) + "\n"));
}

/// A disk that is full until it is told that it is not.
class RefusingBuffer : public std::stringbuf {
 public:
  bool refuses = true;

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    return refuses ? 0 : std::stringbuf::xsputn(text, size);
  }
};

TEST(StreamLogger, LinesThatTheStreamRefusedAreCountedAndItIsUsedAgain) {
  const testing::FakeClock clock;
  RefusingBuffer buffer;
  std::ostream out(&buffer);
  TextLogger logger(out, clock);
  logger.log(LogLevel::info, "lost", {});
  logger.log(LogLevel::info, "lost", {});
  EXPECT_EQ(logger.dropped_lines(), 2U);
  buffer.refuses = false;
  logger.log(LogLevel::info, "back", {});
  EXPECT_EQ(buffer.str(),
            "2026-01-01T00:00:00.000Z info back\n"
            "2026-01-01T00:00:00.000Z warning log lines dropped count=2\n");
  EXPECT_EQ(logger.dropped_lines(), 2U);
}

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
