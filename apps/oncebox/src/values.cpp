#include "values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "oncebox/error.hpp"
#include "oncebox/internal/nearest_name.hpp"

namespace oncebox::app {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t size;
};

// The largest first, so that "90s" is written as "1m30s" only where it must.
constexpr std::array kDurationUnits{Unit{"d", 86'400'000}, Unit{"h", 3'600'000}, Unit{"m", 60'000},
                                    Unit{"s", 1'000}, Unit{"ms", 1}};
constexpr std::array kByteUnits{Unit{"GiB", std::uint64_t{1} << 30},
                                Unit{"MiB", std::uint64_t{1} << 20},
                                Unit{"KiB", std::uint64_t{1} << 10}};

[[noreturn]] void refuse_value(std::string_view text, std::string_view what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("\"{}\" is not {}", text, what));
}

/// Takes the digits at the front of `rest` away.
std::optional<std::uint64_t> take_number(std::string_view& rest) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc()) return {};
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return number;
}

template <std::size_t count>
std::optional<std::uint64_t> take_unit(std::string_view& rest,
                                       const std::array<Unit, count>& units) {
  const std::size_t digits = std::min(rest.find_first_of("0123456789"), rest.size());
  const std::string_view name = rest.substr(0, digits);
  for (const Unit& unit : units) {
    if (unit.name == name) {
      rest.remove_prefix(digits);
      return unit.size;
    }
  }
  return {};
}

}  // namespace

Duration parse_duration(std::string_view text) {
  constexpr std::string_view kWhat = "a duration; write 250ms, 30s, 5m, 12h, 7d or 1m30s";
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (text == "0") return Duration::zero();
  std::string_view rest = text;
  std::uint64_t total = 0;
  do {
    const auto number = take_number(rest);
    const auto unit = number ? take_unit(rest, kDurationUnits) : std::nullopt;
    if (!unit || *number > (kMax - total) / *unit) refuse_value(text, kWhat);
    total += *number * *unit;
  } while (!rest.empty());
  return Duration(static_cast<std::int64_t>(total));
}

std::string format_duration(Duration duration) {
  std::string text;
  auto rest = static_cast<std::uint64_t>(duration.count());
  for (const Unit& unit : kDurationUnits) {
    if (rest >= unit.size) text += fmt::format("{}{}", rest / unit.size, unit.name);
    rest %= unit.size;
  }
  return text.empty() ? "0s" : text;
}

std::size_t parse_bytes(std::string_view text) {
  constexpr std::string_view kWhat = "a size; write 65536, 64KiB, 8MiB or 1GiB";
  std::string_view rest = text;
  const auto number = take_number(rest);
  if (!number) refuse_value(text, kWhat);
  if (rest.empty()) return *number;
  const auto unit = take_unit(rest, kByteUnits);
  if (!unit || !rest.empty() || *number > std::numeric_limits<std::size_t>::max() / *unit) {
    refuse_value(text, kWhat);
  }
  return *number * *unit;
}

std::string format_bytes(std::size_t bytes) {
  for (const Unit& unit : kByteUnits) {
    if (bytes >= unit.size && bytes % unit.size == 0) {
      return fmt::format("{}{}", bytes / unit.size, unit.name);
    }
  }
  return fmt::format("{}", bytes);
}

std::size_t parse_count(std::string_view text) {
  std::string_view rest = text;
  const auto number = take_number(rest);
  if (!number || !rest.empty()) refuse_value(text, "a whole number");
  return *number;
}

RateLimit parse_rate(std::string_view text) {
  constexpr std::string_view kBurst = " burst ";
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    refuse_value(text, "a rate; write 100/1s, or 100/1s burst 20");
  }
  RateLimit rate{.count = parse_count(text.substr(0, slash))};
  std::string_view per = text.substr(slash + 1);
  if (const std::size_t burst = per.find(kBurst); burst != std::string_view::npos) {
    rate.burst = parse_count(per.substr(burst + kBurst.size()));
    per = per.substr(0, burst);
  }
  rate.per = parse_duration(per);
  return rate;
}

std::string format_rate(const RateLimit& rate) {
  std::string text = fmt::format("{}/{}", rate.count, format_duration(rate.per));
  if (rate.burst) text += fmt::format(" burst {}", *rate.burst);
  return text;
}

int parse_int(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    refuse_value(text, "a whole number");
  return number;
}

double parse_decimal(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    refuse_value(text, "a number");
  }
  return number;
}

bool parse_switch(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  refuse_value(text, "true or false");
}

namespace {

/// The duration in `text`, or nothing when it begins as a date does.
std::optional<Duration> relative(std::string_view text) {
  if (text.size() >= 10 && text[4] == '-') return {};
  const Duration duration = parse_duration(text);
  if (duration > kMaxTime - kMinTime) refuse_value(text, "a time that can be stored");
  return duration;
}

}  // namespace

TimePoint parse_past(std::string_view text, TimePoint now) {
  const auto duration = relative(text);
  return duration ? std::max(now - *duration, kMinTime) : parse_rfc3339(text);
}

TimePoint parse_future(std::string_view text, TimePoint now) {
  const auto duration = relative(text);
  return duration ? std::min(now + *duration, kMaxTime) : parse_rfc3339(text);
}

NameAndValue parse_pair(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos) refuse_value(text, "of the form NAME=VALUE");
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  const auto meant = nearest_name(name, known);
  return meant ? fmt::format(" (did you mean {}?)", *meant) : std::string();
}

TakeValue into(std::string& target) {
  return [&target](const std::string& text) { target = text; };
}

TakeValue into(std::vector<std::string>& target) {
  return [&target](const std::string& text) { target.push_back(text); };
}

TakeValue into(bool& target) {
  return [&target](const std::string&) { target = true; };
}

TakeValue into(std::size_t& target) {
  return [&target](const std::string& text) { target = parse_count(text); };
}

TakeValue into(int& target) {
  return [&target](const std::string& text) { target = parse_int(text); };
}

TakeValue into(double& target) {
  return [&target](const std::string& text) { target = parse_decimal(text); };
}

TakeValue into(Duration& target) {
  return [&target](const std::string& text) { target = parse_duration(text); };
}

}  // namespace oncebox::app
