#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "oncebox/queue_operator.hpp"
#include "parameters.hpp"

namespace oncebox::postgresql {

/// A filter as conditions on the aliases m (message) and s (state), with the values of their
/// parameters.
class FilterSql {
 public:
  explicit FilterSql(const MessageFilter& filter);

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
  void require_range(std::string_view column, const TimeRange& range);

  std::string where_;
  Parameters parameters_;
};

}  // namespace oncebox::postgresql
