#include "oncebox/clock.hpp"

#include <date/date.h>
#include <fmt/format.h>

#include <ctime>
#include <sstream>

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

/// Whether every digit and every mark is in its place. The library that reads the numbers has
/// undefined behaviour where it meets something else, such as "T/8:15:30".
bool has_rfc3339_form(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00+00:00";
  if (text.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool fits = kForm[i] == '0'   ? text[i] >= '0' && text[i] <= '9'
                      : kForm[i] == '+' ? text[i] == '+' || text[i] == '-'
                                        : text[i] == kForm[i];
    if (!fits) return false;
  }
  // It reads any two digits as the hours and minutes of an offset, too.
  return text.substr(20, 2) <= "23" && text.substr(23, 2) <= "59";
}

}  // namespace

TimePoint SystemClock::recent() const {
#ifdef CLOCK_REALTIME_COARSE
  std::timespec time{};
  if (clock_gettime(CLOCK_REALTIME_COARSE, &time) == 0) {
    return std::chrono::floor<Duration>(std::chrono::sys_time<std::chrono::nanoseconds>(
        std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec}));
  }
#endif
  return current();
}

std::string format_rfc3339(TimePoint time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{time - day};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

TimePoint parse_rfc3339(std::string_view text) {
  constexpr std::size_t kSecondsEnd = std::string_view("2026-01-31T08:15:30").size();
  const auto reject = [] {
    throw Error(ErrorCode::invalid_argument,
                "not an RFC 3339 time between 1970 and 9999; expected a form such as "
                "2026-01-31T08:15:30.250Z");
  };

  // The fraction is taken out first: nanoseconds in 64 bits would end in 2262.
  std::string whole(text);
  Duration fraction{0};
  if (whole.size() > kSecondsEnd && whole[kSecondsEnd] == '.') {
    std::size_t end = kSecondsEnd + 1;
    for (int scale = 100; end < whole.size() && whole[end] >= '0' && whole[end] <= '9'; ++end) {
      fraction += Duration{(whole[end] - '0') * scale};
      scale /= 10;
    }
    if (end == kSecondsEnd + 1) reject();
    whole.erase(kSecondsEnd, end - kSecondsEnd);
  }
  if (whole.size() > 10 && whole[10] == 't') whole[10] = 'T';
  if (whole.size() == kSecondsEnd + 1 && (whole.back() == 'Z' || whole.back() == 'z')) {
    whole.replace(kSecondsEnd, 1, "+00:00");
  }
  if (!has_rfc3339_form(whole)) reject();

  std::istringstream in(whole);
  date::sys_seconds seconds;
  in >> date::parse("%FT%T%Ez", seconds);
  if (in.fail() || in.peek() != std::istringstream::traits_type::eof()) reject();
  const TimePoint time{seconds.time_since_epoch() + fraction};
  if (time < kMinTime || time > kMaxTime) reject();
  return time;
}

}  // namespace oncebox
