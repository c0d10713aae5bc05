#pragma once

#include <string>
#include <string_view>

#include "oncebox/watch_report.hpp"

namespace oncebox::wire {

/// `{"status": "Degraded", "detail"?: …, "stores": [{"name": …, "health": "Healthy", "detail"?:
/// …}], "findings": [{"code": "ReadyLate", "store": …, "queue"?: "inbox", "topic"?: …, "since": …,
/// "detail": …}]}`; with `"discovery": {"health": …, "detail"?: …}` when that is not healthy.
[[nodiscard]] std::string write_health(const WatchdogReport& report, const Health& discovery = {});

/// What a service answers.
struct ServiceHealth {
  WatchdogReport report = {};
  Health discovery = {};
};
[[nodiscard]] ServiceHealth read_health(std::string_view json);

}  // namespace oncebox::wire
