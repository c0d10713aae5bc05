#include <sqlite3.h>

#include "oncebox/memory/memory_store.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/sqlite/transaction.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

/// In the file of the store.
class SqliteTable final : public OwnTable {
 public:
  bool insert(Transaction& transaction, const std::string& id) override {
    const std::string create = "CREATE TABLE IF NOT EXISTS own (id TEXT PRIMARY KEY);";
    const std::string sql = create + "INSERT INTO own VALUES ('" + id + "')";
    sqlite3* const database = sqlite::database_of(transaction);
    return sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  }
};

}  // namespace

std::vector<Backend> backends_under_test() { return {Backend::memory, Backend::sqlite}; }

std::unique_ptr<Store> make_backend(Backend backend, const Clock& clock, const std::string& path) {
  if (backend == Backend::memory) return std::make_unique<memory::MemoryStore>(clock);
  return std::make_unique<sqlite::SqliteStore>(sqlite::Options{.path = path}, clock);
}

Backend database_under_test() { return Backend::sqlite; }

std::unique_ptr<OwnTable> make_own_table() { return std::make_unique<SqliteTable>(); }

}  // namespace oncebox
