#include "topics_json.hpp"

#include <array>
#include <vector>

#include "oncebox/limits.hpp"

namespace oncebox::wire {

namespace {

constexpr std::array<std::string_view, 1> kExactField = {"exact"};
constexpr std::array<std::string_view, 2> kSelectionFields = {"only", "except"};

void write_patterns(JsonWriter& writer, std::string_view name,
                    const std::vector<TopicPattern>& patterns) {
  if (patterns.empty()) return;
  writer.key(name).begin_array();
  for (const TopicPattern& pattern : patterns) write_pattern(writer, pattern);
  writer.end_array();
}

std::vector<TopicPattern> read_patterns(const ObjectReader& fields, std::string_view name,
                                        Direction direction) {
  std::vector<TopicPattern> patterns;
  if (const std::optional<JsonValue> array = fields.find(name)) {
    array->for_each_item(limits::kMaxTopicPatterns, [&](const JsonValue& value) {
      patterns.push_back(read_pattern(value, direction));
    });
  }
  return patterns;
}

}  // namespace

void write_pattern(JsonWriter& writer, const TopicPattern& pattern) {
  const bool needs_object = pattern.is_exact() && pattern.str().ends_with('*');
  if (needs_object) {
    writer.begin_object().field("exact", pattern.str()).end_object();
  } else {
    writer.value(pattern.str());
  }
}

TopicPattern read_pattern(const JsonValue& value, Direction direction) {
  if (!value.is_object()) return value.as<TopicPattern>();
  const ObjectReader fields(value, kExactField, direction);
  return TopicPattern(fields.require_as<Topic>("exact"));
}

void write_selection(JsonWriter& writer, const TopicSelection& topics) {
  writer.begin_object();
  write_patterns(writer, "only", topics.only);
  write_patterns(writer, "except", topics.except);
  writer.end_object();
}

TopicSelection read_selection(const JsonValue& value, Direction direction) {
  const ObjectReader fields(value, kSelectionFields, direction);
  return {.only = read_patterns(fields, "only", direction),
          .except = read_patterns(fields, "except", direction)};
}

}  // namespace oncebox::wire
