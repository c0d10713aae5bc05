#pragma once

#include <string>

struct pg_conn;
struct sqlite3;

namespace oncebox::effects {

/// A statement without an answer. Throws what the database says when it fails.
void run_sql(sqlite3* database, const std::string& sql);
void run_sql(pg_conn* connection, const std::string& sql);

}  // namespace oncebox::effects
