#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"

namespace oncebox {
namespace {

TEST(Rfc3339, WritesUtcWithMilliseconds) {
  EXPECT_EQ(format_rfc3339(kMinTime), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(format_rfc3339(kMaxTime), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(format_rfc3339(TimePoint{Duration{951'782'399'007}}), "2000-02-28T23:59:59.007Z");
}

TEST(Rfc3339, ReadsWhatItWrote) {
  for (const std::int64_t millis : {0LL, 1LL, 951'868'800'000LL, 1'769'847'330'250LL}) {
    const TimePoint time{Duration{millis}};
    EXPECT_EQ(parse_rfc3339(format_rfc3339(time)), time);
  }
  EXPECT_EQ(parse_rfc3339(format_rfc3339(kMaxTime)), kMaxTime);
}

TEST(Rfc3339, ReadsOffsetsAndAnyNumberOfFractionalDigits) {
  const TimePoint time = parse_rfc3339("2026-01-31T08:15:30Z");
  EXPECT_EQ(parse_rfc3339("2026-01-31t10:15:30+02:00"), time);
  EXPECT_EQ(parse_rfc3339("2026-01-31T00:45:30-07:30"), time);
  EXPECT_EQ(parse_rfc3339("2026-01-31T08:15:30.5z"), time + Duration{500});
  EXPECT_EQ(parse_rfc3339("2026-01-31T08:15:30.25Z"), time + Duration{250});
  EXPECT_EQ(parse_rfc3339("2026-01-31T08:15:30.123456789+00:00"), time + Duration{123});
}

TEST(Rfc3339, RejectsEverythingElse) {
  for (const auto* text : {"",
                           "now",
                           "2026-01-31",
                           "2026-01-31T08:15:30",
                           "2026-01-31 08:15:30Z",
                           "2026-02-30T08:15:30Z",
                           "2026-13-01T08:15:30Z",
                           "2026-01-31T24:15:30Z",
                           "2026-01-31T08:15:30.Z",
                           "2026-01-31T08:15:30Zx",
                           "2026-1-31T08:15:30Z",
                           "1969-12-31T23:59:59Z",
                           "9999-12-31T23:59:59-01:00",
                           "+2026-01-31T08:15:30Z",
                           "2026-01-31T08:15:30.5.5Z",
                           "2026-01-31T08:15.5:30Z",
                           "2026-01-31T/8:15:30Z",
                           "2026-01-31T08:+5:30Z",
                           "2026-01-31T08:15:30+24:00",
                           "2026-01-31T08:15:30-00:60",
                           "2026-01-31T08:15:60Z"}) {
    expect_error(ErrorCode::invalid_argument, [&] { (void)parse_rfc3339(text); });
  }
}

TEST(SystemClock, TheRecentTimeLiesLittleBack) {
  constexpr Duration kSlowestTick{20};
  const SystemClock clock;
  const TimePoint before = clock.now();
  const TimePoint recent = clock.recent();
  EXPECT_GE(recent, before - kSlowestTick);
  EXPECT_LE(recent, clock.now());
}

TEST(Defaults, AreThoseOfTheRequirements) {
  RecordProperty("requirement", "R-26");
  using namespace std::chrono_literals;
  EXPECT_EQ(defaults::kPollInterval, 500ms);
  EXPECT_EQ(defaults::kBatchSize, 50U);
  EXPECT_EQ(defaults::kLease, 30s);
  EXPECT_EQ(defaults::kMaxAttempts, 10);
  EXPECT_EQ(defaults::kMaxDeliveries, 20);
  EXPECT_EQ(defaults::kRetention, std::chrono::days{30});
}

}  // namespace
}  // namespace oncebox
