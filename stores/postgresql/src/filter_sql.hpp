#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "oncebox/queue_operator.hpp"
#include "parameters.hpp"

namespace oncebox::postgresql {

/// When a filter is asked, and which topics are paused then. Borrowed.
struct FilterMoment {
  std::optional<TimePoint> now = {};  ///< absent: the database's time
  std::span<const TopicPattern> paused = {};
};

/// A filter as conditions on the aliases m (message) and s (state), with the values of their
/// parameters.
class FilterSql {
 public:
  FilterSql(const MessageFilter& filter, const FilterMoment& moment);

  /// An expression for the time at which the filter is asked.
  [[nodiscard]] const std::string& now();

  /// Adds a condition in which `?` stands for `value`.
  void require(std::string_view condition, std::int64_t value);

  /// "WHERE …", or empty when everything matches.
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] const Parameters& parameters() const noexcept { return parameters_; }

 private:
  void require(std::string_view condition);
  template <class Value>
  void require_value(std::string_view condition, const Value& value);
  void require_statuses(const std::vector<Status>& statuses);
  void require_states(const MessageFilter& filter);
  /// Adds a value and answers its parameter.
  template <class Value>
  [[nodiscard]] std::string parameter(Value&& value);
  void require_range(std::string_view column, const TimeRange& range);

  const FilterMoment moment_;
  std::string now_;  // empty: not used yet
  std::string where_;
  Parameters parameters_;
};

}  // namespace oncebox::postgresql
