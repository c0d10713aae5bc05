#pragma once

#include <string>

namespace oncebox::sqlite {

/// A layer between SQLite and the disk that fails writes and flushes on demand, for every file
/// opened through it in this process.
class FaultyDisk {
 public:
  enum class Fault {
    io_error,     ///< as if the disk were broken
    disk_full,    ///< as if no space were left
    flush_error,  ///< as if the disk were broken, noticed at a flush; only flushes are counted
  };

  /// Registers the layer, once, and answers its name for `Options::vfs`.
  static std::string vfs();

  /// From now on the `countdown`-th write or flush from here, counted from 0, fails.
  FaultyDisk(int countdown, Fault fault);
  /// The disk is well again.
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  [[nodiscard]] bool struck() const noexcept;
};

}  // namespace oncebox::sqlite
