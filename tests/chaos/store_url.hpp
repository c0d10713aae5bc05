#pragma once

#include <string>

namespace oncebox::chaos {

/// How many processes work at a time.
inline constexpr unsigned kWorkers = 3;

/// How the workers and the audit open a store in the database of this URL. They give up on a call
/// soon, so that a fault that outlasts a call is a short one; libpq takes no less for connecting.
[[nodiscard]] inline std::string store_url(const std::string& database) {
  const char* const next = database.find('?') == std::string::npos ? "?" : "&";
  return database + next +
         "schema=chaos&schema_deployment=on&max_connections=4&call_timeout_ms=1500"
         "&connect_timeout=2";
}

}  // namespace oncebox::chaos
