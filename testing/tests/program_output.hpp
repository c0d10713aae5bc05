#pragma once

#include <string>
#include <vector>

namespace oncebox::testing {

/// What a program prints, errors included.
[[nodiscard]] std::string output_of(const std::vector<std::string>& command);

/// What `psql -At` prints for SQL at this URL: as any client of libpq sees it.
[[nodiscard]] std::string psql(const std::string& url, const std::string& sql);

}  // namespace oncebox::testing
