#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "oncebox/headers.hpp"

namespace oncebox::sql {

/// Headers as a JSON object, so that a person can read the column; nothing when there are none.
[[nodiscard]] std::optional<std::string> to_json(const Headers& headers);

/// Reads what `to_json` wrote. Throws `corrupt` when the text is anything else.
[[nodiscard]] Headers headers_from_json(std::string_view text);

}  // namespace oncebox::sql
