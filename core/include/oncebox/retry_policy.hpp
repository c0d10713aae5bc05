#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/names.hpp"
#include "oncebox/topic_pattern.hpp"

namespace oncebox {

/// `base × 2^attempt`, with the attempt counted after the failure: 2, 4, 8 … for a base of one
/// second.
struct ExponentialBackoff {
  Duration base = std::chrono::seconds{1};
};

/// The same delay after every failure.
struct FixedDelay {
  Duration delay;
};

/// The n-th delay after the n-th failure; the last one repeats.
struct DelayList {
  std::vector<Duration> delays;
};

/// How much of a delay is left to chance, so that messages that failed together do not come back
/// together.
enum class Jitter {
  none,   ///< the delay itself
  equal,  ///< between half the delay and the delay
  full,   ///< between one millisecond and the delay
};

/// When the attempts at a message end.
struct AttemptLimit {
  int max_attempts = 10;
  /// Gives up by age: a message is dead with the first failure at which it is as old as this and
  /// has failed `max_attempts` times. Neither ends it alone, so no outage that is shorter than this
  /// does, and what comes late to its first attempt has all of them: because nothing ran for days,
  /// it waited behind others of its partition key, or it was revived. The age counts from when the
  /// message was first seen, from its due time, or from its last revival, whichever is latest.
  std::optional<Duration> give_up_after = {};

  /// Throws `out_of_range` unless there is an attempt, and the age is positive and at most a year.
  void validate() const;

  /// Whether a failure was the last one. `attempt` counts the failures, this one included.
  [[nodiscard]] bool is_last(int attempt, Duration age) const noexcept {
    return attempt >= max_attempts && (!give_up_after || age >= *give_up_after);
  }

  friend bool operator==(const AttemptLimit&, const AttemptLimit&) = default;
};

/// When a failed message is tried again, and when it is given up. The defaults are those of R-12
/// and R-26: 2, 4, 8, 16, 32, 60, 60 … seconds, dead after ten failed deliveries. An outbox has its
/// own, `outbox_retry_policy`.
struct RetryPolicy {
  std::variant<ExponentialBackoff, FixedDelay, DelayList> backoff = ExponentialBackoff{};
  Jitter jitter = Jitter::none;
  Duration max_delay = std::chrono::seconds{60};
  int max_attempts = 10;
  std::optional<Duration> give_up_after = {};  ///< see `AttemptLimit`

  /// Throws `out_of_range` unless every duration is positive and at most a year, the list is not
  /// empty, and `max_attempts` is at least 1.
  void validate() const;

  /// The delay after a failure, where `attempt` counts the failed attempts so far, this one
  /// included (so it is at least 1). `entropy` supplies the chance for jitter: any 64 random bits.
  /// The answer is at least one millisecond and at most `max_delay`.
  [[nodiscard]] Duration delay_after(int attempt, std::uint64_t entropy) const;

  [[nodiscard]] AttemptLimit limit() const noexcept { return {max_attempts, give_up_after}; }
};

/// How messages of an outbox are repeated, unless somebody says otherwise. It waits for a broker
/// that is away, and keeps the order meanwhile: the delays double from 2 s to 5 min, each between
/// half of that and the whole; a message is given up when it is 3 days old and has failed 20 times.
///
///     RetryPolicy a_week = outbox_retry_policy();
///     a_week.give_up_after = std::chrono::days{7};
///     OutboxDispatcher dispatcher(store, publishers, {.retries = RetryPolicies(a_week)});
[[nodiscard]] RetryPolicy outbox_retry_policy();

/// A default policy and exceptions by topic pattern; an exact pattern wins over the longest stem.
class RetryPolicies {
 public:
  RetryPolicies() = default;
  /// Throws as `RetryPolicy::validate` does.
  explicit RetryPolicies(RetryPolicy fallback);

  /// Adds or replaces the policy of a pattern. Throws as `RetryPolicy::validate` does.
  RetryPolicies& set(const TopicPattern& pattern, RetryPolicy policy);

  [[nodiscard]] const RetryPolicy& for_topic(const Topic& topic) const noexcept;
  /// The most attempts that any of the policies allows; nothing when one of them gives up by age.
  [[nodiscard]] std::optional<int> most_attempts() const noexcept;

 private:
  RetryPolicy fallback_;
  std::vector<TopicPattern> patterns_;
  std::vector<RetryPolicy> policies_;  // one for each pattern
};

}  // namespace oncebox
