#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct pg_conn;
struct pg_result;

namespace oncebox::bench {

/// A value in PostgreSQL's binary form.
[[nodiscard]] std::string to_binary(std::int32_t number);
[[nodiscard]] std::string to_binary(std::int64_t number);

/// An array in PostgreSQL's binary form, written element by element.
class BinaryArray {
 public:
  static constexpr std::uint32_t kBytea = 17;
  static constexpr std::uint32_t kBigint = 20;
  static constexpr std::uint32_t kText = 25;
  static constexpr std::uint32_t kUuid = 2950;
  static constexpr std::uint32_t kJsonb = 3802;

  /// `element` is the number of its type.
  explicit BinaryArray(std::uint32_t element);

  void add(std::string_view bytes);
  void add(std::int64_t number) { add(to_binary(number)); }
  [[nodiscard]] std::string take();

 private:
  std::string bytes_;
  std::int32_t size_ = 0;
};

/// Rows that a statement answered, in binary form.
class PgRows {
 public:
  explicit PgRows(pg_result* result) : result_(result) {}

  [[nodiscard]] int count() const;
  [[nodiscard]] std::string_view bytes(int row, int column) const;
  [[nodiscard]] std::int64_t bigint(int row, int column) const;

 private:
  struct Clear {
    void operator()(pg_result* result) const noexcept;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

/// One connection, used as a plain program uses libpq: one statement after the other, each a
/// transaction. What goes wrong is a `std::runtime_error`.
class PgSession {
 public:
  explicit PgSession(const std::string& url);

  /// Statements without parameters.
  void run(const std::string& sql);
  void prepare(const std::string& name, const std::string& sql);
  /// Values and answer are in binary form.
  PgRows execute(const std::string& name, std::span<const std::string> values);

 private:
  struct Finish {
    void operator()(pg_conn* connection) const noexcept;
  };
  pg_result* checked(pg_result* result);

  std::unique_ptr<pg_conn, Finish> connection_;
};

}  // namespace oncebox::bench
