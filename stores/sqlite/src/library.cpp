#include "library.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include "oncebox/error.hpp"

namespace oncebox::sqlite {

namespace {

// STRICT tables; RETURNING and UPDATE FROM came before.
constexpr int kOldestVersion = 3'037'000;

}  // namespace

Library running_library() noexcept {
  return {.version = sqlite3_libversion_number(), .has_threads = sqlite3_threadsafe() != 0};
}

void require_usable(const Library& library) {
  if (library.version < kOldestVersion) {
    const int version = library.version;
    throw Error(ErrorCode::unsupported,
                fmt::format("the SQLite library is version {}.{}.{}; 3.37.0 or newer is needed",
                            version / 1'000'000, version / 1'000 % 1'000, version % 1'000));
  }
  if (!library.has_threads) {
    throw Error(ErrorCode::unsupported,
                "the SQLite library was built without threads (SQLITE_THREADSAFE=0)");
  }
}

}  // namespace oncebox::sqlite
