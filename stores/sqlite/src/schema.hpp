#pragma once

#include "connection.hpp"
#include "oncebox/store.hpp"

namespace oncebox::sqlite {

/// The version of the schema that this library reads and writes.
inline constexpr int kSchemaVersion = 7;

/// The version that the file has; 0 when our tables are not there.
[[nodiscard]] int schema_version(Connection& connection);

/// Brings the schema to `kSchemaVersion` in one transaction. Throws `conflict` when it is newer.
MigrationResult migrate(Connection& connection);

/// Throws the `conflict` of a file that has no tables of ours.
[[noreturn]] void refuse_missing_schema();

/// Throws `conflict`, saying what to do, unless the file has exactly this version.
void require_current_schema(Connection& connection);

}  // namespace oncebox::sqlite
