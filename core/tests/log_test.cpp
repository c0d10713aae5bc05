#include "oncebox/log.hpp"

#include <gtest/gtest.h>

#include <sstream>

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
