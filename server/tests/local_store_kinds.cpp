#include "api_fixture.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"

namespace oncebox::server {

std::vector<StoreKind> store_kinds() { return {StoreKind::memory, StoreKind::sqlite}; }

std::unique_ptr<Store> make_store(StoreKind kind, const Clock& clock,
                                  const testing::TemporaryFolder& folder, const std::string& name) {
  if (kind == StoreKind::memory) return std::make_unique<memory::MemoryStore>(clock);
  return std::make_unique<sqlite::SqliteStore>(sqlite::Options{.path = folder.file(name)}, clock);
}

}  // namespace oncebox::server
