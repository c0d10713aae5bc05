#include "api/readiness.hpp"

#include <string>
#include <utility>
#include <vector>

namespace oncebox::server {

namespace {

/// A store that is not open, or not served yet, counts as down.
Health health_of(ServedStores& stores, const MemberState& state, HealthProbe* probe) {
  if (!state.open) return {HealthStatus::unavailable, state.failure};
  const ServedStorePtr served = stores.find_open(state.name);
  if (!served) return {HealthStatus::unavailable, "it is being opened"};
  return probe != nullptr ? probe->ask(served) : served->last_health();
}

}  // namespace

Health HealthProbe::ask(const ServedStorePtr& store) {
  const detail::Lock lock(mutex_);
  if (!asked_) {
    thread_.submit_own([this, store]() noexcept {
      Health health = store->ask_health();
      const detail::Lock answering(mutex_);
      answer_ = std::move(health);
      asked_.reset();
      answered_.notify_all();
    });
    asked_ = store;  // not before: that may have thrown
  }
  if (asked_ != store) return store->last_health();
  const SteadyTime until = clock_.steady() + patience_;
  bool is_time = false;
  while (asked_ == store && !is_time) is_time = !answered_.wait_until(mutex_, until);
  if (asked_ == store) return {HealthStatus::unavailable, "it does not answer"};
  return answer_;
}

Readiness ask_readiness(ServedStores& stores, HealthProbe& probe) {
  const std::vector<MemberState> states = stores.set().states();
  const std::string& default_name = stores.default_name();
  Readiness readiness;
  bool default_is_up = default_name.empty();
  for (const MemberState& state : states) {
    const bool is_default = state.name == default_name;
    const Health health = health_of(stores, state, is_default ? &probe : nullptr);
    const bool is_up = health.status != HealthStatus::unavailable;
    if (is_default) default_is_up = is_up;
    if (is_up) continue;
    ++readiness.stores_down;
    // The reason of the default store wins.
    if (readiness.detail.empty() || is_default) {
      readiness.detail = "store " + state.name + ": " + health.detail;
    }
  }
  const Health discovery = stores.set().discovery_health();
  readiness.ready = default_is_up && readiness.stores_down < states.size();
  readiness.degraded = readiness.stores_down > 0 || discovery.status != HealthStatus::healthy;
  if (readiness.detail.empty()) {
    readiness.detail = readiness.ready
                           ? discovery.detail
                           : "the default store is not among the stores; see default_store";
  }
  return readiness;
}

}  // namespace oncebox::server
