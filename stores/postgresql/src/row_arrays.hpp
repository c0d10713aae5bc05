#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parameters.hpp"

namespace oncebox::postgresql {

struct Column {
  std::string_view name;
  SqlType type;
};

/// Rows on their way to the server: an array for each column, so that one statement takes any
/// number of rows: `FROM unnest($1::bigint[], …) AS u (id, …)`. A row is put value by value, in the
/// order of the columns.
class RowArrays {
 public:
  explicit RowArrays(std::span<const Column> columns);

  template <class Value>
  RowArrays& put(const Value& value) {
    arrays_[next_].add(value);
    next_ = (next_ + 1) % arrays_.size();
    return *this;
  }

  [[nodiscard]] bool empty() const noexcept { return arrays_.front().size() == 0; }
  [[nodiscard]] std::size_t rows() const noexcept { return arrays_.front().size(); }
  /// The arrays as the parameters $1, $2, …
  [[nodiscard]] Parameters take();
  /// The arrays as further parameters.
  void move_to(Parameters& parameters);

  /// "id, stage, …"
  [[nodiscard]] static std::string names(std::span<const Column> columns);
  /// "u.id, u.stage, …"
  [[nodiscard]] static std::string values(std::span<const Column> columns);
  /// "unnest($1::bigint[], …) AS u (id, …)", with the parameters from `first` on.
  [[nodiscard]] static std::string source(std::span<const Column> columns, std::size_t first = 1);
  /// "stage = u.stage, …", without the first column, by which rows are found
  [[nodiscard]] static std::string assignments(std::span<const Column> columns);

 private:
  std::vector<ArrayValue> arrays_;
  std::size_t next_ = 0;
};

}  // namespace oncebox::postgresql
