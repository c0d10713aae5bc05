#pragma once

#include "oncebox/topic_pattern.hpp"
#include "parameters.hpp"

namespace oncebox::postgresql {

/// Adds the five parameters of `selection_sql`.
void add_selection(Parameters& parameters, const TopicSelection& topics);

}  // namespace oncebox::postgresql
