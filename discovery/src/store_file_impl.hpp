#pragma once

#include <filesystem>

#include "file_state.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/store_file.hpp"

namespace oncebox {

struct StoreFile::Impl {
  std::filesystem::path path;

  void note(const FileState& state) {
    const detail::Lock lock(mutex);
    last_read = state;
  }
  [[nodiscard]] bool was_read_as(const FileState& state) {
    const detail::Lock lock(mutex);
    return state == last_read;
  }

 private:
  detail::Mutex mutex;
  FileState last_read ONCEBOX_GUARDED_BY(mutex);
};

}  // namespace oncebox
