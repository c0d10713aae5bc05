#pragma once

#include <vector>

#include "command.hpp"
#include "config/config.hpp"

namespace oncebox::app {

/// The options by which `serve` and `validate` are told the configuration. The sources get our own
/// environment.
[[nodiscard]] std::vector<Option> config_options(ConfigSources& sources);

}  // namespace oncebox::app
