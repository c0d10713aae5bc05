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
  [[nodiscard]] int int16(int row, int column) const;  ///< smallint
  [[nodiscard]] int int32(int row, int column) const;  ///< integer
  [[nodiscard]] std::int64_t int64(int row, int column) const;
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

/// One row of a result, or its columns from `first` on.
class ResultRow {
 public:
  ResultRow(const Result& result, int row, int first = 0) noexcept
      : result_(result), row_(row), first_(first) {}

  [[nodiscard]] bool is_null(int column) const { return result_.is_null(row_, first_ + column); }
  [[nodiscard]] int int16(int column) const { return result_.int16(row_, first_ + column); }
  [[nodiscard]] int int32(int column) const { return result_.int32(row_, first_ + column); }
  [[nodiscard]] std::int64_t int64(int column) const {
    return result_.int64(row_, first_ + column);
  }
  [[nodiscard]] TimePoint time(int column) const { return result_.time(row_, first_ + column); }
  [[nodiscard]] std::string_view text(int column) const {
    return result_.bytes(row_, first_ + column);
  }
  [[nodiscard]] std::string_view blob(int column) const { return text(column); }
  [[nodiscard]] Uuid uuid(int column) const { return result_.uuid(row_, first_ + column); }
  [[nodiscard]] std::optional<TimePoint> optional_time(int column) const {
    return result_.optional_time(row_, first_ + column);
  }
  [[nodiscard]] std::optional<std::string> optional_text(int column) const {
    return result_.optional_text(row_, first_ + column);
  }

 private:
  const Result& result_;
  const int row_;
  const int first_;
};

}  // namespace oncebox::postgresql
