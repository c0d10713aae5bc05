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

void add_selection(Parameters& parameters, const TopicSelection& topics) {
  parameters.add(patterns_of(topics.only, Kind::exact))
      .add(patterns_of(topics.only, Kind::stem))
      .add(patterns_of(topics.except, Kind::exact))
      .add(patterns_of(topics.except, Kind::stem))
      .add(topics.only.empty());
}

}  // namespace oncebox::postgresql
