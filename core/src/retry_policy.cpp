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

// Of delays, or of a policy, which has the same fields.
template <class Delays>
Duration delay_of(const Delays& delays, int attempt, std::uint64_t entropy) {
  const Duration max = delays.max_delay;
  const Duration raw = std::min(std::visit(RawDelay{attempt, max}, delays.backoff), max);
  const Duration delay = std::max(raw, kMinDelay);
  switch (delays.jitter) {
    case Jitter::none:
      return delay;
    case Jitter::equal:
      return pick(std::max(delay / 2, kMinDelay), delay, entropy);
    case Jitter::full:
      return pick(kMinDelay, delay, entropy);
  }
  return delay;
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

void RetryDelays::validate() const {
  require_in_range("maximum delay of the retry policy", max_delay, kMinDelay, limits::kMaxDelay);
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

Duration RetryDelays::delay_after(int attempt, std::uint64_t entropy) const {
  return delay_of(*this, attempt, entropy);
}

void RetryPolicy::validate() const {
  delays().validate();
  limit().validate();
}

// Without a copy of the delays: every failure comes here.
Duration RetryPolicy::delay_after(int attempt, std::uint64_t entropy) const {
  return delay_of(*this, attempt, entropy);
}

RetryPolicy outbox_retry_policy() {
  return {.backoff = ExponentialBackoff{std::chrono::seconds{1}},
          .jitter = Jitter::equal,
          .max_delay = std::chrono::minutes{5},
          .max_attempts = 20,
          .give_up_after = std::chrono::days{3}};
}

template <class Value>
void RetryPolicies::ByPattern<Value>::set(const TopicPattern& pattern, Value value) {
  const auto known = std::find(patterns.begin(), patterns.end(), pattern);
  if (known != patterns.end()) {
    values[static_cast<std::size_t>(known - patterns.begin())] = std::move(value);
    return;
  }
  values.reserve(values.size() + 1);  // so that nothing can throw between the two
  patterns.push_back(pattern);
  values.push_back(std::move(value));
}

template <class Value>
const Value* RetryPolicies::ByPattern<Value>::find(const Topic& topic) const noexcept {
  const std::optional<std::size_t> match = best_match(patterns, topic.str());
  return match ? &values[*match] : nullptr;
}

RetryPolicies::RetryPolicies(const RetryPolicy& policy) { set("*", policy); }

RetryPolicies& RetryPolicies::set(const TopicPattern& pattern, const RetryPolicy& policy) {
  policy.validate();
  return set_delays(pattern, policy.delays()).set_limit(pattern, policy.limit());
}

RetryPolicies& RetryPolicies::set_delays(const TopicPattern& pattern, RetryDelays delays) {
  delays.validate();
  delays_.set(pattern, std::move(delays));
  return *this;
}

RetryPolicies& RetryPolicies::set_limit(const TopicPattern& pattern, AttemptLimit limit) {
  limit.validate();
  limits_.set(pattern, limit);
  return *this;
}

const RetryDelays* RetryPolicies::delays_of(const Topic& topic) const noexcept {
  return delays_.find(topic);
}

std::optional<AttemptLimit> RetryPolicies::limit_of(const Topic& topic) const noexcept {
  const AttemptLimit* limit = limits_.find(topic);
  return limit != nullptr ? std::optional(*limit) : std::nullopt;
}

}  // namespace oncebox
