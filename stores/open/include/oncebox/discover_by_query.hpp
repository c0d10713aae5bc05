#pragma once

#include <string>
#include <string_view>

#include "oncebox/store_location.hpp"

namespace oncebox {

/// A discovery that asks a control database: `query` answers two columns, name and URL of each
/// store that should be open. A connection is made for each discovery and closed again, and can
/// only read.
///
/// - `sqlite:PATH`, with the parameter `timeout_ms`.
///
/// - `postgresql://…` or `postgres://…`, with libpq's parameters, pooling (none, transaction),
///   connect_timeout_s and `timeout_ms`.
///
/// Nothing is asked yet. Throws `invalid_argument` for a URL that cannot be read or a blank query,
/// and `unsupported` for a database that this build cannot ask. No error shows a URL.
[[nodiscard]] StoreDiscovery discover_by_query(std::string_view url, std::string query);

}  // namespace oncebox
