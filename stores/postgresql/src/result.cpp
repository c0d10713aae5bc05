#include "result.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <charconv>

#include "oncebox/error.hpp"
#include "parameters.hpp"

namespace oncebox::postgresql {

namespace {

template <class Number>
Number number_from(const char* bytes) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    bits = bits << 8 | static_cast<std::uint8_t>(bytes[i]);
  }
  return static_cast<Number>(bits);
}

}  // namespace

void Result::Clear::operator()(pg_result* result) const noexcept { PQclear(result); }

Result::Result(pg_result* result) : result_(result), rows_(PQntuples(result)) {}

int Result::columns() const noexcept { return PQnfields(result_.get()); }

std::size_t Result::changed() const {
  const std::string_view text = PQcmdTuples(result_.get());
  std::size_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

bool Result::is_null(int row, int column) const {
  return PQgetisnull(result_.get(), row, column) == 1;
}

const char* Result::fixed(int row, int column, int size) const {
  if (is_null(row, column) || PQgetlength(result_.get(), row, column) != size) {
    throw Error(ErrorCode::corrupt, fmt::format("the column {} is not what the schema says",
                                                PQfname(result_.get(), column)));
  }
  return PQgetvalue(result_.get(), row, column);
}

bool Result::boolean(int row, int column) const { return *fixed(row, column, 1) != '\0'; }

int Result::int16(int row, int column) const {
  return number_from<std::int16_t>(fixed(row, column, 2));
}

int Result::int32(int row, int column) const {
  return number_from<std::int32_t>(fixed(row, column, 4));
}

std::int64_t Result::int64(int row, int column) const {
  return number_from<std::int64_t>(fixed(row, column, 8));
}

TimePoint Result::time(int row, int column) const { return from_sql_time(int64(row, column)); }

std::string_view Result::bytes(int row, int column) const {
  return {PQgetvalue(result_.get(), row, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

Uuid Result::uuid(int row, int column) const {
  Uuid::Bytes bytes{};
  const char* const stored = fixed(row, column, static_cast<int>(bytes.size()));
  std::copy_n(stored, bytes.size(), bytes.begin());
  return Uuid(bytes);
}

std::optional<TimePoint> Result::optional_time(int row, int column) const {
  if (is_null(row, column)) return std::nullopt;
  return time(row, column);
}

std::optional<std::string> Result::optional_text(int row, int column) const {
  if (is_null(row, column)) return std::nullopt;
  return std::string(bytes(row, column));
}

}  // namespace oncebox::postgresql
