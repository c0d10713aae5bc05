#pragma once

#include <atomic>
#include <cstdint>

#include "oncebox/dispatch/running_stats.hpp"
#include "oncebox/histogram.hpp"
#include "oncebox/queue_types.hpp"

namespace oncebox::dispatcher {

/// What the threads of a dispatcher count once for each batch; see `RunningStats`. What is counted
/// for each message stands with the worker, so that workers do not write to the same memory.
struct Counters {
  using Count = std::atomic<std::uint64_t>;

  Count handled = 0;
  Count retried = 0;
  Count dead = 0;
  Count released = 0;
  Count superseded = 0;
  Count given_up = 0;
  Count lapsed = 0;
  Count lease_extensions = 0;
  Count leases_lost = 0;
  Count claims = 0;
  Count empty_claims = 0;
  Count failed_store_calls = 0;
  Histogram claim_batch;
  Histogram settle_batch;

  /// What a claim or a reap cleared away.
  void note(const ReapResult& reaped) noexcept {
    if (reaped.total() == 0) return;
    lapsed += reaped.released;
    dead += reaped.buried;
  }

  void add_to(RunningStats& stats) const {
    stats.handled += handled;
    stats.retried += retried;
    stats.dead += dead;
    stats.released += released;
    stats.superseded += superseded;
    stats.given_up += given_up;
    stats.lapsed += lapsed;
    stats.lease_extensions += lease_extensions;
    stats.leases_lost += leases_lost;
    stats.claims += claims;
    stats.empty_claims += empty_claims;
    stats.failed_store_calls += failed_store_calls;
    stats.claim_batch = claim_batch.distribution();
    stats.settle_batch = settle_batch.distribution();
  }
};

}  // namespace oncebox::dispatcher
