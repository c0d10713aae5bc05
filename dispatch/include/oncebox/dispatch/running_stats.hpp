#pragma once

#include <cstddef>
#include <cstdint>

#include "oncebox/histogram.hpp"

namespace oncebox {

/// What a dispatcher has done since it was made, and what it is doing. Counters only grow: a rate,
/// such as the throughput, is the difference of two snapshots over the time between them.
struct RunningStats {
  // Now.
  std::size_t buffered = 0;   ///< claimed, waiting for a worker
  std::size_t running = 0;    ///< handlers at work
  std::size_t unsettled = 0;  ///< their verdict is given, but not yet recorded

  // Messages, by what was recorded.
  std::uint64_t handled = 0;     ///< done
  std::uint64_t retried = 0;     ///< failed, to be tried again
  std::uint64_t dead = 0;        ///< failed for good, expired, or delivered too often
  std::uint64_t released = 0;    ///< given back without a try, or interrupted
  std::uint64_t superseded = 0;  ///< new content came while the handler ran
  std::uint64_t given_up = 0;    ///< verdicts that the store would not take; their leases lapse

  // Leases.
  std::uint64_t lapsed = 0;  ///< of whomever, ended by this dispatcher: the messages come again
  std::uint64_t lease_extensions = 0;
  std::uint64_t leases_lost = 0;

  // How well claims stay ahead of the workers: how often a worker that was free found a message in
  // the buffer, and how often it had to wait for one.
  std::uint64_t prefetch_hits = 0;
  std::uint64_t prefetch_misses = 0;

  // Calls of the store.
  std::uint64_t claims = 0;
  std::uint64_t empty_claims = 0;
  std::uint64_t failed_store_calls = 0;

  Distribution delivery_latency_ms = {};  ///< from claimable to the start of the handler
  Distribution handler_duration_ns = {};
  Distribution claim_batch = {};   ///< messages in a claim that was not empty
  Distribution settle_batch = {};  ///< verdicts recorded in one call
};

}  // namespace oncebox
