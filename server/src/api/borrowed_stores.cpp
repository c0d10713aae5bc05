#include "api/borrowed_stores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "oncebox/driver/forwarding_store.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

std::unique_ptr<StoreSet> borrowed_set(const std::vector<NamedStore>& stores, Logger& logger) {
  if (stores.empty()) {
    throw Error(ErrorCode::invalid_argument, "stores: at least one is needed");
  }
  std::vector<StoreLocation> locations;
  for (const NamedStore& store : stores) locations.push_back({store.name, {}});
  const auto open = [stores](const StoreLocation& location) -> std::unique_ptr<Store> {
    const auto named = std::ranges::find(stores, location.name, &NamedStore::name);
    return std::make_unique<ForwardingStore>(named->store);
  };
  try {
    return std::make_unique<StoreSet>(std::move(locations), open, StoreSetOptions{},
                                      Surroundings{.logger = logger});
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("stores: {}", error.what()));
  }
}

}  // namespace oncebox::server
