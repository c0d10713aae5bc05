#pragma once

#include <memory>
#include <optional>
#include <string>

#include "example_folder.hpp"
#include "oncebox/open_store.hpp"

/// The store of an example: at the URL on the command line, or else in a SQLite file that is
/// removed in the end.
class ExampleStore {
 public:
  ExampleStore(int argc, char** argv)
      : store_(oncebox::open_store(argc > 1 ? std::string(argv[1]) : "sqlite:" + new_file())) {}

  oncebox::Store& operator*() const { return *store_; }
  oncebox::Store* operator->() const { return store_.get(); }

 private:
  std::string new_file() { return folder_.emplace() / "example.db"; }

  std::optional<ExampleFolder> folder_;
  std::unique_ptr<oncebox::Store> store_;  // goes before its folder
};
