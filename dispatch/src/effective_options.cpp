#include "effective_options.hpp"

#include <algorithm>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

void DispatcherOptions::validate() const {
  constexpr std::size_t kMostWorkers = 4'096;
  constexpr Duration kShortest{1};
  constexpr Duration kLongest = std::chrono::days{1};
  require_in_range("workers", workers, 1, kMostWorkers);
  require_in_range("batch_size", batch_size, 1, limits::kMaxBatchItems);
  if (max_buffered) {
    require_in_range("max_buffered", *max_buffered, 1, 2 * limits::kMaxBatchItems);
  }
  require_in_range("buffer_bytes", buffer_bytes, 1, limits::kMaxClaimBytes);
  require_in_range("lease", lease, limits::kMinLease, limits::kMaxLease);
  require_in_range("poll_interval", poll_interval, kShortest, kLongest);
  require_in_range("max_poll_interval", max_poll_interval, poll_interval, kLongest);
  if (reap_interval) require_in_range("reap_interval", *reap_interval, kShortest, kLongest);
  if (max_deliveries && (*max_deliveries < 1 || *max_deliveries > limits::kMaxDeliveries)) {
    throw Error(ErrorCode::out_of_range, "max_deliveries must be from 1 to 1,000,000");
  }
}

namespace dispatcher {

DispatcherOptions effective(DispatcherOptions options, const Handlers& handlers) {
  options.validate();
  for (const Handlers::Registration& registration : handlers.registrations()) {
    const std::optional<RetryPolicy>& retry = registration.options.retry;
    if (retry) options.retries.set(registration.pattern, *retry);
  }
  if (options.name.empty()) options.name = "inbox";
  if (!options.owner) options.owner = OwnerToken::generate();
  if (!options.worker_name) options.worker_name = this_process();
  if (!options.max_buffered) {
    options.max_buffered = std::min(2 * options.batch_size, 2 * limits::kMaxBatchItems);
  }
  return options;
}

DispatcherOptions for_outbox(DispatcherOptions options) {
  if (options.name.empty()) options.name = "outbox";
  return options;
}

std::size_t in_flight_capacity(const DispatcherOptions& options) {
  return *options.max_buffered + options.workers + 2 * options.batch_size;
}

}  // namespace dispatcher

}  // namespace oncebox
