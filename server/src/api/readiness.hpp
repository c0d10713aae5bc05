#pragma once

#include <cstddef>
#include <string>

#include "api/call_pool.hpp"
#include "api/served_stores.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::server {

/// Asks one store for its health, and waits no longer than `patience`. The store is asked on a
/// thread of the probe, so that neither a store that hangs nor a full call pool holds up the
/// caller. Safe from any thread.
class HealthProbe {
 public:
  /// The clock is borrowed.
  HealthProbe(Duration patience, const Clock& clock) : patience_(patience), clock_(clock) {}

  /// `unavailable` when no answer comes in time; the question stays asked, and later calls have its
  /// answer. While another store is being asked, how this one last was.
  [[nodiscard]] Health ask(const ServedStorePtr& store);

 private:
  const Duration patience_;
  const Clock& clock_;
  detail::Mutex mutex_;
  detail::TimedCondition answered_{clock_};
  ServedStorePtr asked_ ONCEBOX_GUARDED_BY(mutex_);  ///< null: nobody is being asked
  Health answer_ ONCEBOX_GUARDED_BY(mutex_);
  CallPool thread_{1, 1};  // last: it uses the members above
};

/// Whether the default store can be used, or any where there is no default, and how many others are
/// known to be down.
struct Readiness {
  bool ready = true;
  /// Some are down, the stores are those of an earlier discovery, or `/v1/health` has something to
  /// say.
  bool degraded = false;
  std::size_t stores_down = 0;
  std::string detail = {};  ///< why; for the log
};

/// Asks the default store alone; what is known of the others is enough.
[[nodiscard]] Readiness ask_readiness(ServedStores& stores, HealthProbe& probe);

}  // namespace oncebox::server
