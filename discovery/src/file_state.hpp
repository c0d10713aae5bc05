#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace oncebox {

/// By what one version of a file is told from another without reading it.
struct FileState {
  bool exists = false;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t modified_s = 0;
  std::int64_t modified_ns = 0;

  friend bool operator==(const FileState&, const FileState&) = default;
};

[[nodiscard]] inline FileState file_state(const struct stat& status) noexcept {
  return {.exists = true,
          .device = status.st_dev,
          .inode = status.st_ino,
          .size = status.st_size,
          .modified_s = status.st_mtim.tv_sec,
          .modified_ns = status.st_mtim.tv_nsec};
}

/// Of the file that is there now.
[[nodiscard]] inline FileState file_state(const char* path) noexcept {
  struct stat status{};
  return stat(path, &status) == 0 ? file_state(status) : FileState{};
}

}  // namespace oncebox
