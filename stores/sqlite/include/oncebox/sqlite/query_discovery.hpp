#pragma once

#include <chrono>
#include <string>

#include "oncebox/store_location.hpp"

namespace oncebox::sqlite {

struct QueryDiscoveryOptions {
  std::string path;   ///< of the control database, which must exist
  std::string query;  ///< one that answers two columns: name and URL of each store
  /// How long to wait for a lock, and how long the query may run, each.
  std::chrono::milliseconds timeout{10'000};
};

/// Asks a control database which stores there are. It is opened for each discovery, to be read
/// only, and closed again. A discovery throws `invalid_argument`, naming the row, for what is no
/// store, and no error shows a URL. Throws `invalid_argument` for a blank query or path.
[[nodiscard]] StoreDiscovery discover_by_query(const QueryDiscoveryOptions& options);

}  // namespace oncebox::sqlite
