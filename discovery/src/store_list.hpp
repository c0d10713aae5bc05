#pragma once

#include <string_view>
#include <vector>

#include "oncebox/store_location.hpp"

/// From the text of a file to its stores. Throws `invalid_argument`, naming line and key at most:
/// every value may be a secret.
namespace oncebox {

[[nodiscard]] std::vector<StoreLocation> parse_toml_stores(std::string_view text);
[[nodiscard]] std::vector<StoreLocation> parse_json_stores(std::string_view text);

/// A key as an error may show it; what does not look like one is not shown.
[[nodiscard]] std::string_view printable_key(std::string_view key) noexcept;

}  // namespace oncebox
