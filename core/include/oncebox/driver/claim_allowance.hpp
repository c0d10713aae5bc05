#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/topic_policy.hpp"

namespace oncebox {

/// What has been given out under a limit of a `TopicPolicy`.
struct LimitUse {
  std::size_t leased = 0;  ///< messages of its topics that are leased
  /// In nanoseconds since the epoch: the time up to which its rate is used up, where each message
  /// takes `per / count`. It may be ahead of now by a burst. 0: nothing was taken yet.
  std::int64_t spent_until_ns = 0;

  friend bool operator==(const LimitUse&, const LimitUse&) = default;
};

/// Adds leased messages of a topic to the uses, one for each limit of the policies.
void count_leased(std::span<LimitUse> uses, const TopicPolicies& policies, std::string_view topic,
                  std::size_t count) noexcept;

/// How many messages one claim may hand out: what the pauses and the limits of topics leave at that
/// moment. A store that cannot ask for each message as it chooses it claims in steps:
///
///     ClaimAllowance allowance(policies, uses, now);
///     while (more are wanted) {
///       topics = allowance.among(request.topics);      // nothing: the claim has ended
///       messages = the best ones of these topics;
///       taken = allowance.take_first(their topics);    // so many of them may be handed out
///       if (taken == messages.size()) the claim has ended;
///     }
///
/// Each step but the last uses up a limit, so there are at most as many as limits, and one more.
class ClaimAllowance {
 public:
  /// The policies are borrowed. One use for each of their limits, in that order.
  ClaimAllowance(const TopicPolicies& policies, std::vector<LimitUse> uses, TimePoint now);

  /// Whether there are limits: otherwise everything can be taken.
  [[nodiscard]] bool has_limits() const noexcept { return !uses_.empty(); }

  /// Those of the wanted topics that may be handed out; nothing when none is left.
  [[nodiscard]] std::optional<TopicSelection> among(TopicSelection wanted) const;

  /// Takes a message of this topic; false when a limit forbids it.
  [[nodiscard]] bool take(std::string_view topic) noexcept {
    return !has_limits() || take_limited(topic);
  }
  /// Takes messages of these topics, in order, up to the first one that a limit forbids. Answers
  /// how many.
  std::size_t take_first(std::span<const std::string_view> topics) noexcept;

  /// The earlier of `due` and the first time at which a rate that is used up allows a message of
  /// these topics again; for `QueueStore::next_due`.
  [[nodiscard]] std::optional<TimePoint> next_due(const TopicSelection& topics,
                                                  std::optional<TimePoint> due) const;

  /// What is used now; what of it was taken here must be kept together with the claim.
  [[nodiscard]] const std::vector<LimitUse>& uses() const noexcept { return uses_; }

 private:
  [[nodiscard]] bool take_limited(std::string_view topic) noexcept;
  [[nodiscard]] bool has_room(std::size_t limit) const noexcept;

  const TopicPolicies* policies_;
  std::vector<LimitUse> uses_;
  TimePoint now_;
};

}  // namespace oncebox
