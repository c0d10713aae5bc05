#include "selection.hpp"

#include <span>
#include <string_view>
#include <utility>

namespace oncebox::postgresql {

namespace {

enum class Kind { exact, stem };

ArrayValue patterns_of(std::span<const TopicPattern> patterns, Kind kind) {
  ArrayValue array(SqlType::text);
  for (const TopicPattern& pattern : patterns) {
    if (pattern.is_exact() == (kind == Kind::exact)) array.add(pattern.stem());
  }
  return array;
}

}  // namespace

ArrayValue exact_names(std::span<const TopicPattern> patterns) {
  return patterns_of(patterns, Kind::exact);
}

ArrayValue stems_of(std::span<const TopicPattern> patterns) {
  return patterns_of(patterns, Kind::stem);
}

void add_selection(Parameters& parameters, const TopicSelection& topics) {
  parameters.add(exact_names(topics.only))
      .add(stems_of(topics.only))
      .add(exact_names(topics.except))
      .add(stems_of(topics.except))
      .add(topics.only.empty());
}

}  // namespace oncebox::postgresql
