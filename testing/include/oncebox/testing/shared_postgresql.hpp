#pragma once

#include <string>

namespace oncebox::testing {

/// The URL of a PostgreSQL server that all tests of a run share: its database `postgres`, as the
/// superuser. It is fast rather than durable, and takes 300 connections. A test makes a schema or a
/// database of its own there.
///
/// Under ctest it is the server that was started for the run (`NEEDS_POSTGRESQL` in
/// `oncebox_add_test`): the one named in the file that ONCEBOX_TEST_POSTGRESQL names. A program
/// that was started by hand gets a server of its own at the first call, which ends with the
/// program.
[[nodiscard]] const std::string& shared_postgresql_url();

}  // namespace oncebox::testing
