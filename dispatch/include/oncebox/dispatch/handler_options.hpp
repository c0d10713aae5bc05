#pragma once

#include <cstddef>
#include <optional>

#include "oncebox/retry_policy.hpp"
#include "oncebox/topic_limits.hpp"

namespace oncebox {

/// What holds for the topics of one handler, in this dispatcher. What holds for every worker of the
/// store stands in the store, see `TopicPolicy`.
struct HandlerOptions {
  std::optional<std::size_t> max_concurrency = {};  ///< messages that are handled at once
  std::optional<RateLimit> rate = {};               ///< how many begin in some time
  /// When a failed message is tried again, and when it is dead. Wins over the rules of the store,
  /// and over what `DispatcherOptions::retries` say of the same pattern.
  std::optional<RetryPolicy> retry = {};

  [[nodiscard]] TopicLimits limits() const noexcept {
    return {.max_concurrency = max_concurrency, .rate = rate};
  }

  /// Throws `out_of_range` as `TopicLimits` and `RetryPolicy` do.
  void validate() const;
};

}  // namespace oncebox
