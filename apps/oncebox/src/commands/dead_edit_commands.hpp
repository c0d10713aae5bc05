#pragma once

#include "command.hpp"

/// The commands below `oncebox dead` that change payloads.
namespace oncebox::app {

[[nodiscard]] Command dead_edit_command();
[[nodiscard]] Command dead_history_command();

}  // namespace oncebox::app
