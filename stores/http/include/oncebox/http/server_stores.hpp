#pragma once

#include <string>
#include <vector>

#include "oncebox/http/http_store.hpp"
#include "oncebox/store_location.hpp"
#include "oncebox/watch_report.hpp"

namespace oncebox::http {

/// A store of a service, as the service tells of it.
struct ServerStore {
  std::string name;
  bool is_default = false;
  bool is_open = false;  ///< else it is down
  Health health = {};
};

struct ServerStoreList {
  std::vector<ServerStore> stores;  ///< the default one first, the others by name
  Health discovery = {};
};

/// All stores of a service, page by page. Throws as an `HttpStore` does; `options.store` means
/// nothing here.
[[nodiscard]] ServerStoreList list_server_stores(const Options& options);

/// Has the service look for stores that have come or gone. Throws `unavailable` when it cannot.
RefreshResult refresh_server_stores(const Options& options);

/// How the service is, as its `/v1/health` tells: what its watchdog has found, the stores that are
/// down, and discovery.
struct ServerHealth {
  WatchdogReport report = {};
  Health discovery = {};
};
[[nodiscard]] ServerHealth server_health(const Options& options);

}  // namespace oncebox::http
