#include "oncebox/driver/claim_allowance.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace oncebox {

namespace {

using std::chrono::nanoseconds;

std::int64_t nanoseconds_of(TimePoint time) noexcept {
  return std::chrono::duration_cast<nanoseconds>(time.time_since_epoch()).count();
}

/// What one message takes of a rate.
std::int64_t share_ns(const RateLimit& rate) noexcept {
  const std::int64_t per_ns = std::chrono::duration_cast<nanoseconds>(rate.per).count();
  return std::max<std::int64_t>(per_ns / static_cast<std::int64_t>(rate.count), 1);
}

/// How far a rate may be used up ahead of now. A burst of more than a period's worth is as long as
/// so many periods; it is bounded, so that no sum overflows.
std::int64_t burst_ns(const RateLimit& rate) noexcept {
  const auto burst = static_cast<std::int64_t>(rate.burst.value_or(rate.count));
  const std::int64_t share = share_ns(rate);
  constexpr std::int64_t kLongest = nanoseconds(std::chrono::years{50}).count();
  return burst > kLongest / share ? kLongest : burst * share;
}

/// From where on the next message takes its share. A clock that was set back counts as a burst that
/// is used up, not as a wait for the time that was.
std::int64_t spent_at(const RateLimit& rate, const LimitUse& use, std::int64_t now_ns) noexcept {
  return std::clamp(use.spent_until_ns, now_ns, now_ns + burst_ns(rate));
}

bool rate_has_room(const RateLimit& rate, const LimitUse& use, std::int64_t now_ns) noexcept {
  return spent_at(rate, use, now_ns) + share_ns(rate) <= now_ns + burst_ns(rate);
}

}  // namespace

void count_leased(std::span<LimitUse> uses, const TopicPolicies& policies, std::string_view topic,
                  std::size_t count) noexcept {
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (policies.limits()[i].pattern.matches(topic)) uses[i].leased += count;
  }
}

ClaimAllowance::ClaimAllowance(const TopicPolicies& policies, std::vector<LimitUse> uses,
                               TimePoint now)
    : policies_(&policies), uses_(std::move(uses)), now_(now) {
  uses_.resize(policies.limits().size());
}

bool ClaimAllowance::has_room(std::size_t limit) const noexcept {
  const TopicLimits& limits = policies_->limits()[limit].limits;
  const LimitUse& use = uses_[limit];
  if (limits.max_concurrency && use.leased >= *limits.max_concurrency) return false;
  return !limits.rate || rate_has_room(*limits.rate, use, nanoseconds_of(now_));
}

// A limit that is used up is as good as a pause.
std::optional<TopicSelection> ClaimAllowance::among(TopicSelection wanted) const {
  if (uses_.empty()) return without_paused(std::move(wanted), policies_->paused());
  std::vector<TopicPattern> closed = policies_->paused();
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    if (!has_room(i)) closed.push_back(policies_->limits()[i].pattern);
  }
  return without_paused(std::move(wanted), closed);
}

bool ClaimAllowance::take_limited(std::string_view topic) noexcept {
  const std::vector<LimitedTopics>& all = policies_->limits();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].pattern.matches(topic) && !has_room(i)) return false;
  }
  const std::int64_t now_ns = nanoseconds_of(now_);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].pattern.matches(topic)) continue;
    LimitUse& use = uses_[i];
    ++use.leased;
    const std::optional<RateLimit>& rate = all[i].limits.rate;
    if (rate) use.spent_until_ns = spent_at(*rate, use, now_ns) + share_ns(*rate);
  }
  return true;
}

std::size_t ClaimAllowance::take_first(std::span<const std::string_view> topics) noexcept {
  std::size_t taken = 0;
  while (taken < topics.size() && take(topics[taken])) ++taken;
  return taken;
}

std::optional<TimePoint> ClaimAllowance::next_due(const TopicSelection& topics,
                                                  std::optional<TimePoint> due) const {
  const std::int64_t now_ns = nanoseconds_of(now_);
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const auto& [pattern, limits] = policies_->limits()[i];
    if (!limits.rate || rate_has_room(*limits.rate, uses_[i], now_ns)) continue;
    if (pattern.is_exact() && !topics.matches(pattern.str())) continue;
    const std::int64_t at_ns =
        spent_at(*limits.rate, uses_[i], now_ns) + share_ns(*limits.rate) - burst_ns(*limits.rate);
    const TimePoint at{std::chrono::ceil<Duration>(nanoseconds{at_ns})};
    if (!due || at < *due) due = at;
  }
  return due;
}

}  // namespace oncebox
