#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "oncebox/topic_pattern.hpp"

namespace oncebox::server {

/// What a token may touch. Each list has names, or beginnings of names followed by `*`, as patterns
/// of topics have them; an empty one allows everything of its kind.
struct TokenLimits {
  std::vector<TopicPattern> stores = {};
  std::vector<TopicPattern> sources = {};
  std::vector<TopicPattern> topics = {};

  [[nodiscard]] bool empty() const noexcept {
    return stores.empty() && sources.empty() && topics.empty();
  }
  /// Whether every message of a store may be touched.
  [[nodiscard]] bool allow_all_messages() const noexcept {
    return sources.empty() && topics.empty();
  }

  friend bool operator==(const TokenLimits&, const TokenLimits&) = default;
};

/// Whether a list of limits allows this name.
[[nodiscard]] bool allows(std::span<const TopicPattern> limits, std::string_view name) noexcept;

/// Whether it allows every name that the pattern matches.
[[nodiscard]] bool allows_all(std::span<const TopicPattern> limits,
                              const TopicPattern& wanted) noexcept;

}  // namespace oncebox::server
