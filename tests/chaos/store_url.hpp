#pragma once

#include <string>

namespace oncebox::chaos {

/// How many processes work at a time.
inline constexpr unsigned kWorkers = 3;

namespace detail {

[[nodiscard]] inline std::string with_options(const std::string& database,
                                              const std::string& options) {
  const char* const next = database.find('?') == std::string::npos ? "?" : "&";
  return database + next + "schema=chaos&schema_deployment=on&max_connections=4&" + options;
}

}  // namespace detail

/// How the workers open a store in the database of this URL. They give up on a call soon, so that a
/// fault that outlasts a call is a short one; libpq takes no less for connecting.
[[nodiscard]] inline std::string store_url(const std::string& database) {
  return detail::with_options(database, "call_timeout_ms=1500&connect_timeout=2");
}

/// How the audit does, which nothing is to keep from its work.
[[nodiscard]] inline std::string patient_store_url(const std::string& database) {
  return detail::with_options(database, "call_timeout_ms=120000&connect_timeout=60");
}

}  // namespace oncebox::chaos
