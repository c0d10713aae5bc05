#include "oncebox/postgresql/query_discovery.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "connection.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/location_list.hpp"
#include "sql_error.hpp"

namespace oncebox::postgresql {

namespace {

/// It may only read, and is planned as any other: what our own statements need is not for it.
const Statement kReadOnly{"", "SET TRANSACTION READ ONLY"};
const Statement kUsualPlans{"", R"sql(
SELECT set_config(name, reset_val, true) FROM pg_catalog.pg_settings
WHERE name IN ('plan_cache_mode', 'enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin',
               'enable_mergejoin', 'enable_sort', 'join_collapse_limit', 'jit'))sql"};

/// The server cancels what takes too long; its answer needs a moment more.
constexpr std::chrono::seconds kForTheAnswer{2};

std::string_view without_end(std::string_view query) {
  const std::size_t last = query.find_last_not_of(" \t\r\n;");
  return last == std::string_view::npos ? std::string_view() : query.substr(0, last + 1);
}

/// One row more than there may be, so that too many are noticed and not all of them fetched.
Statement limited(std::string_view query) {
  return {"", fmt::format("SELECT * FROM (\n{}\n) AS discovered LIMIT {}", query,
                          kMaxDiscoveredStores + 1)};
}

[[noreturn]] void throw_refused(const SqlError& error) {
  // Errors of values may quote them, and the server's own functions may say anything.
  const bool may_quote = error.sqlstate().starts_with("22") || error.sqlstate().starts_with("P0");
  throw Error(error.code(),
              fmt::format("the query of the control database failed: {} ({})",
                          may_quote ? "the server's words may hold a secret" : error.primary(),
                          error.sqlstate()));
}

Result run_query(Connection& connection, const Statement& query, Deadline deadline) {
  static const Parameters none;
  const std::array commands{Command{&kBeginTransaction, &none}, Command{&kReadOnly, &none},
                            Command{&kUsualPlans, &none}, Command{&query, &none, RowFormat::text},
                            Command{&kCommitTransaction, &none}};
  try {
    return std::move(
        connection.run_all(commands, Exchange::changes_nothing, deadline).at(commands.size() - 2));
  } catch (const SqlError& error) {
    throw_refused(error);
  }
}

std::string value_of(const Result& rows, int row, int column) {
  if (rows.is_null(row, column)) {
    throw Error(ErrorCode::invalid_argument, column == 0 ? "the name is null" : "the url is null");
  }
  return std::string(rows.bytes(row, column));
}

std::vector<StoreLocation> discover(const QueryDiscoveryOptions& options, const Statement& query) {
  const Deadline deadline = deadline_in(options.timeout + options.connect_timeout + kForTheAnswer);
  Connection connection({.connection = options.connection,
                         .pooling = options.pooling,
                         .call_timeout = options.timeout,
                         .connect_timeout = options.connect_timeout},
                        deadline);
  const Result rows = run_query(connection, query, deadline);
  if (rows.columns() != 2) {
    throw Error(ErrorCode::invalid_argument,
                "the query of a control database must answer two columns: name and url");
  }
  LocationList stores;
  for (int row = 0; row < rows.rows(); ++row) {
    try {
      stores.add(value_of(rows, row, 0), value_of(rows, row, 1));
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("row {}: {}", row + 1, error.what()));
    }
  }
  return std::move(stores).take();
}

}  // namespace

StoreDiscovery discover_by_query(const QueryDiscoveryOptions& options) {
  const std::string_view query = without_end(options.query);
  if (query.empty() || options.connection.empty()) {
    throw Error(ErrorCode::invalid_argument, "a control database needs a connection and a query");
  }
  return [options, statement = limited(query)] { return discover(options, statement); };
}

}  // namespace oncebox::postgresql
