#pragma once

#include <span>

#include "oncebox/topic_pattern.hpp"
#include "parameters.hpp"

namespace oncebox::postgresql {

/// The names of the exact patterns, and what the topics of the others begin with.
[[nodiscard]] ArrayValue exact_names(std::span<const TopicPattern> patterns);
[[nodiscard]] ArrayValue stems_of(std::span<const TopicPattern> patterns);

/// Adds the five parameters of `selection_sql`.
void add_selection(Parameters& parameters, const TopicSelection& topics);

}  // namespace oncebox::postgresql
