// Tenants that a table of a control database lists.

#include <sqlite3.h>

#include <iostream>
#include <string>
#include <vector>

#include "example_folder.hpp"
#include "oncebox/discover_by_query.hpp"
#include "oncebox/error.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/open_store.hpp"

using namespace oncebox;

namespace {

/// What the service that signs tenants up would do.
void execute(const std::string& path, const char* sql) {
  sqlite3* database = nullptr;
  sqlite3_open(path.c_str(), &database);
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    std::cout << sqlite3_errmsg(database) << "\n";
  }
  sqlite3_close(database);
}

void print(const char* what, const std::vector<std::string>& names) {
  for (const std::string& name : names) std::cout << what << ": " << name << "\n";
}

}  // namespace

int main() {
  const ExampleFolder folder;
  const std::string control = folder / "control.db";
  execute(control, R"sql(
      CREATE TABLE tenant (id TEXT PRIMARY KEY, database_url TEXT NOT NULL, left_at TEXT);
      INSERT INTO tenant VALUES ('acme', 'memory:', NULL), ('zenith', 'memory:', NULL))sql");

  StoreSet stores(discover_by_query("sqlite:" + control,
                                    "SELECT id, database_url FROM tenant WHERE left_at IS NULL"),
                  [](const StoreLocation& location) { return open_store(location.url); });
  print("open", stores.names());

  execute(control, R"sql(
      UPDATE tenant SET left_at = '2026-01-31' WHERE id = 'zenith';
      INSERT INTO tenant VALUES ('nova', 'memory:', NULL))sql");
  const RefreshResult result = stores.refresh();  // else within five minutes
  print("added", result.added);
  print("removed", result.removed);

  execute(control, "DROP TABLE tenant");
  try {
    stores.refresh();
  } catch (const Error&) {
    std::cout << "discovery: " << to_string(stores.health().discovery.status) << "\n";
  }
  print("still open", stores.names());
}
