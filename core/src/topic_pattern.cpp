#include "oncebox/topic_pattern.hpp"

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

namespace {

// Of two patterns that match the same topic.
bool is_more_specific(const TopicPattern& a, const TopicPattern& b) noexcept {
  if (a.is_exact() || b.is_exact()) return a.is_exact() && !b.is_exact();
  return a.stem().size() > b.stem().size();
}

}  // namespace

std::optional<std::size_t> best_match(std::span<const TopicPattern> patterns,
                                      std::string_view topic) noexcept {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const TopicPattern& pattern = patterns[i];
    if (!pattern.matches(topic)) continue;
    if (!best || is_more_specific(pattern, patterns[*best])) best = i;
  }
  return best;
}

bool TopicSelection::matches(std::string_view topic) const noexcept {
  const std::optional<std::size_t> wanted = best_match(only, topic);
  if (!only.empty() && !wanted) return false;
  const std::optional<std::size_t> refused = best_match(except, topic);
  if (!refused) return true;
  return wanted && is_more_specific(only[*wanted], except[*refused]);
}

}  // namespace oncebox
