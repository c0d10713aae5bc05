#pragma once

#include <chrono>
#include <string>

#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/store_location.hpp"

namespace oncebox::postgresql {

struct QueryDiscoveryOptions {
  std::string connection;  ///< of the control database, as in `Options`
  std::string query;       ///< one that answers two columns: name and URL of each store
  Pooling pooling = Pooling::none;
  std::chrono::milliseconds timeout{10'000};  ///< of the query; the server ends it then
  std::chrono::seconds connect_timeout{5};    ///< for each host
};

/// Asks a control database which stores there are: on a connection that is made for it and closed
/// again, in a transaction that can only read. The role needs no more than what the query reads. A
/// discovery throws `invalid_argument`, naming the row, for what is no store, and no error shows a
/// URL. Throws `invalid_argument` for a blank query or connection.
[[nodiscard]] StoreDiscovery discover_by_query(const QueryDiscoveryOptions& options);

}  // namespace oncebox::postgresql
