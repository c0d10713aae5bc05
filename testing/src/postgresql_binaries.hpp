#pragma once

#include <string>

namespace oncebox::testing {

/// The folder of the server's programs: the one that was asked for, else the one in the
/// environment, else the newest of the packages. Throws `not_found`, saying what to install.
[[nodiscard]] std::string find_postgresql_binaries(const std::string& wanted);

}  // namespace oncebox::testing
