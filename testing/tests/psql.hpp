#pragma once

#include <string>

namespace oncebox::testing {

/// What `psql -At` prints for SQL at this URL, errors included: as any client of libpq sees it.
[[nodiscard]] std::string psql(const std::string& url, const std::string& sql);

}  // namespace oncebox::testing
