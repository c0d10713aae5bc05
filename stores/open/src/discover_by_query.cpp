#include "oncebox/discover_by_query.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "oncebox/driver/store_url.hpp"
#include "oncebox/error.hpp"
#include "url_parameters.hpp"
#ifdef ONCEBOX_WITH_POSTGRESQL
#include "oncebox/postgresql/query_discovery.hpp"
#endif
#ifdef ONCEBOX_WITH_SQLITE
#include "oncebox/sqlite/query_discovery.hpp"
#endif

namespace oncebox {

namespace {

constexpr std::chrono::milliseconds kShortestTimeout{100};
constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::minutes{5};

template <class Options>
void take_timeout(StoreUrl& url, Options& options) {
  take_number(url, "timeout_ms", options.timeout);
  if (options.timeout >= kShortestTimeout && options.timeout <= kLongestTimeout) return;
  throw Error(
      ErrorCode::out_of_range,
      fmt::format("timeout_ms is {} to {}", kShortestTimeout.count(), kLongestTimeout.count()));
}

#ifdef ONCEBOX_WITH_SQLITE
StoreDiscovery discover_in_sqlite(StoreUrl& url, std::string query) {
  sqlite::QueryDiscoveryOptions options{.path = url.location(), .query = std::move(query)};
  take_timeout(url, options);
  url.require_no_more_parameters();
  return sqlite::discover_by_query(options);
}
#endif

#ifdef ONCEBOX_WITH_POSTGRESQL
StoreDiscovery discover_in_postgresql(StoreUrl& url, std::string query) {
  postgresql::QueryDiscoveryOptions options{.connection = {}, .query = std::move(query)};
  if (const auto pooling = url.take("pooling")) options.pooling = pooling_named(*pooling);
  take_number(url, "connect_timeout_s", options.connect_timeout);
  constexpr std::chrono::seconds kLongestConnect{60};
  if (options.connect_timeout < std::chrono::seconds{1} ||
      options.connect_timeout > kLongestConnect) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("connect_timeout_s is 1 to {}", kLongestConnect.count()));
  }
  take_timeout(url, options);
  // The rest is libpq's, which refuses what it does not know.
  options.connection = url.without_taken();
  return postgresql::discover_by_query(options);
}
#endif

}  // namespace

StoreDiscovery discover_by_query(std::string_view url, std::string query) {
  StoreUrl parts(url);
#ifdef ONCEBOX_WITH_SQLITE
  if (parts.scheme() == "sqlite") return discover_in_sqlite(parts, std::move(query));
#endif
#ifdef ONCEBOX_WITH_POSTGRESQL
  if (parts.scheme() == "postgresql" || parts.scheme() == "postgres") {
    return discover_in_postgresql(parts, std::move(query));
  }
#endif
  throw Error(ErrorCode::unsupported,
              fmt::format("this build cannot ask a control database by {}: URLs; take sqlite: or "
                          "postgresql:, as far as it has them",
                          parts.scheme()));
}

}  // namespace oncebox
