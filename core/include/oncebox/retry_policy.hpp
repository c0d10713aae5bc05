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
  /// message was first seen, from its due time (the end of a revival's delay is one), or from its
  /// last revival, whichever is latest.
  std::optional<Duration> give_up_after = {};

  /// Throws `out_of_range` unless there is an attempt, and the age is positive and at most a year.
  void validate() const;

  /// Whether a failure was the last one. `attempt` counts the failures, this one included.
  [[nodiscard]] bool is_last(int attempt, Duration age) const noexcept {
    return attempt >= max_attempts && (!give_up_after || age >= *give_up_after);
  }

  friend bool operator==(const AttemptLimit&, const AttemptLimit&) = default;
};

/// When a failed message is tried again.
struct RetryDelays {
  std::variant<ExponentialBackoff, FixedDelay, DelayList> backoff = ExponentialBackoff{};
  Jitter jitter = Jitter::none;
  Duration max_delay = std::chrono::seconds{60};

  /// Throws `out_of_range` unless every duration is positive and at most a year, and the list is
  /// not empty.
  void validate() const;

  /// As `RetryPolicy::delay_after`.
  [[nodiscard]] Duration delay_after(int attempt, std::uint64_t entropy) const;
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

  [[nodiscard]] RetryDelays delays() const { return {backoff, jitter, max_delay}; }
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

/// A worker's own rules for retries, by topic pattern. What they leave open is for the rules of the
/// store, see `TopicPolicy`: topics that no pattern matches, and the limit where only delays are
/// set, or the delays where only a limit is. For delays and limit each the exact pattern wins, then
/// the longest stem.
class RetryPolicies {
 public:
  RetryPolicies() = default;
  /// The policy of all topics. Throws as `RetryPolicy::validate` does.
  explicit RetryPolicies(const RetryPolicy& policy);

  /// Adds or replaces the policy of a pattern. Throws as `RetryPolicy::validate` does.
  RetryPolicies& set(const TopicPattern& pattern, const RetryPolicy& policy);
  /// The delays alone. Throws as `RetryDelays::validate` does.
  RetryPolicies& set_delays(const TopicPattern& pattern, RetryDelays delays);
  /// The limit alone. Throws as `AttemptLimit::validate` does.
  RetryPolicies& set_limit(const TopicPattern& pattern, AttemptLimit limit);

  /// Null: the store decides.
  [[nodiscard]] const RetryDelays* delays_of(const Topic& topic) const noexcept;
  /// Nothing: the store decides.
  [[nodiscard]] std::optional<AttemptLimit> limit_of(const Topic& topic) const noexcept;

 private:
  template <class Value>
  struct ByPattern {
    std::vector<TopicPattern> patterns;
    std::vector<Value> values;  // one for each pattern

    void set(const TopicPattern& pattern, Value value);
    [[nodiscard]] const Value* find(const Topic& topic) const noexcept;
  };

  ByPattern<RetryDelays> delays_;
  ByPattern<AttemptLimit> limits_;
};

}  // namespace oncebox
