#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace oncebox {

/// A store that should be open, and what opens it. The name identifies it for ever: in routing
/// keys, paths, log lines, metrics and health. The URL may hold secrets and is shown nowhere.
struct StoreLocation {
  std::string name;  ///< see `require_store_name`
  std::string url;

  friend bool operator==(const StoreLocation&, const StoreLocation&) = default;
};

/// Throws `invalid_argument` unless the name has 1 to 64 letters, digits, `-` and `_`.
void require_store_name(std::string_view name);

/// Tells all stores that should be open now. Throws when it cannot tell. Called by one thread at a
/// time, outside every lock.
using StoreDiscovery = std::function<std::vector<StoreLocation>()>;

/// What a refresh changed, by name.
struct RefreshResult {
  std::vector<std::string> added;     ///< new in the set, open or not
  std::vector<std::string> removed;   ///< no longer in the set
  std::vector<std::string> reopened;  ///< to be found at another URL now
  std::vector<std::string> down;      ///< in the set, and not open: it could not be, or not yet

  friend bool operator==(const RefreshResult&, const RefreshResult&) = default;
};

}  // namespace oncebox
