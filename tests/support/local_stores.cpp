#include "oncebox/memory/memory_store.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {

std::vector<Backend> backends_under_test() { return {Backend::memory, Backend::sqlite}; }

std::unique_ptr<Store> make_backend(Backend backend, const Clock& clock, const std::string& path) {
  if (backend == Backend::memory) return std::make_unique<memory::MemoryStore>(clock);
  return std::make_unique<sqlite::SqliteStore>(sqlite::Options{.path = path}, clock);
}

}  // namespace oncebox
