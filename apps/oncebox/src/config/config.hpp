#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "failure.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/server_options.hpp"
#include "values.hpp"

/// What `oncebox serve` can be told: by a TOML file, by the environment, and by flags, of which the
/// later ones win.
namespace oncebox::app {

struct StoreSetting {
  std::string name;
  std::string url;  ///< may hold a password: never printed
};

enum class LogFormat { text, json };

struct LogSettings {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
};

/// Where further stores are listed: in a file, or in a control database.
struct DiscoverySettings {
  std::filesystem::path file = {};
  std::string database = {};  ///< a URL, which may hold a password: never printed
  std::string query = {};
  Duration interval = defaults::kDiscoveryInterval;

  [[nodiscard]] bool is_on() const noexcept { return !file.empty() || !query.empty(); }
};

struct Config {
  server::ServerOptions server = {};
  /// The first is the one that paths without a store's name mean, unless another is named. With
  /// discovery there need not be any.
  std::vector<StoreSetting> stores = {{"default", "sqlite:oncebox.db"}};
  DiscoverySettings discovery = {};
  LogSettings log = {};
  Duration drain_timeout = std::chrono::seconds{30};
};

struct ConfigSources {
  /// The file to read; nothing: ONCEBOX_CONFIG, ./oncebox.toml, /etc/oncebox/oncebox.toml, the
  /// first of them that is there.
  std::optional<std::string> file = {};
  std::vector<std::string> environment = {};  ///< NAME=VALUE
  std::vector<NameAndValue> settings = {};    ///< a key's path and its value
  std::vector<std::string> stores = {};       ///< [NAME=]URL; any replaces all others
};

struct LoadedConfig {
  Config config;
  std::string file = {};                   ///< that was read; empty: none
  std::vector<std::string> warnings = {};  ///< what was probably meant otherwise
};

/// Reads all of it and checks it. Throws a `Failure` with `ExitCode::bad_config` that names
/// everything that is wrong, a line for each.
[[nodiscard]] LoadedConfig load_config(const ConfigSources& sources);

/// Our own environment, for `ConfigSources`.
[[nodiscard]] std::vector<std::string> own_environment();

/// The commented file that sets every key to its default.
[[nodiscard]] std::string default_config_file();

}  // namespace oncebox::app
