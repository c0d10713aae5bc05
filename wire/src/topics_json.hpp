#pragma once

#include "json_reader.hpp"
#include "json_writer.hpp"
#include "oncebox/topic_pattern.hpp"

/// Topic patterns as JSON: a string is a pattern, as "order.*"; `{"exact": "…"}` is for a topic
/// whose own name ends in `*`.
namespace oncebox::wire {

void write_pattern(JsonWriter& writer, const TopicPattern& pattern);
[[nodiscard]] TopicPattern read_pattern(const JsonValue& value, Direction direction);

void write_selection(JsonWriter& writer, const TopicSelection& topics);
[[nodiscard]] TopicSelection read_selection(const JsonValue& value, Direction direction);

}  // namespace oncebox::wire
