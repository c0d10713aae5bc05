#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/uuid.hpp"

struct pg_result;

namespace oncebox::postgresql {

/// The rows that a statement answered, in binary form. Columns are read by their place; reading one
/// as another type than it has throws `corrupt`.
class Result {
 public:
  /// Takes a PGresult over.
  explicit Result(pg_result* result);

  [[nodiscard]] int rows() const noexcept { return rows_; }
  [[nodiscard]] int columns() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return rows_ == 0; }
  /// How many rows an INSERT, UPDATE or DELETE changed.
  [[nodiscard]] std::size_t changed() const;

  [[nodiscard]] bool is_null(int row, int column) const;
  [[nodiscard]] bool boolean(int row, int column) const;
  [[nodiscard]] int small_integer(int row, int column) const;  ///< smallint
  [[nodiscard]] int integer(int row, int column) const;        ///< integer
  [[nodiscard]] std::int64_t bigint(int row, int column) const;
  [[nodiscard]] TimePoint time(int row, int column) const;
  [[nodiscard]] std::string_view bytes(int row, int column) const;  ///< text or bytea; borrowed
  [[nodiscard]] Uuid uuid(int row, int column) const;
  [[nodiscard]] std::optional<TimePoint> optional_time(int row, int column) const;
  [[nodiscard]] std::optional<std::string> optional_text(int row, int column) const;

 private:
  struct Clear {
    void operator()(pg_result* result) const noexcept;
  };

  /// The bytes of a value that must have this many.
  [[nodiscard]] const char* fixed(int row, int column, int size) const;

  std::unique_ptr<pg_result, Clear> result_;
  int rows_;
};

}  // namespace oncebox::postgresql
