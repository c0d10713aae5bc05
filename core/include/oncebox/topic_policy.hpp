#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/call_options.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/retry_policy.hpp"
#include "oncebox/topic_limits.hpp"
#include "oncebox/topic_pattern.hpp"
#include "oncebox/topic_policy_change.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox {

/// What holds for the messages of some topics, whoever works on them and through whatever handle
/// . An absent field is inherited: from the rule with the next shorter stem that has it, in
/// the end from what the queue does by itself.
struct TopicPolicy {
  static constexpr std::size_t kMaxDelays = 100;

  /// With it and without `give_up_after`, attempts end by their number alone.
  std::optional<int> max_attempts = {};
  /// The base of delays that double, see `ExponentialBackoff`.
  std::optional<Duration> backoff = {};
  /// The n-th delay after the n-th failure, in place of a backoff; the last one repeats. Empty:
  /// absent.
  std::vector<Duration> delays = {};
  std::optional<Duration> max_delay = {};
  std::optional<Jitter> jitter = {};
  /// See `AttemptLimit`. Zero: attempts end by their number alone, whatever wider rules say.
  std::optional<Duration> give_up_after = {};
  /// A message goes dead when a lease lapses and its failed and lapsed deliveries reach this number
  /// . Deliveries that were released do not count, nor do failures beyond the attempts of the
  /// policy. Absent everywhere: twice the attempts.
  std::optional<int> max_deliveries = {};
  /// For the messages of all topics that the rule matches together, however many workers and
  /// processes there are: how many are leased at once, and how many are handed out in some time.
  /// Not inherited; a topic is bound by every rule that matches it.
  TopicLimits limits = {};
  /// A topic is not handed out while any rule that matches it is paused.
  std::optional<bool> paused = {};

  /// Throws `out_of_range` for numbers and durations outside their limits, `invalid_argument` when
  /// there are both a backoff and delays.
  void validate() const;

  /// Whether it says nothing.
  [[nodiscard]] bool empty() const noexcept { return *this == TopicPolicy{}; }

  void apply(const TopicPolicyChange& change);
  /// The change that sets what this policy says, and leaves the rest.
  [[nodiscard]] TopicPolicyChange as_change() const;

  friend bool operator==(const TopicPolicy&, const TopicPolicy&) = default;
};

struct TopicRule {
  TopicPattern pattern;
  TopicPolicy policy;

  friend bool operator==(const TopicRule&, const TopicRule&) = default;
};

/// What applies to one topic, with everything inherited.
struct ResolvedPolicy {
  RetryPolicy retry = {};
  int max_deliveries = 0;
  bool limit_is_of_topic = false;  ///< a rule says how many attempts there are, or how long

  /// Whether a message is to go dead that failed and whose leases lapsed so often.
  [[nodiscard]] bool is_delivered_too_often(int attempt, int lapses) const noexcept;
};

/// The topics that one rule limits.
struct LimitedTopics {
  TopicPattern pattern;
  TopicLimits limits;
};

/// The rules of a queue at one time. An exact pattern wins over the longest stem.
class TopicPolicies {
 public:
  explicit TopicPolicies(QueueKind queue, std::vector<TopicRule> rules = {});

  [[nodiscard]] const std::vector<TopicRule>& rules() const noexcept { return rules_; }
  [[nodiscard]] const ResolvedPolicy& for_topic(std::string_view topic) const noexcept;
  /// What the rule of this very pattern says; empty when there is none.
  [[nodiscard]] TopicPolicy rule_of(const TopicPattern& pattern) const;

  /// The patterns of the rules that are paused.
  [[nodiscard]] const std::vector<TopicPattern>& paused() const noexcept { return paused_; }

  /// The rules that have limits, in the order of the rules.
  [[nodiscard]] const std::vector<LimitedTopics>& limits() const noexcept { return limits_; }
  /// Whether some rule limits how many are leased: then whoever ends a lease makes room.
  [[nodiscard]] bool limits_concurrency() const noexcept;
  /// Whether messages of this topic can be handed out by a claim alone, because a pause or a limit
  /// matches it.
  [[nodiscard]] bool restricts(std::string_view topic) const noexcept;

 private:
  /// What the rules that cover this pattern say together.
  [[nodiscard]] TopicPolicy inherited(const TopicPattern& pattern) const;

  std::vector<TopicRule> rules_;
  std::vector<TopicPattern> patterns_;    // one for each rule
  std::vector<ResolvedPolicy> resolved_;  // one for each rule
  ResolvedPolicy fallback_;
  std::vector<TopicPattern> paused_;
  std::vector<LimitedTopics> limits_;
};

/// Those of the wanted topics that are not paused, however specific the wish is; nothing when none
/// is left.
[[nodiscard]] std::optional<TopicSelection> without_paused(TopicSelection wanted,
                                                           std::span<const TopicPattern> paused);

[[nodiscard]] bool is_paused(std::span<const TopicPattern> paused, std::string_view topic) noexcept;

struct PolicyOptions {
  std::string reason = {};  ///< for the trail of a server
};

/// The rules for topics that a store keeps, for each of its queues. Whoever claims, settles or
/// reaps after a call has returned, in any process, goes by what it changed. Threads, atomicity,
/// bad input and limits as for `QueueStore`.
class PolicyStore {
 public:
  static constexpr std::size_t kMaxRules = 1'000;

  virtual ~PolicyStore() = default;
  PolicyStore(const PolicyStore&) = delete;
  PolicyStore& operator=(const PolicyStore&) = delete;

  /// All rules of a queue, in the order of their patterns.
  [[nodiscard]] TopicPolicies policies(QueueKind queue, const CallOptions& call = {});

  /// Changes the rule of a pattern, or makes it; a rule that says nothing any more is removed.
  /// Answers the policy that the rule has now. Throws `overloaded` when there are too many rules.
  TopicPolicy update(QueueKind queue, const TopicPattern& pattern, const TopicPolicyChange& change,
                     const PolicyOptions& options = {}, const CallOptions& call = {});

  /// Removes the rule of this very pattern; false when there is none.
  bool remove(QueueKind queue, const TopicPattern& pattern, const PolicyOptions& options = {},
              const CallOptions& call = {});

 protected:
  PolicyStore() = default;

 private:
  virtual std::vector<TopicRule> do_rules(QueueKind queue) = 0;
  virtual TopicPolicy do_update(QueueKind queue, const TopicPattern& pattern,
                                const TopicPolicyChange& change, const PolicyOptions& options) = 0;
  virtual bool do_remove(QueueKind queue, const TopicPattern& pattern,
                         const PolicyOptions& options) = 0;
};

/// For authors of stores: the policy that `update` is to keep, where empty means none. Throws
/// `overloaded`.
[[nodiscard]] TopicPolicy policy_after(std::span<const TopicRule> rules,
                                       const TopicPattern& pattern,
                                       const TopicPolicyChange& change);

}  // namespace oncebox
