#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "connection.hpp"
#include "oncebox/queue_operator.hpp"

namespace oncebox::sqlite {

/// When a filter is asked, and which topics are paused then. Borrowed.
struct FilterMoment {
  TimePoint now{};
  std::span<const TopicPattern> paused = {};
};

/// A filter as conditions on the tables m (message) and s (state), with the values that go into its
/// parameters.
class FilterSql {
 public:
  /// `queue` is the word of a QueueKind.
  FilterSql(const MessageFilter& filter, std::string_view queue, const FilterMoment& moment);

  /// Adds a condition in which the text `?` stands for `value`.
  void require(std::string_view condition, std::int64_t value);

  /// "WHERE …", or empty when everything matches.
  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  void bind_to(Statement& statement) const;

 private:
  using Value = std::variant<std::int64_t, std::string, std::vector<std::uint8_t>>;

  void require(std::string_view condition);
  void require(std::string_view condition, Value value);
  /// Adds a value and answers its parameter.
  [[nodiscard]] std::string parameter(Value value);
  void require_statuses(const MessageFilter& filter, std::string_view queue);
  void require_states(const MessageFilter& filter, const FilterMoment& moment);
  [[nodiscard]] std::string is_paused(std::span<const TopicPattern> paused);
  void require_topic(const TopicPattern& pattern);
  void require_range(std::string_view column, const TimeRange& range);

  std::string where_;
  std::vector<Value> values_;
};

}  // namespace oncebox::sqlite
