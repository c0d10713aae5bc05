#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox::postgresql {

/// The types that go to the server and come from it, by the numbers that PostgreSQL has for them.
enum class SqlType : std::uint32_t {
  boolean = 16,
  bytea = 17,
  bigint = 20,
  smallint = 21,
  integer = 23,
  text = 25,
  timestamptz = 1184,
  uuid = 2950,
};

/// A one-dimensional array in PostgreSQL's binary form. Each element is added by a call of its own.
class ArrayValue {
 public:
  explicit ArrayValue(SqlType element);

  void add_null();
  void add(bool value);
  void add(std::int16_t value);
  void add(std::int32_t value);
  void add(std::int64_t value);
  void add(std::string_view bytes);                            ///< text or bytea
  void add(const char* text) { add(std::string_view(text)); }  // otherwise a boolean
  void add(const Uuid::Bytes& uuid);
  void add(TimePoint time);
  template <class T>
  void add(const std::optional<T>& value) {
    if (value) {
      add(*value);
    } else {
      add_null();
    }
  }

  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool has_only_nulls() const noexcept { return nulls_ == size_; }
  /// The finished value.
  [[nodiscard]] std::string take();

 private:
  void begin_element(std::size_t bytes);

  std::string bytes_;
  std::size_t size_ = 0;
  std::size_t nulls_ = 0;
};

/// The values of a statement's parameters, in order, in binary form. The statement says their types
/// by casts (`$1::bigint`).
class Parameters {
 public:
  Parameters& add_null();
  Parameters& add(bool value);
  Parameters& add(std::int32_t value);
  Parameters& add(std::int64_t value);
  Parameters& add(std::string_view bytes);  ///< text or bytea
  Parameters& add(const char* text) { return add(std::string_view(text)); }
  Parameters& add(const Uuid::Bytes& uuid);
  Parameters& add(TimePoint time);
  Parameters& add(ArrayValue array);
  template <class T>
  Parameters& add(const std::optional<T>& value) {
    return value ? add(*value) : add_null();
  }

  [[nodiscard]] std::span<const std::optional<std::string>> values() const noexcept {
    return values_;
  }

 private:
  std::vector<std::optional<std::string>> values_;
};

/// Microseconds since 2000-01-01, in which PostgreSQL counts.
[[nodiscard]] std::int64_t to_sql_time(TimePoint time) noexcept;
[[nodiscard]] TimePoint from_sql_time(std::int64_t microseconds) noexcept;

}  // namespace oncebox::postgresql
