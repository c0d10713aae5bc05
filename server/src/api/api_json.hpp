#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/store.hpp"

/// Answers that only this service gives, as JSON: those that clients of a store need too are in
/// oncebox::wire.
namespace oncebox::server {

struct IntakeSummary;

/// `{"received": 3, "accepted": 1, "duplicate": 1, …, "hashMismatches": 0, "failedCount": 1,
/// "failed": [{"line": 2, "code": …, "detail": …}]}`
[[nodiscard]] std::string write_intake_summary(const IntakeSummary& summary);

/// The problem with `linesStored` added.
[[nodiscard]] std::string with_lines_stored(std::string_view problem, std::size_t lines);

struct StoreReport {
  std::string name;
  bool is_default = false;
  std::optional<Capabilities> capabilities = {};  ///< nothing: it is down
  Health health = {};
};

struct StoresReport {
  std::vector<StoreReport> stores = {};
  std::optional<std::string> next = {};  ///< absent on the last page
  Health discovery = {};
};

/// `{"stores": [{"name": …, "default": true, "state": "Open", "health": "Healthy", "detail"?: …,
/// "capabilities"?: {"durable": …, "sharedBetweenProcesses": …, "joinsCallerTransaction": …,
/// "notifies": …, "nativeTtl": …, "maxPayloadBytes": …}}], "next"?: …, "discovery": {"health":
/// "Healthy", "detail"?: …}}`
[[nodiscard]] std::string write_stores(const StoresReport& report);

/// `{"added": ["acme"], "removed": [], "reopened": [], "down": []}`
[[nodiscard]] std::string write_refreshed(const RefreshResult& result);

struct QueueSample {
  std::string store;
  std::string_view queue;
  QueueStats stats = {};
};

/// Topics of a queue in one sample: a listener gets one every second.
inline constexpr std::size_t kMaxSampledTopics = 100;

/// `{"at": …, "queues": [{"store": …, "queue": "inbox", "stats": {…}}]}`; where a queue has more
/// topics, those with the most to do, and `omittedTopics` in its statistics.
[[nodiscard]] std::string write_samples(std::span<const QueueSample> samples, TimePoint at);

/// `{"store": …, "queue": "inbox"}`
[[nodiscard]] std::string write_work_event(std::string_view store, std::string_view queue);

}  // namespace oncebox::server
