#pragma once

#include "connection.hpp"
#include "names.hpp"
#include "oncebox/store.hpp"

/// The tables in the database, and how they come to be.
namespace oncebox::postgresql {

inline constexpr int kSchemaVersion = 6;

/// The version of the schema; 0 when there is none.
[[nodiscard]] int schema_version(Connection& connection, const Names& names, Deadline deadline);

/// Brings the schema to the version of this library, in one transaction. Others who do it at the
/// same time wait. Throws `conflict` when it is newer.
MigrationResult migrate(Connection& connection, const Names& names, Deadline deadline);

/// Throws `conflict`, saying what to do, unless the schema has the version of this library.
void require_current_schema(Connection& connection, const Names& names, Deadline deadline);

}  // namespace oncebox::postgresql
