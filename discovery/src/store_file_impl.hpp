#pragma once

#include <filesystem>
#include <mutex>

#include "file_state.hpp"
#include "oncebox/store_file.hpp"

namespace oncebox {

struct StoreFile::Impl {
  std::filesystem::path path;

  void note(const FileState& state) {
    const std::lock_guard lock(mutex);
    last_read = state;
  }
  [[nodiscard]] bool was_read_as(const FileState& state) {
    const std::lock_guard lock(mutex);
    return state == last_read;
  }

 private:
  std::mutex mutex;
  FileState last_read;
};

}  // namespace oncebox
