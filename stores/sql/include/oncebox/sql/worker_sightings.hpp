#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/worker.hpp"

namespace oncebox::sql {

/// Which workers a store object has written down, and when, so that a claim seldom writes more than
/// its leases: a worker that is given messages is written down every ten seconds, an idle one every
/// five minutes. Every call is safe from any thread.
class WorkerSightings {
 public:
  /// The number of the worker's row; nothing when the row is to be written now.
  [[nodiscard]] std::optional<std::int64_t> number_of(const WorkerName& name, TimePoint now) const;
  void written(const WorkerName& name, std::int64_t number, TimePoint now);
  /// The worker was given messages.
  void was_given_work(const WorkerName& name);
  /// What was written may not have been committed.
  void forget() noexcept;

 private:
  struct Sighting {
    std::int64_t number = 0;
    TimePoint written_at{};
    bool has_worked = false;  ///< since then
  };

  mutable detail::Mutex mutex_;
  std::map<WorkerName, Sighting> sightings_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::sql
