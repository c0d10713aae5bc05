#include "configured_stores.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <map>
#include <utility>
#include <vector>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/discover_by_query.hpp"
#include "oncebox/driver/store_url.hpp"
#include "oncebox/error.hpp"
#include "oncebox/open_store.hpp"

namespace oncebox::app {
namespace {

std::vector<StoreLocation> listed_stores(const Config& config) {
  std::vector<StoreLocation> locations;
  for (const StoreSetting& store : config.stores) locations.push_back({store.name, store.url});
  return locations;
}

std::optional<StoreFile> file_of(const DiscoverySettings& settings) {
  if (settings.file.empty()) return std::nullopt;
  return std::optional<StoreFile>(std::in_place, settings.file);
}

Error named(const std::string& store, const Error& error) {
  return {error.code(), fmt::format("store {}: {}", store, error.what())};
}

/// As for the token file.
void warn_of_others(const StoreLocation& location, Logger& logger) {
  const StoreUrl url(location.url);
  struct stat status{};
  if (url.scheme() != "sqlite" || stat(url.location().c_str(), &status) != 0) return;
  if ((status.st_mode & (S_IROTH | S_IWOTH)) == 0) return;
  logger.log(LogLevel::warning, "everybody on this machine has access to the file of a store",
             {{"store", location.name}, {"file", url.location()}});
}

/// The configuration is wrong, and waiting will not mend it.
bool is_for_ever(const Error& error) {
  return error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::out_of_range ||
         error.code() == ErrorCode::unsupported;
}

}  // namespace

/// Opens the stores, and knows with what the listed ones could not be opened at first.
class ConfiguredStores::Opening {
 public:
  /// The logger is borrowed.
  Opening(const Config& config, Logger& logger) : listed_(listed_stores(config)), logger_(logger) {}

  std::unique_ptr<Store> open(const StoreLocation& location) {
    try {
      std::unique_ptr<Store> store = opener_.open(location.url);
      warn_of_others(location, logger_);
      return store;
    } catch (const Error& error) {
      const detail::Lock lock(mutex_);
      failures_.emplace(location.name, error);
      throw;
    }
  }

  void throw_if_hopeless(bool none_is_open) {
    const detail::Lock lock(mutex_);
    for (const StoreLocation& location : listed_) {
      const auto failure = failures_.find(location.name);
      if (failure == failures_.end()) continue;
      if (none_is_open || is_for_ever(failure->second)) {
        throw named(location.name, failure->second);
      }
    }
  }

 private:
  const std::vector<StoreLocation> listed_;
  Logger& logger_;
  StoreOpener opener_;  // of all, as they may share the connections of a server
  detail::Mutex mutex_;
  std::map<std::string, Error> failures_ ONCEBOX_GUARDED_BY(mutex_);
};

StoreDiscovery configured_discovery(const DiscoverySettings& settings,
                                    const std::optional<StoreFile>& file) {
  if (file) return [&file] { return file->read(); };
  if (!settings.query.empty()) return discover_by_query(settings.database, settings.query);
  return {};
}

ConfiguredStores::ConfiguredStores(const Config& config, Logger& logger)
    : file_(file_of(config.discovery)) {
  const auto opening = std::make_shared<Opening>(config, logger);
  const auto open = [opening](const StoreLocation& location) { return opening->open(location); };
  StoreSetOptions options{.refresh_interval = config.discovery.interval};
  StoreDiscovery discovery = configured_discovery(config.discovery, file_);
  if (!discovery) {
    set_ = std::make_unique<StoreSet>(listed_stores(config), open, options,
                                      Surroundings{.logger = logger});
  } else {
    options.always = listed_stores(config);
    set_ = std::make_unique<StoreSet>(std::move(discovery), open, options,
                                      Surroundings{.logger = logger});
  }
  const bool none_is_open = set_->members().empty() && !config.discovery.is_on();
  opening->throw_if_hopeless(none_is_open);
  if (file_) watch_.emplace(*file_, *set_);
}

void try_stores(const Config& config) {
  const std::optional<StoreFile> file = file_of(config.discovery);
  std::vector<StoreLocation> locations = listed_stores(config);
  if (const StoreDiscovery discovery = configured_discovery(config.discovery, file)) {
    for (StoreLocation& found : discovery()) locations.push_back(std::move(found));
  }
  StoreOpener opener;
  for (const StoreLocation& location : locations) {
    try {
      (void)opener.open(location.url);
    } catch (const Error& error) {
      throw named(location.name, error);
    }
  }
}

}  // namespace oncebox::app
