#pragma once

#include <string>

#include "server_folder.hpp"

namespace oncebox::testing {

/// The folder of the server's programs: the one that was asked for, else the one in the
/// environment, else the newest of the packages. Throws `not_found`, saying what to install.
[[nodiscard]] std::string find_postgresql_binaries(const std::string& wanted);

/// The same programs where the user whom servers run under can reach them: where they are, or
/// copied into this folder. For root's tests of binaries that lie below a folder of root's.
[[nodiscard]] std::string reachable_postgresql_binaries(const std::string& bin,
                                                        const ServerFolder& folder);

}  // namespace oncebox::testing
