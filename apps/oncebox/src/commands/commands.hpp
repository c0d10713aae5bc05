#pragma once

#include "command.hpp"

/// The commands of the program, each with its description and what it does.
namespace oncebox::app {

[[nodiscard]] Command serve_command();
[[nodiscard]] Command validate_command();
[[nodiscard]] Command send_command();
[[nodiscard]] Command work_command();
[[nodiscard]] Command get_command();
[[nodiscard]] Command list_command();
[[nodiscard]] Command messages_command();
[[nodiscard]] Command dead_command();
[[nodiscard]] Command audit_command();
[[nodiscard]] Command cleanup_command();
[[nodiscard]] Command dead_groups_command();
[[nodiscard]] Command stats_command();
[[nodiscard]] Command workers_command();
[[nodiscard]] Command health_command();
[[nodiscard]] Command keys_command();
[[nodiscard]] Command stores_command();
[[nodiscard]] Command topics_command();
[[nodiscard]] Command endpoints_command();
[[nodiscard]] Command migrate_command();
[[nodiscard]] Command bench_command();
[[nodiscard]] Command version_command();
[[nodiscard]] Command completion_command();
[[nodiscard]] Command man_command();

/// The whole program.
[[nodiscard]] Command oncebox_command();

}  // namespace oncebox::app
