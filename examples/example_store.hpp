#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>

#include "oncebox/open_store.hpp"

/// The store of an example: at the URL on the command line, or else in a SQLite file that is
/// removed in the end.
class ExampleStore {
 public:
  ExampleStore(int argc, char** argv)
      : store_(oncebox::open_store(argc > 1 ? std::string(argv[1]) : "sqlite:" + new_file())) {}
  ~ExampleStore() {
    store_.reset();
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  ExampleStore(const ExampleStore&) = delete;
  ExampleStore& operator=(const ExampleStore&) = delete;

  oncebox::Store& operator*() const { return *store_; }
  oncebox::Store* operator->() const { return store_.get(); }

 private:
  std::string new_file() {
    std::string name = (std::filesystem::temp_directory_path() / "oncebox-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    folder_ = name;
    return (folder_ / "example.db").string();
  }

  std::filesystem::path folder_;
  std::unique_ptr<oncebox::Store> store_;
};
