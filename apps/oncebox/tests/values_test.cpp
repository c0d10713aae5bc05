#include "values.hpp"

#include <gtest/gtest.h>
// gtest first.
#include <rapidcheck/gtest.h>

#include "oncebox/error.hpp"
#include "oncebox/internal/nearest_name.hpp"

namespace oncebox::app {
namespace {

using namespace std::chrono_literals;

template <class Call>
bool is_refused(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ErrorCode::invalid_argument;
  }
  return false;
}

TEST(Values, DurationsAreReadAsPeopleWriteThem) {
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("1m30s"), 90s);
  EXPECT_EQ(parse_duration("7d"), 7 * 24h);
  EXPECT_EQ(parse_duration("0"), 0ms);
  for (const char* text : {"", "s", "30", "-1s", "1 s", "1.5s", "1x", "1s ", "9999999999999999d",
                           "99999999999999999999s"}) {
    EXPECT_TRUE(is_refused([&] { (void)parse_duration(text); })) << text;
  }
}

RC_GTEST_PROP(Values, EveryDurationIsReadBackAsItWasWritten, ()) {
  const auto count = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 60);
  RC_ASSERT(parse_duration(format_duration(Duration(count))) == Duration(count));
}

RC_GTEST_PROP(Values, EverySizeIsReadBackAsItWasWritten, (std::size_t bytes)) {
  RC_ASSERT(parse_bytes(format_bytes(bytes)) == bytes);
}

TEST(Values, SizesHaveBinaryUnits) {
  EXPECT_EQ(parse_bytes("8MiB"), std::size_t{8} << 20);
  EXPECT_EQ(format_bytes(std::size_t{16} << 10), "16KiB");
  for (const char* text : {"", "MiB", "8MB", "8mib", "-1", "1MiB1", "99999999999999GiB"}) {
    EXPECT_TRUE(is_refused([&] { (void)parse_bytes(text); })) << text;
  }
}

TEST(Values, TimesAreAbsoluteOrRelative) {
  const TimePoint now = parse_rfc3339("2026-01-31T12:00:00Z");
  EXPECT_EQ(parse_past("2h", now), now - 2h);
  EXPECT_EQ(parse_future("5m", now), now + 5min);
  EXPECT_EQ(parse_past("2026-01-30T12:00:00+01:00", now), now - 25h);
  EXPECT_EQ(parse_past("40000d", now), kMinTime);
  for (const char* text : {"", "yesterday", "2026-13-01T00:00:00Z", "99999999d"}) {
    EXPECT_TRUE(is_refused([&] { (void)parse_past(text, now); })) << text;
  }
}

TEST(Values, TheNearestNameIsFoundAndNothingFarAway) {
  const std::vector<std::string> names{"listen.port", "listen.host", "log.level"};
  EXPECT_EQ(nearest_name("listen.prot", names), "listen.port");
  EXPECT_EQ(nearest_name("log.levle", names), "log.level");
  EXPECT_EQ(nearest_name("something.else", names), std::nullopt);
  EXPECT_EQ(nearest_name("", names), std::nullopt);
}

}  // namespace
}  // namespace oncebox::app
