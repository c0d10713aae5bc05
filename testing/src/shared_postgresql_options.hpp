#pragma once

#include "oncebox/testing/postgresql_server.hpp"

namespace oncebox::testing {

/// How the server is made that all tests of a run share.
[[nodiscard]] inline PostgresqlServerOptions shared_postgresql_options() {
  return {.settings = {{"max_connections", "300"}}};
}

}  // namespace oncebox::testing
