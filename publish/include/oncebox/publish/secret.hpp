#pragma once

#include <string>
#include <string_view>

namespace oncebox::publish {

/// The secret that a reference means: `env:NAME`, `file:PATH` or `literal:` and the secret itself.
/// Of a file blanks and line ends around it do not count. Throws `invalid_argument`, and never
/// shows any of it.
[[nodiscard]] std::string resolve_secret(std::string_view reference);

}  // namespace oncebox::publish
