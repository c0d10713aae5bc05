#pragma once

#include <map>
#include <string>

namespace oncebox::postgresql {

/// What a libpq URL says, by keyword: host, port, user, dbname, …
using LibpqKeywords = std::map<std::string, std::string>;

[[nodiscard]] LibpqKeywords read_libpq_url(const std::string& url);

/// The same as a string of `keyword=value` pairs, which libpq reads too.
[[nodiscard]] std::string to_connection_string(const LibpqKeywords& keywords);

}  // namespace oncebox::postgresql
