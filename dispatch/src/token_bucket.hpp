#pragma once

#include <cstddef>
#include <cstdint>

#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/dispatch/handlers.hpp"

namespace oncebox::dispatcher {

/// Limits a rate in two steps, because a message is claimed before it is run: a claim reserves
/// tokens, and the start of the handler spends them. While tokens are reserved the bucket fills up
/// to the rest of the burst only, so that no interval of length t sees more than burst + rate × t
/// starts, however long messages waited in between. Safe from any thread.
class TokenBucket {
 public:
  TokenBucket(const RateLimit& limit, TimePoint now);

  /// How many can be reserved now.
  [[nodiscard]] std::size_t available(TimePoint now);
  /// When the next one can be reserved, given that none can now; `kMaxTime` when that depends on
  /// those that are reserved.
  [[nodiscard]] TimePoint next_at(TimePoint now);

  /// Takes one that is available.
  void reserve(TimePoint now);
  /// The handler of a reserved one starts.
  void spend(TimePoint now);
  /// A reserved one will not be spent.
  void give_back(TimePoint now);

 private:
  void refill(TimePoint now) ONCEBOX_REQUIRES(mutex_);

  // In units of 1 / per tokens, so that a millisecond brings exactly `count` of them.
  const std::int64_t token_;
  const std::int64_t per_ms_;
  const std::int64_t burst_;
  detail::Mutex mutex_;
  std::int64_t level_ ONCEBOX_GUARDED_BY(mutex_);
  std::int64_t reserved_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  TimePoint filled_at_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::dispatcher
