#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/worker.hpp"

/// Who claims from a queue. Rules as in message_json.hpp.
namespace oncebox::wire {

/// `{"workers": [{"name": "shop-3:8124", "leases": 12, "since": …, "lastSeen": …}]}`
[[nodiscard]] std::string write_workers(std::span<const WorkerRecord> workers);
[[nodiscard]] std::vector<WorkerRecord> read_workers(std::string_view json);

}  // namespace oncebox::wire
