#include "oncebox/retry_policy.hpp"

#include <algorithm>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

constexpr Duration kMinDelay{1};

Duration doubled(Duration base, int times, Duration max) {
  Duration delay = base;
  for (int i = 0; i < times && delay < max; ++i) delay *= 2;
  return std::min(delay, max);
}

struct RawDelay {
  int attempt;
  Duration max;

  Duration operator()(const ExponentialBackoff& backoff) const {
    return doubled(backoff.base, attempt, max);
  }
  Duration operator()(const FixedDelay& fixed) const { return fixed.delay; }
  Duration operator()(const DelayList& list) const {
    if (list.delays.empty()) return max;
    const auto place = static_cast<std::size_t>(std::max(attempt, 1) - 1);
    return list.delays[std::min(place, list.delays.size() - 1)];
  }
};

// A value from `low` to `high`, both included, chosen by the given random bits.
Duration pick(Duration low, Duration high, std::uint64_t entropy) {
  const auto choices = static_cast<std::uint64_t>((high - low).count()) + 1;
  return low + Duration{static_cast<Duration::rep>(entropy % choices)};
}

}  // namespace

void AttemptLimit::validate() const {
  if (max_attempts < 1) {
    throw Error(ErrorCode::out_of_range, "a retry policy allows at least 1 attempt");
  }
  if (give_up_after) {
    require_in_range("give_up_after of the retry policy", *give_up_after, kMinDelay,
                     limits::kMaxDelay);
  }
}

void RetryPolicy::validate() const {
  require_in_range("maximum delay of the retry policy", max_delay, kMinDelay, limits::kMaxDelay);
  limit().validate();
  if (const auto* exponential = std::get_if<ExponentialBackoff>(&backoff)) {
    require_in_range("base of the backoff", exponential->base, kMinDelay, limits::kMaxDelay);
  } else if (const auto* fixed = std::get_if<FixedDelay>(&backoff)) {
    require_in_range("retry delay", fixed->delay, kMinDelay, limits::kMaxDelay);
  } else if (const auto* list = std::get_if<DelayList>(&backoff)) {
    if (list->delays.empty()) {
      throw Error(ErrorCode::out_of_range, "a list of retry delays has at least 1 delay");
    }
    for (const Duration delay : list->delays) {
      require_in_range("retry delay", delay, kMinDelay, limits::kMaxDelay);
    }
  }
}

Duration RetryPolicy::delay_after(int attempt, std::uint64_t entropy) const {
  const Duration raw = std::min(std::visit(RawDelay{attempt, max_delay}, backoff), max_delay);
  const Duration delay = std::max(raw, kMinDelay);
  switch (jitter) {
    case Jitter::none:
      return delay;
    case Jitter::equal:
      return pick(std::max(delay / 2, kMinDelay), delay, entropy);
    case Jitter::full:
      return pick(kMinDelay, delay, entropy);
  }
  return delay;
}

RetryPolicy outbox_retry_policy() {
  return {.backoff = ExponentialBackoff{std::chrono::seconds{1}},
          .jitter = Jitter::equal,
          .max_delay = std::chrono::minutes{5},
          .max_attempts = 20,
          .give_up_after = std::chrono::days{3}};
}

RetryPolicies::RetryPolicies(RetryPolicy fallback) : fallback_(std::move(fallback)) {
  fallback_.validate();
}

RetryPolicies& RetryPolicies::set(const TopicPattern& pattern, RetryPolicy policy) {
  policy.validate();
  const auto known = std::find(patterns_.begin(), patterns_.end(), pattern);
  if (known != patterns_.end()) {
    policies_[static_cast<std::size_t>(known - patterns_.begin())] = std::move(policy);
    return *this;
  }
  policies_.reserve(policies_.size() + 1);  // so that nothing can throw between the two
  patterns_.push_back(pattern);
  policies_.push_back(std::move(policy));
  return *this;
}

const RetryPolicy& RetryPolicies::for_topic(const Topic& topic) const noexcept {
  const std::optional<std::size_t> match = best_match(patterns_, topic.str());
  return match ? policies_[*match] : fallback_;
}

std::optional<int> RetryPolicies::most_attempts() const noexcept {
  if (fallback_.give_up_after) return std::nullopt;
  int most = fallback_.max_attempts;
  for (const RetryPolicy& policy : policies_) {
    if (policy.give_up_after) return std::nullopt;
    most = std::max(most, policy.max_attempts);
  }
  return most;
}

}  // namespace oncebox
