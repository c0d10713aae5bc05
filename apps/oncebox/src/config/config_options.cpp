#include "config/config_options.hpp"

#include "values.hpp"

namespace oncebox::app {
namespace {

/// A flag of its own for a key that is often set.
Option key_option(ConfigSources& sources, const std::string& names, const std::string& value,
                  const std::string& key) {
  return {.names = names,
          .value = value,
          .text = "short for --set " + key + "=" + value,
          .take = [&sources, key](const std::string& text) {
            sources.settings.push_back({key, text});
          }};
}

}  // namespace

std::vector<Option> config_options(ConfigSources& sources) {
  sources.environment = own_environment();
  return {
      {.names = "-c,--config",
       .value = "FILE",
       .text = "the configuration file; without it ./oncebox.toml or /etc/oncebox/oncebox.toml, "
               "if it is there",
       .take = into(sources.file),
       .variable = "ONCEBOX_CONFIG",
       .completes = Completes::file},
      {.names = "--set",
       .value = "KEY=VALUE",
       .text = "set a key of the configuration, such as limits.max_body_bytes=1MiB",
       .take =
           [&sources](const std::string& text) { sources.settings.push_back(parse_pair(text)); },
       .occurs = Occurs::repeatedly},
      {.names = "--store",
       .value = "[NAME=]URL",
       .text = "a store to serve, instead of those of the configuration; the first is the default",
       .take = into(sources.stores),
       .occurs = Occurs::repeatedly},
      key_option(sources, "--host", "ADDRESS", "listen.host"),
      key_option(sources, "--port", "PORT", "listen.port"),
      key_option(sources, "--log-level", "LEVEL", "log.level"),
      key_option(sources, "--log-format", "FORMAT", "log.format"),
  };
}

}  // namespace oncebox::app
