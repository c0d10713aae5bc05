#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/names.hpp"
#include "oncebox/store.hpp"

namespace oncebox {

enum class FindingCode {
  lease_stuck,    ///< a message is held, or was let down, for far too long
  ready_late,     ///< a message waits for a worker for far too long
  store_lagging,  ///< a store is slow, fails, hangs, or gets more work than is done
  topic_poison,   ///< much of what a topic brings dies
};

[[nodiscard]] std::string_view to_string(FindingCode code) noexcept;

/// Something that an operator should look at.
struct Finding {
  FindingCode code = FindingCode::store_lagging;
  std::string store;
  std::string queue = {};           ///< "inbox" or "outbox"; empty: the store as a whole
  std::optional<Topic> topic = {};  ///< nothing: all of them
  TimePoint since{};
  std::string detail = {};  ///< a sentence, without a payload or an error text

  friend bool operator==(const Finding&, const Finding&) = default;
};

struct WatchedHealth {
  std::string store;
  Health health;
};

struct WatchdogReport {
  /// `degraded` while there is a finding or a store is degraded or unavailable.
  HealthStatus status = HealthStatus::healthy;
  std::vector<WatchedHealth> stores;  ///< by name, those that were looked at
  std::vector<Finding> findings;      ///< by store

  /// The first reasons, in one line.
  [[nodiscard]] std::string detail() const;
};

}  // namespace oncebox
