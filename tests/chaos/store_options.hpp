#pragma once

#include <string>

#include "oncebox/postgresql/postgresql_store.hpp"

namespace oncebox::chaos {

/// How many processes work at a time.
inline constexpr unsigned kWorkers = 3;

/// How the workers and the audit open the store. They give up on a call soon, so that a fault that
/// outlasts a call is a short one.
[[nodiscard]] inline postgresql::Options store_options(const std::string& url) {
  postgresql::Options options;
  options.connection = url;
  options.schema = "chaos";
  options.schema_deployment = postgresql::SchemaDeployment::on;
  options.max_connections = 4;
  options.call_timeout = std::chrono::milliseconds{1'500};
  options.connect_timeout = std::chrono::seconds{2};  // libpq takes no less
  return options;
}

}  // namespace oncebox::chaos
