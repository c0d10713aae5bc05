#include "http/token_limits.hpp"

#include <algorithm>

namespace oncebox::server {

bool allows(std::span<const TopicPattern> limits, std::string_view name) noexcept {
  return limits.empty() || std::ranges::any_of(limits, [name](const TopicPattern& limit) {
           return limit.matches(name);
         });
}

bool allows_all(std::span<const TopicPattern> limits, const TopicPattern& wanted) noexcept {
  if (wanted.is_exact()) return allows(limits, wanted.stem());
  return limits.empty() || std::ranges::any_of(limits, [&](const TopicPattern& limit) {
           return !limit.is_exact() && wanted.stem().starts_with(limit.stem());
         });
}

}  // namespace oncebox::server
