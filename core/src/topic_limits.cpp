#include "oncebox/topic_limits.hpp"

#include <cstdint>
#include <limits>

#include "oncebox/limits.hpp"

namespace oncebox {

void TopicLimits::validate() const {
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  if (max_concurrency) require_in_range("max_concurrency", *max_concurrency, 1, kMost);
  if (!rate) return;
  // Their product with the period in milliseconds must fit into 64 bits.
  constexpr std::size_t kMostCalls = 100'000'000;
  require_in_range("count of a rate", rate->count, 1, kMostCalls);
  require_in_range("period of a rate", rate->per, Duration{1}, limits::kMaxDelay);
  if (rate->burst) require_in_range("burst of a rate", *rate->burst, 1, kMostCalls);
}

}  // namespace oncebox
