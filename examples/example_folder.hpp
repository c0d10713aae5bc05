#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

/// A new folder, removed with all that is in it.
class ExampleFolder {
 public:
  ExampleFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "oncebox-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~ExampleFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ExampleFolder(const ExampleFolder&) = delete;
  ExampleFolder& operator=(const ExampleFolder&) = delete;

  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};
