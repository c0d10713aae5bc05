#include "oncebox/topic_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "oncebox/driver/call_scope.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

constexpr int kMaxAttempts = limits::kMaxDeliveries / 2;

void require_count(std::string_view what, const std::optional<int>& value, int max) {
  if (!value) return;
  require_in_range(what, static_cast<std::size_t>(std::max(*value, 0)), 1,
                   static_cast<std::size_t>(max));
}

void require_duration(std::string_view what, const std::optional<Duration>& value,
                      Duration min = Duration{1}) {
  if (value) require_in_range(what, *value, min, limits::kMaxDelay);
}

/// Calls `visit(field of the policy, field of the change)` for each field.
template <class Policy, class Change, class Visit>
void for_each_field(Policy& policy, Change& change, Visit visit) {
  visit(policy.max_attempts, change.max_attempts);
  visit(policy.backoff, change.backoff);
  visit(policy.delays, change.delays);
  visit(policy.max_delay, change.max_delay);
  visit(policy.jitter, change.jitter);
  visit(policy.give_up_after, change.give_up_after);
  visit(policy.max_deliveries, change.max_deliveries);
  visit(policy.limits.max_concurrency, change.limits.max_concurrency);
  visit(policy.limits.rate, change.limits.rate);
  visit(policy.paused, change.paused);
}

struct ChangeField {
  template <class T>
  void operator()(std::optional<T>& field, const FieldChange<T>& change) const {
    if (!change.leaves()) field = change.value();
  }
  void operator()(std::vector<Duration>& field,
                  const FieldChange<std::vector<Duration>>& change) const {
    if (!change.leaves()) field = change.value().value_or(std::vector<Duration>());
  }
};

struct SetWhatIsThere {
  template <class T>
  void operator()(const std::optional<T>& field, FieldChange<T>& change) const {
    if (field) change = *field;
  }
  void operator()(const std::vector<Duration>& field,
                  FieldChange<std::vector<Duration>>& change) const {
    if (!field.empty()) change = field;
  }
};

/// Whether every topic of `narrow` is one of `wide`.
bool covers(const TopicPattern& wide, const TopicPattern& narrow) noexcept {
  if (wide.is_exact()) return narrow.is_exact() && narrow.stem() == wide.stem();
  return narrow.stem().starts_with(wide.stem());
}

// The more general first.
bool is_wider(const TopicRule* a, const TopicRule* b) noexcept {
  return std::tuple(a->pattern.is_exact(), a->pattern.stem().size()) <
         std::tuple(b->pattern.is_exact(), b->pattern.stem().size());
}

RetryPolicy retry_of(const TopicPolicy& policy, RetryPolicy retry) {
  if (policy.max_attempts) retry.max_attempts = *policy.max_attempts;
  if (policy.backoff) retry.backoff = ExponentialBackoff{*policy.backoff};
  if (!policy.delays.empty()) retry.backoff = DelayList{policy.delays};
  if (policy.jitter) retry.jitter = *policy.jitter;
  // Whoever says how many attempts there are means them, though the queue's own end by age.
  if (policy.give_up_after || policy.max_attempts) retry.give_up_after = policy.give_up_after;
  if (retry.give_up_after == Duration::zero()) retry.give_up_after.reset();
  if (policy.max_delay) {
    retry.max_delay = *policy.max_delay;
  } else if (!policy.delays.empty()) {
    // Whoever lists delays means them, though the queue's own are shorter.
    retry.max_delay = std::max(retry.max_delay, *std::ranges::max_element(policy.delays));
  }
  return retry;
}

ResolvedPolicy resolved(const TopicPolicy& policy, RetryPolicy of_queue) {
  ResolvedPolicy whole{.retry = retry_of(policy, std::move(of_queue))};
  whole.max_deliveries =
      policy.max_deliveries.value_or(2 * std::min(whole.retry.max_attempts, kMaxAttempts));
  whole.limit_is_of_topic = policy.max_attempts || policy.give_up_after;
  return whole;
}

}  // namespace

void TopicPolicy::validate() const {
  require_count("max_attempts of a topic", max_attempts, kMaxAttempts);
  require_count("max_deliveries of a topic", max_deliveries, limits::kMaxDeliveries);
  require_duration("backoff of a topic", backoff);
  require_duration("max_delay of a topic", max_delay);
  require_duration("give_up_after of a topic", give_up_after, Duration::zero());
  require_in_range("number of delays of a topic", delays.size(), 0, kMaxDelays);
  for (const Duration delay : delays) require_duration("delay of a topic", delay);
  limits.validate();
  if (backoff && !delays.empty()) {
    throw Error(ErrorCode::invalid_argument, "a topic has either a backoff or a list of delays");
  }
}

void TopicPolicy::apply(const TopicPolicyChange& change) {
  // One replaces the other.
  if (change.backoff.value()) delays.clear();
  if (change.delays.value() && !change.delays.value()->empty()) backoff.reset();
  for_each_field(*this, change, ChangeField());
  if (paused == false) paused.reset();
}

TopicPolicyChange TopicPolicy::as_change() const {
  TopicPolicyChange change;
  for_each_field(*this, change, SetWhatIsThere());
  return change;
}

