#include "observe/message_log_filter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "http_fixture.hpp"
#include "oncebox/testing/manual_clock.hpp"

namespace oncebox::server {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kBound = MessageLogFilter::kLinesPerSecond;

/// Holds up whoever tells what was left out, the first time, until it is let go.
class HoldingLogger final : public Logger {
 public:
  explicit HoldingLogger(Logger& below) : below_(below) {}
  ~HoldingLogger() override { let_go(); }

  [[nodiscard]] bool enabled(LogLevel) const noexcept override { return true; }
  void write(LogLevel level, std::string_view text,
             std::span<const LogField> fields) noexcept override {
    below_.write(level, text, fields);
    if (!text.starts_with("log lines left out") || std::exchange(was_held_, true)) return;
    holds_.set_value();
    opened_.wait();
  }
  void wait_until_it_holds() { holds_.get_future().wait(); }
  void let_go() {
    if (!std::exchange(is_open_, true)) open_.set_value();
  }

 private:
  Logger& below_;
  bool was_held_ = false;  ///< for the teller alone
  std::promise<void> holds_;
  bool is_open_ = false;
  std::promise<void> open_;
  const std::shared_future<void> opened_ = open_.get_future().share();
};

class MessageLogFilterTest : public ::testing::Test {
 protected:
  void make(MessageLog mode) { filter_.emplace(lines_, mode, clock_); }
  void log(std::size_t lines, std::string_view text = "message enqueued",
           LogLevel level = LogLevel::info) {
    for (std::size_t i = 0; i < lines; ++i) {
      filter_->log(level, text, {{"source", "shop"}, {"message_id", std::to_string(i)}});
    }
  }
  [[nodiscard]] std::size_t written() const { return lines_.lines.count(); }
  std::string line(std::size_t place) { return lines_.lines.wait(place); }

  testing::ManualClock clock_;
  KeepingLogger lines_;
  std::optional<MessageLogFilter> filter_;
};

TEST_F(MessageLogFilterTest, OfManyLinesOfAKindSoManyAreWrittenAndTheRestIsCounted) {
  RecordProperty("requirement", "IBX-108,IBX-110");
  make(MessageLog::bounded);
  log(kBound + 30);
  EXPECT_EQ(written(), kBound);
  clock_.advance(1s);
  EXPECT_THAT(line(kBound), StartsWith("info log lines left out"));
  EXPECT_THAT(line(kBound), HasSubstr(R"(line="message enqueued" count=30)"));
  log(2);
  EXPECT_EQ(written(), kBound + 3) << "a new second has begun";
}

TEST_F(MessageLogFilterTest, ALineOfTheNextSecondDoesNotPutOffWhatWasLeftOut) {
  RecordProperty("requirement", "IBX-108,IBX-110");
  HoldingLogger holding(lines_);
  MessageLogFilter filter(holding, MessageLog::bounded, clock_);
  const auto write = [&](std::string_view text, std::size_t lines) {
    for (std::size_t i = 0; i < lines; ++i) filter.log(LogLevel::info, text, {{"message_id", "m"}});
  };
  write("first", kBound + 1);
  clock_.advance(500ms);
  write("second", kBound + 2);
  clock_.advance(500ms);
  holding.wait_until_it_holds();
  clock_.advance(500ms);
  write("second", 1);  // before the teller comes to it
  holding.let_go();
  EXPECT_THAT(line(2 * kBound), HasSubstr("line=first count=1"));
  EXPECT_THAT(line(2 * kBound + 2), HasSubstr("line=second count=2"));
}

TEST_F(MessageLogFilterTest, KindsDoNotShareTheirBound) {
  make(MessageLog::bounded);
  log(kBound + 1);
  log(1, "delivery not settled");
  EXPECT_EQ(written(), kBound + 1);
}

TEST_F(MessageLogFilterTest, WarningsAreBoundedToo) {
  make(MessageLog::bounded);
  log(kBound + 7, "message is dead", LogLevel::warning);
  clock_.advance(1s);
  EXPECT_THAT(line(kBound), StartsWith("warning log lines left out"));
  EXPECT_THAT(line(kBound), HasSubstr("count=7"));
}

TEST_F(MessageLogFilterTest, ErrorsAreBoundedTooAndCountedAtTheirLevel) {
  RecordProperty("requirement", "IBX-111");
  make(MessageLog::bounded);
  log(kBound + 9, "handler failed", LogLevel::error);
  EXPECT_EQ(written(), kBound);
  clock_.advance(1s);
  EXPECT_THAT(line(kBound), StartsWith("error log lines left out"));
  EXPECT_THAT(line(kBound), HasSubstr(R"(line="handler failed" count=9)"));
}

TEST_F(MessageLogFilterTest, LinesAboutSomethingElsePass) {
  make(MessageLog::bounded);
  for (const LogLevel level : {LogLevel::info, LogLevel::error}) {
    for (std::size_t i = 0; i < 2 * kBound; ++i) {
      filter_->log(level, "request failed", {{"request_id", std::to_string(i)}});
    }
  }
  EXPECT_EQ(written(), 4 * kBound);
}

TEST_F(MessageLogFilterTest, WhatIsNotToldYetIsToldAtTheEnd) {
  make(MessageLog::bounded);
  log(kBound + 5);
  filter_.reset();
  EXPECT_EQ(written(), kBound + 1);
  EXPECT_THAT(line(kBound), HasSubstr("count=5"));
}

TEST_F(MessageLogFilterTest, AllWritesEverything) {
  make(MessageLog::all);
  log(10 * kBound);
  EXPECT_EQ(written(), 10 * kBound);
}

TEST_F(MessageLogFilterTest, OffLeavesWarningsAndErrorsBounded) {
  make(MessageLog::off);
  log(kBound + 1);
  log(kBound + 1, "message is dead", LogLevel::warning);
  log(kBound + 1, "handler failed", LogLevel::error);
  EXPECT_EQ(written(), 2 * kBound);
  filter_.reset();
  EXPECT_EQ(written(), 2 * kBound + 2) << "and a line for each kind that says what was left out";
}

}  // namespace
}  // namespace oncebox::server
