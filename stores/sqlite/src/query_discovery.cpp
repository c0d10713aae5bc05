#include "oncebox/sqlite/query_discovery.hpp"

#include <fmt/format.h>

#include <utility>

#include "connection.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/location_list.hpp"

namespace oncebox::sqlite {

namespace {

constexpr int kStepsBetweenLooks = 10'000;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n;") == std::string_view::npos;
}

/// Interrupts what runs on a connection when its time is over.
class TimeLimit {
 public:
  TimeLimit(sqlite3* database, std::chrono::milliseconds time)
      : database_(database), deadline_(time) {
    sqlite3_progress_handler(database_, kStepsBetweenLooks, &TimeLimit::is_over, this);
  }
  ~TimeLimit() { sqlite3_progress_handler(database_, 0, nullptr, nullptr); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  [[nodiscard]] bool is_over() const noexcept { return deadline_.has_passed(); }

 private:
  static int is_over(void* self) noexcept {
    return static_cast<const TimeLimit*>(self)->is_over() ? 1 : 0;
  }

  sqlite3* const database_;
  const Deadline deadline_;
};

std::string value_of(const Statement& row, int column, std::size_t number) {
  if (row.is_null(column)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("row {}: the {} is null", number, column == 0 ? "name" : "url"));
  }
  return std::string(row.text(column));
}

std::vector<StoreLocation> read_rows(Statement& rows) {
  LocationList stores;
  for (std::size_t number = 1; rows.step(); ++number) {
    std::string name = value_of(rows, 0, number);
    std::string url = value_of(rows, 1, number);
    try {
      stores.add(std::move(name), std::move(url));
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("row {}: {}", number, error.what()));
    }
  }
  return std::move(stores).take();
}

std::vector<StoreLocation> discover(const QueryDiscoveryOptions& options) {
  Connection connection(
      {.path = options.path, .access = Access::read_only, .busy_timeout = options.timeout});
  Statement rows = connection.prepare(options.query);
  if (rows.columns() != 2 || !rows.is_read_only()) {
    throw Error(ErrorCode::invalid_argument,
                "the query of a control database must only read, and answer two columns: name and "
                "url");
  }
  const TimeLimit limit(connection.handle(), options.timeout);
  try {
    return read_rows(rows);
  } catch (const Error&) {
    if (!limit.is_over()) throw;
    throw Error(ErrorCode::timeout,
                "the query of the control database took too long; raise its timeout");
  }
}

}  // namespace

StoreDiscovery discover_by_query(const QueryDiscoveryOptions& options) {
  if (is_blank(options.query) || options.path.empty()) {
    throw Error(ErrorCode::invalid_argument, "a control database needs a path and a query");
  }
  return [options] { return discover(options); };
}

}  // namespace oncebox::sqlite
