#pragma once

#include <memory>
#include <optional>

#include "config/config.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/log.hpp"
#include "oncebox/store_file.hpp"

namespace oncebox::app {

/// The stores of a configuration: those that it lists, and those that are discovered.
class ConfiguredStores {
 public:
  /// Opens them. A discovered one may be down, and so may one of several that are listed: it is
  /// tried again. Throws the error of a listed one, naming the store but never its URL, when that
  /// will never be opened, or when no store could be. The logger is borrowed.
  ConfiguredStores(const Config& config, Logger& logger);

  [[nodiscard]] StoreSet& set() noexcept { return *set_; }

 private:
  class Opening;

  std::optional<StoreFile> file_;
  std::unique_ptr<StoreSet> set_;
  std::optional<StoreFileWatch> watch_;  // goes before what it refreshes
};

/// What tells the stores that are not listed; nothing when there is no discovery. The file, if it
/// is one, is borrowed. Throws for what cannot be.
[[nodiscard]] StoreDiscovery configured_discovery(const DiscoverySettings& settings,
                                                  const std::optional<StoreFile>& file);

/// Asks discovery, and opens every store once. Throws for the first that cannot be.
void try_stores(const Config& config);

}  // namespace oncebox::app
