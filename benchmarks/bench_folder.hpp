#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace oncebox::bench {

/// A new folder on the disk that is measured, removed at the end: below ONCEBOX_BENCH_DIR, or where
/// temporary files go. A disk in memory would make every figure meaningless.
class BenchFolder {
 public:
  BenchFolder() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment
    const char* const chosen = std::getenv("ONCEBOX_BENCH_DIR");
    const std::filesystem::path parent =
        chosen != nullptr ? std::filesystem::path(chosen) : std::filesystem::temp_directory_path();
    std::string name = (parent / "oncebox-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("cannot make a folder below " + parent.string());
    }
    path_ = name;
  }
  ~BenchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;

  /// A path at which nothing is yet.
  [[nodiscard]] std::string new_file() { return (path_ / std::to_string(++files_)).string(); }

 private:
  std::filesystem::path path_;
  int files_ = 0;
};

}  // namespace oncebox::bench
