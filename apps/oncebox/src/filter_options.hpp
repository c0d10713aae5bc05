#pragma once

#include <vector>

#include "command.hpp"
#include "oncebox/queue_operator.hpp"

namespace oncebox::app {

/// Options that say which messages are meant, and whether any of them was given.
struct FilterOptions {
  MessageFilter filter = {};
  bool given = false;
};

enum class StatusOption { offered, fixed };

/// Times count back from `now` where they are durations.
[[nodiscard]] std::vector<Option> filter_options(FilterOptions& options, StatusOption status,
                                                 TimePoint now);

}  // namespace oncebox::app
