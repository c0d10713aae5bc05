#include "api/paused_topics.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

/// Whether every topic of `narrow` is one of `wide`.
bool covers(const TopicPattern& wide, const TopicPattern& narrow) {
  if (wide.is_exact()) return narrow.is_exact() && narrow.stem() == wide.stem();
  return narrow.stem().starts_with(wide.stem());
}

}  // namespace

void PausedTopics::pause(const TopicPattern& pattern) {
  const detail::Lock lock(mutex_);
  if (std::ranges::find(*patterns_, pattern) != patterns_->end()) return;
  if (patterns_->size() >= kMaxPatterns) {
    throw Error(ErrorCode::overloaded,
                fmt::format("{} topics are paused already; use a pattern", kMaxPatterns));
  }
  Patterns more = *patterns_;
  more.push_back(pattern);
  patterns_ = std::make_shared<const Patterns>(std::move(more));
}

bool PausedTopics::resume(const TopicPattern& pattern) {
  const detail::Lock lock(mutex_);
  if (std::ranges::find(*patterns_, pattern) == patterns_->end()) return false;
  Patterns fewer = *patterns_;
  std::erase(fewer, pattern);
  patterns_ = std::make_shared<const Patterns>(std::move(fewer));
  return true;
}

PausedTopics::Snapshot PausedTopics::current() const {
  const detail::Lock lock(mutex_);
  return patterns_;
}

// A selection leaves a topic that it both wants and leaves out to the more specific pattern. So
// what a pause covers whole must not be wanted any more; what it covers in part is wider than the
// pause, and loses against it.
std::optional<TopicSelection> without_paused(TopicSelection wanted,
                                             const PausedTopics::Patterns& paused) {
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

bool is_paused(const PausedTopics::Patterns& paused, std::string_view topic) noexcept {
  return std::ranges::any_of(paused,
                             [&](const TopicPattern& pattern) { return pattern.matches(topic); });
}

}  // namespace oncebox::server
