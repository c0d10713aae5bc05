#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.hpp"

/// Every key of the configuration, once: reading, the names of variables, the default file, and the
/// check for unknown keys all go by these tables.
namespace oncebox::app {

/// A value from the environment or a flag, which can be of any type.
struct FreeText {
  std::string text;
};

/// A value as it stands in the file, or a free text.
using ConfigValue =
    std::variant<FreeText, bool, std::int64_t, double, std::string, std::vector<std::string>>;

template <class Target>
struct Key {
  std::string path;  ///< "listen.port"
  std::string text;  ///< what it does, for the default file
  /// Throws `oncebox::Error` for a value of the wrong type.
  std::function<void(Target&, const ConfigValue&)> set;
  /// How its value is written in the file.
  std::function<std::string(const Target&)> written;

  [[nodiscard]] std::string section() const { return path.substr(0, path.find('.')); }
  [[nodiscard]] std::string name() const { return path.substr(path.find('.') + 1); }
};

using ConfigKey = Key<Config>;
using WebhookKey = Key<server::WebhookOptions>;
using StoreKey = Key<StoreSetting>;

[[nodiscard]] const std::vector<ConfigKey>& config_keys();
[[nodiscard]] const std::vector<WebhookKey>& webhook_keys();
[[nodiscard]] const std::vector<StoreKey>& store_keys();

/// What a section is about, for the default file.
[[nodiscard]] std::string_view section_text(std::string_view section);

/// ONCEBOX_LISTEN_PORT for listen.port.
[[nodiscard]] std::string variable_of(std::string_view path);

/// A text as TOML writes it, in quotes.
[[nodiscard]] std::string toml_text(std::string_view text);

}  // namespace oncebox::app
