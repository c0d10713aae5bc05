#include "token_bucket.hpp"

#include <algorithm>

namespace oncebox::dispatcher {

TokenBucket::TokenBucket(const RateLimit& limit, TimePoint now)
    : token_(limit.per.count()),
      per_ms_(static_cast<std::int64_t>(limit.count)),
      burst_(static_cast<std::int64_t>(limit.burst.value_or(limit.count)) * token_),
      level_(burst_),
      filled_at_(now) {}

void TokenBucket::refill(TimePoint now) {
  if (now <= filled_at_) return;
  const std::int64_t missing = burst_ - reserved_ - level_;
  const std::int64_t elapsed_ms = (now - filled_at_).count();
  filled_at_ = now;
  // Compared first: after a long pause the product could overflow.
  level_ += elapsed_ms > missing / per_ms_ ? missing : elapsed_ms * per_ms_;
}

std::size_t TokenBucket::available(TimePoint now) {
  const detail::Lock lock(mutex_);
  refill(now);
  // Below zero while several claims have reserved at the same time.
  return level_ <= 0 ? 0 : static_cast<std::size_t>(level_ / token_);
}

TimePoint TokenBucket::next_at(TimePoint now) {
  const detail::Lock lock(mutex_);
  refill(now);
  if (burst_ - reserved_ < token_) return kMaxTime;
  const std::int64_t missing = std::max<std::int64_t>(token_ - level_, 0);
  return now + Duration{(missing + per_ms_ - 1) / per_ms_};
}

void TokenBucket::reserve(TimePoint now) {
  const detail::Lock lock(mutex_);
  refill(now);
  level_ -= token_;
  reserved_ += token_;
}

void TokenBucket::spend(TimePoint now) {
  const detail::Lock lock(mutex_);
  refill(now);
  reserved_ -= token_;
}

void TokenBucket::give_back(TimePoint now) {
  const detail::Lock lock(mutex_);
  refill(now);
  reserved_ -= token_;
  level_ += token_;
}

}  // namespace oncebox::dispatcher
