#pragma once

namespace oncebox::sqlite {

/// The SQLite library that this process runs with, which need not be the one it was built with.
struct Library {
  int version = 0;  ///< as in SQLITE_VERSION_NUMBER: 3.37.0 is 3037000
  bool has_threads = false;
};

[[nodiscard]] Library running_library() noexcept;

/// Throws `unsupported`, saying what is needed, unless the library can do what we use.
void require_usable(const Library& library);

}  // namespace oncebox::sqlite
