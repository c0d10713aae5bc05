#pragma once

#include <memory>
#include <vector>

#include "oncebox/fleet/store_set.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/server.hpp"

namespace oncebox::server {

/// A set of stores that somebody else has opened, and that stays as it is. Throws
/// `invalid_argument` for no store, a bad name, or one that is there twice.
[[nodiscard]] std::unique_ptr<StoreSet> borrowed_set(const std::vector<NamedStore>& stores,
                                                     Logger& logger);

}  // namespace oncebox::server
