#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "config/config_keys.hpp"

namespace oncebox::app {

/// One value of the file, by the path of its key.
struct ConfigEntry {
  std::string path;
  ConfigValue value;
  std::size_t line = 0;
};

/// Something in the file that cannot be.
struct ConfigProblem {
  std::size_t line = 0;
  std::string text;
};

/// A TOML file, taken apart: values, and lists of tables such as [[stores]].
struct ConfigDocument {
  struct Table {
    std::size_t line = 0;
    std::vector<ConfigEntry> entries;  ///< paths begin with the name of the list
  };

  std::vector<ConfigEntry> entries = {};
  std::map<std::string, std::vector<Table>> tables = {};
  std::vector<ConfigProblem> problems = {};
};

/// Never throws for what is in the text: that is among the problems.
[[nodiscard]] ConfigDocument parse_config_document(const std::string& toml);

}  // namespace oncebox::app
