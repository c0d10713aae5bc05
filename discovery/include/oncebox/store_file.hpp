#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "oncebox/fleet/store_set.hpp"

namespace oncebox {

inline constexpr std::size_t kMaxStoreFileBytes = std::size_t{4} << 20;

/// A file that lists stores, for `StoreSet`. In TOML:
///
///     [[stores]]
///     name = "acme"
///     url = "sqlite:/var/lib/shop/acme.db"
///
/// or, when its name ends in `.json`: `{"stores": [{"name": "acme", "url": "sqlite:…"}]}`.
///
/// **Threads.** Every call but the destructor may be made from any thread at any time.
class StoreFile {
 public:
  /// Reads nothing yet: the file may be made later.
  explicit StoreFile(std::filesystem::path path);
  ~StoreFile();
  StoreFile(const StoreFile&) = delete;
  StoreFile& operator=(const StoreFile&) = delete;

  /// All stores of the file, in its order. Throws `unavailable` when it cannot be read, and
  /// `invalid_argument`, naming line and key but never a value, when it says something else.
  [[nodiscard]] std::vector<StoreLocation> read() const;

  [[nodiscard]] const std::filesystem::path& path() const noexcept;

 private:
  friend class StoreFileWatch;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Refreshes a set as soon as its file has changed, also when it is replaced, made or removed, and
/// once for a burst of changes. Where the system cannot tell of changes, because the folder is not
/// there or is not on this machine, the set's own interval remains.
class StoreFileWatch {
 public:
  /// Both are borrowed, and must outlive the watch.
  StoreFileWatch(const StoreFile& file, StoreSet& stores);
  ~StoreFileWatch();
  StoreFileWatch(const StoreFileWatch&) = delete;
  StoreFileWatch& operator=(const StoreFileWatch&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox
