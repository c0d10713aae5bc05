#include "oncebox/topic_pattern.hpp"

#include <algorithm>

namespace oncebox {

TopicPattern::TopicPattern(std::string text)
    : text_(std::move(text)), exact_(!text_.ends_with('*')) {
  detail::require_name(text_, "topic pattern", kMaxNameCodePoints);
}

std::string_view TopicPattern::stem() const noexcept {
  std::string_view stem = text_;
  if (!exact_) stem.remove_suffix(1);
  return stem;
}

bool TopicPattern::matches(std::string_view topic) const noexcept {
  return exact_ ? topic == text_ : topic.starts_with(stem());
}

std::optional<std::size_t> best_match(std::span<const TopicPattern> patterns,
                                      std::string_view topic) noexcept {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const TopicPattern& pattern = patterns[i];
    if (!pattern.matches(topic)) continue;
    if (pattern.is_exact()) return i;
    if (!best || pattern.stem().size() > patterns[*best].stem().size()) best = i;
  }
  return best;
}

bool TopicSelection::matches(std::string_view topic) const noexcept {
  const auto hit = [topic](const TopicPattern& pattern) { return pattern.matches(topic); };
  return (only.empty() || std::any_of(only.begin(), only.end(), hit)) &&
         std::none_of(except.begin(), except.end(), hit);
}

}  // namespace oncebox
