#include "row_arrays.hpp"

#include <fmt/format.h>

namespace oncebox::postgresql {

namespace {

std::string_view name_of(SqlType type) {
  switch (type) {
    case SqlType::boolean:
      return "boolean";
    case SqlType::bytea:
      return "bytea";
    case SqlType::bigint:
      return "bigint";
    case SqlType::smallint:
      return "smallint";
    case SqlType::integer:
      return "integer";
    case SqlType::text:
      return "text";
    case SqlType::timestamptz:
      return "timestamptz";
    case SqlType::uuid:
      return "uuid";
  }
  return "text";
}

template <class Describe>
std::string joined(std::span<const Column> columns, Describe describe) {
  std::string text;
  for (const Column& column : columns) {
    if (!text.empty()) text += ", ";
    text += describe(column);
  }
  return text;
}

}  // namespace

RowArrays::RowArrays(std::span<const Column> columns) {
  arrays_.reserve(columns.size());
  for (const Column& column : columns) arrays_.emplace_back(column.type);
}

Parameters RowArrays::take() {
  Parameters parameters;
  move_to(parameters);
  return parameters;
}

void RowArrays::move_to(Parameters& parameters) {
  const bool has_rows = !empty();
  for (ArrayValue& array : arrays_) {
    // unnest() fills up with nulls what is shorter than the others.
    if (has_rows && array.has_only_nulls()) {
      parameters.add_null();
    } else {
      parameters.add(std::move(array));
    }
  }
}

std::string RowArrays::names(std::span<const Column> columns) {
  return joined(columns, [](const Column& column) { return std::string(column.name); });
}

std::string RowArrays::values(std::span<const Column> columns) {
  return joined(columns, [](const Column& column) { return fmt::format("u.{}", column.name); });
}

std::string RowArrays::source(std::span<const Column> columns, std::size_t first) {
  const std::string arrays = joined(columns, [&](const Column& column) {
    return fmt::format("${}::{}[]", first++, name_of(column.type));
  });
  return fmt::format("unnest({}) AS u ({})", arrays, names(columns));
}

std::string RowArrays::assignments(std::span<const Column> columns) {
  return joined(columns.subspan(1),
                [](const Column& column) { return fmt::format("{0} = u.{0}", column.name); });
}

}  // namespace oncebox::postgresql
