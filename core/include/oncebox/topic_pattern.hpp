#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/names.hpp"

namespace oncebox {

/// A topic, or the beginning of one followed by `*`: "order.created", "order.*", "*".
/// Case-sensitive. A `*` anywhere but at the end is an ordinary character.
class TopicPattern {
 public:
  /// Throws `invalid_argument` unless the text is a valid topic name.
  TopicPattern(std::string text);
  TopicPattern(const char* text) : TopicPattern(std::string(text)) {}
  /// This topic and no other, also when its name ends in `*`.
  TopicPattern(const Topic& topic) : text_(topic.str()), exact_(true) {}

  [[nodiscard]] bool matches(std::string_view topic) const noexcept;

  [[nodiscard]] bool is_exact() const noexcept { return exact_; }
  /// The text before the `*`, or the whole topic.
  [[nodiscard]] std::string_view stem() const noexcept;
  [[nodiscard]] const std::string& str() const noexcept { return text_; }

  friend bool operator==(const TopicPattern&, const TopicPattern&) = default;

 private:
  std::string text_;
  bool exact_;
};

/// Which of several patterns serves a topic: an exact one wins, then the longest stem; of equals
/// the first. Answers its place, or nothing when none matches.
[[nodiscard]] std::optional<std::size_t> best_match(std::span<const TopicPattern> patterns,
                                                    std::string_view topic) noexcept;

/// The topics that a claim is interested in: those that match one of `only` (all, when it is empty)
/// and none of `except`. A topic that both name goes to the more specific pattern, an exact one or
/// the longer stem, as in `best_match`; of equals `except` wins. So "order.*" can be left out and
/// "order.paid" still be wanted.
struct TopicSelection {
  std::vector<TopicPattern> only = {};
  std::vector<TopicPattern> except = {};

  [[nodiscard]] bool matches(std::string_view topic) const noexcept;
};

}  // namespace oncebox
