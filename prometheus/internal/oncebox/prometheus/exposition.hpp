#pragma once

#include <prometheus/registry.h>

#include <string>

namespace oncebox::metrics {

/// The text of all metrics of a registry, version 0.0.4, by their names.
[[nodiscard]] std::string exposition(const prometheus::Registry& registry);

}  // namespace oncebox::metrics
