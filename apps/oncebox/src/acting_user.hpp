#pragma once

#include <string>

namespace oncebox::app {

/// The name of the user of the system who runs the program, for the audit trail; "uid 1000" where
/// the user has none.
[[nodiscard]] std::string acting_user();

}  // namespace oncebox::app
