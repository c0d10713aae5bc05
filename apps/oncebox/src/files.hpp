#pragma once

#include <cstddef>
#include <string>

namespace oncebox::app {

/// The whole content of a file, or of standard input for "-". Throws a `Failure` with
/// `ExitCode::no_input` when it cannot be read or has more than `max_bytes`.
[[nodiscard]] std::string read_file(const std::string& path, std::size_t max_bytes);

/// The content without the line ends behind it: for a secret that stands alone in a file.
[[nodiscard]] std::string read_secret_file(const std::string& path);

}  // namespace oncebox::app
