#pragma once

#include <string>

namespace oncebox::testing {

/// Connects to a PostgreSQL server by its socket, as the superuser and without a password, runs
/// SQL, and answers the rows as `psql -At` prints them. Throws `unavailable` when it cannot
/// connect, the server says no, or nothing comes for half a minute.
///
/// These hundred lines of the protocol are what a test needs to look into its server; they save
/// our users a client library, and the servers that come without `psql` work, too.
std::string run_simple_query(const std::string& socket_path, const std::string& database,
                             const std::string& sql);

}  // namespace oncebox::testing
