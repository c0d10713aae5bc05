#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "oncebox/clock.hpp"

namespace oncebox {

/// So many in so much time. Short bursts of `burst` are allowed; by default as many as `count`.
struct RateLimit {
  std::size_t count = 1;
  Duration per = std::chrono::seconds{1};
  std::optional<std::size_t> burst = {};

  friend bool operator==(const RateLimit&, const RateLimit&) = default;
};

/// How much of some topics may be done at once and over time. Given with a handler it binds one
/// dispatcher; in a `TopicPolicy` it binds everybody who works on the store.
struct TopicLimits {
  std::optional<std::size_t> max_concurrency = {};
  std::optional<RateLimit> rate = {};

  [[nodiscard]] bool empty() const noexcept { return !max_concurrency && !rate; }

  /// Throws `out_of_range` unless every number and duration is positive.
  void validate() const;

  friend bool operator==(const TopicLimits&, const TopicLimits&) = default;
};

}  // namespace oncebox