void TopicPolicyChange::validate() const {
  TopicPolicy set;
  for_each_field(set, *this, ChangeField());
  set.validate();
}

bool ResolvedPolicy::is_delivered_too_often(int attempt, int lapses) const noexcept {
  return std::min(attempt, retry.max_attempts) + lapses >= max_deliveries;
}

TopicPolicies::TopicPolicies(QueueKind queue, std::vector<TopicRule> rules)
    : rules_(std::move(rules)) {
  std::ranges::sort(rules_, {}, [](const TopicRule& rule) {
    return std::pair<const std::string&, bool>(rule.pattern.str(), rule.pattern.is_exact());
  });
  const RetryPolicy of_queue = queue == QueueKind::inbox ? RetryPolicy{} : outbox_retry_policy();
  fallback_ = resolved({}, of_queue);
  for (const TopicRule& rule : rules_) {
    patterns_.push_back(rule.pattern);
    resolved_.push_back(resolved(inherited(rule.pattern), of_queue));
    if (rule.policy.paused.value_or(false)) paused_.push_back(rule.pattern);
    if (!rule.policy.limits.empty()) limits_.push_back({rule.pattern, rule.policy.limits});
  }
}

TopicPolicy TopicPolicies::inherited(const TopicPattern& pattern) const {
  std::vector<const TopicRule*> chain;
  for (const TopicRule& rule : rules_) {
    if (covers(rule.pattern, pattern)) chain.push_back(&rule);
  }
  std::ranges::sort(chain, is_wider);
  TopicPolicy policy;
  for (const TopicRule* rule : chain) policy.apply(rule->policy.as_change());
  policy.paused.reset();
  policy.limits = {};
  return policy;
}

const ResolvedPolicy& TopicPolicies::for_topic(std::string_view topic) const noexcept {
  if (patterns_.empty()) return fallback_;
  const std::optional<std::size_t> match = best_match(patterns_, topic);
  return match ? resolved_[*match] : fallback_;
}

TopicPolicy TopicPolicies::rule_of(const TopicPattern& pattern) const {
  const auto known = std::ranges::find(rules_, pattern, &TopicRule::pattern);
  return known != rules_.end() ? known->policy : TopicPolicy{};
}

bool TopicPolicies::limits_concurrency() const noexcept {
  return std::ranges::any_of(limits_, [](const LimitedTopics& limited) {
    return limited.limits.max_concurrency.has_value();
  });
}

bool TopicPolicies::restricts(std::string_view topic) const noexcept {
  return is_paused(paused_, topic) ||
         std::ranges::any_of(
             limits_, [&](const LimitedTopics& limited) { return limited.pattern.matches(topic); });
}

// A selection leaves a topic that it both wants and leaves out to the more specific pattern. So
// what a pause covers whole must not be wanted any more; what it covers in part is wider than the
// pause, and loses against it.
std::optional<TopicSelection> without_paused(TopicSelection wanted,
                                             std::span<const TopicPattern> paused) {
  if (paused.empty()) return wanted;
  const bool wants_all = wanted.only.empty();
  for (const TopicPattern& pause : paused) {
    if (wants_all && !pause.is_exact() && pause.stem().empty()) return std::nullopt;
    std::erase_if(wanted.only, [&](const TopicPattern& only) { return covers(pause, only); });
    wanted.except.push_back(pause);
  }
  if (!wants_all && wanted.only.empty()) return std::nullopt;
  return wanted;
}

bool is_paused(std::span<const TopicPattern> paused, std::string_view topic) noexcept {
  return std::ranges::any_of(paused,
                             [&](const TopicPattern& pattern) { return pattern.matches(topic); });
}

TopicPolicies PolicyStore::policies(QueueKind queue, const CallOptions& call) {
  const CallScope scope(call);
  return TopicPolicies(queue, do_rules(queue));
}

TopicPolicy PolicyStore::update(QueueKind queue, const TopicPattern& pattern,
                                const TopicPolicyChange& change, const PolicyOptions& options,
                                const CallOptions& call) {
  change.validate();
  const CallScope scope(call);
  return do_update(queue, pattern, change, options);
}

bool PolicyStore::remove(QueueKind queue, const TopicPattern& pattern, const PolicyOptions& options,
                         const CallOptions& call) {
  const CallScope scope(call);
  return do_remove(queue, pattern, options);
}

TopicPolicy policy_after(std::span<const TopicRule> rules, const TopicPattern& pattern,
                         const TopicPolicyChange& change) {
  const auto known = std::ranges::find(rules, pattern, &TopicRule::pattern);
  TopicPolicy policy = known != rules.end() ? known->policy : TopicPolicy{};
  policy.apply(change);
  const bool is_one_more = known == rules.end() && !policy.empty();
  if (is_one_more && rules.size() >= PolicyStore::kMaxRules) {
    throw Error(ErrorCode::overloaded,
                fmt::format("the queue has {} rules for topics already; use a pattern, or remove "
                            "some by: oncebox topics remove",
                            PolicyStore::kMaxRules));
  }
  return policy;
}

}  // namespace oncebox
