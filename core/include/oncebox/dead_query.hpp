#pragma once

#include <cstddef>
#include <optional>

#include "oncebox/clock.hpp"
#include "oncebox/dead_group.hpp"
#include "oncebox/queue_operator.hpp"

namespace oncebox {

/// Which dead messages are meant: those of the group, if one is given, that match the filter.
struct DeadQuery {
  static constexpr std::size_t kMaxLimit = 10'000'000;

  std::optional<DeadGroupId> group = {};
  MessageFilter filter = {};   ///< a status must not be named
  std::size_t limit = 10'000;  ///< the oldest first
};

/// How revived messages come back: `per_second` of them, the first after the delay of the options.
/// They are revived at once, with due times that are spread at this rate; those of up to a second
/// may be due together. Never faster; slower by what the calls take. Nothing: all at once.
struct RevivalPace {
  std::optional<double> per_second = {};

  /// How long the revival of so many lasts, from the first until the last is due. Throws
  /// `out_of_range` for a rate that is not from 0.001 to 1,000,000, and when the last would be due
  /// later than `limits::kMaxDelay`, the first being due after `delay`.
  [[nodiscard]] Duration length(std::size_t messages, Duration delay = Duration{0}) const;
};

struct RevivalResult {
  std::size_t count = 0;
  Duration lasts{0};  ///< from now until the last of them is due

  friend bool operator==(const RevivalResult&, const RevivalResult&) = default;
};

}  // namespace oncebox
