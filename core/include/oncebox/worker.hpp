#pragma once

#include <chrono>
#include <cstddef>

#include "oncebox/clock.hpp"
#include "oncebox/names.hpp"

namespace oncebox {

/// The name of this process, for those who give themselves no other: its host and its number,
/// "shop-3:8124".
[[nodiscard]] WorkerName this_process();

/// Who claims from a queue. A worker is known by its name alone: it stays the same one when it has
/// another owner token, and after a restart if it was given the same name again.
struct WorkerRecord {
  WorkerName name;
  std::size_t leases = 0;  ///< messages that it holds now
  TimePoint since{};       ///< its first claim
  /// Its last claim, as far as the store was told: not all of them are written, but one every ten
  /// seconds of a worker that is given messages, and one every five minutes of an idle one.
  TimePoint last_seen_at{};

  friend bool operator==(const WorkerRecord&, const WorkerRecord&) = default;
};

/// A worker that holds nothing and has made no claim for so long is forgotten.
inline constexpr Duration kWorkerRetention = std::chrono::hours{1};

}  // namespace oncebox
