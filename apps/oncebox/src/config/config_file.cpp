#include "config/config_file.hpp"

#include <toml++/toml.h>

#include <utility>

namespace oncebox::app {
namespace {

std::size_t line_of(const toml::node& node) { return node.source().begin.line; }

/// The values below a table. Which keys there may be is checked later.
class Reader {
 public:
  explicit Reader(ConfigDocument& document) : document_(document) {}

  void read(const toml::table& table) {
    for (auto&& [key, node] : table) {
      const std::string name(key.str());
      const toml::array* list = node.as_array();
      if (list != nullptr && list->is_array_of_tables()) {
        read_tables(name, *list);
      } else {
        read_node(name, node, document_.entries);
      }
    }
  }

 private:
  void read_tables(const std::string& name, const toml::array& list) {
    for (const toml::node& node : list) {
      ConfigDocument::Table table{.line = line_of(node), .entries = {}};
      for (auto&& [key, value] : *node.as_table()) {
        read_node(name + "." + std::string(key.str()), value, table.entries);
      }
      document_.tables[name].push_back(std::move(table));
    }
  }

  void read_node(const std::string& path, const toml::node& node,
                 std::vector<ConfigEntry>& entries) {
    if (const toml::table* table = node.as_table()) {
      for (auto&& [key, below] : *table) {
        read_node(path + "." + std::string(key.str()), below, entries);
      }
    } else if (const auto* text = node.as_string()) {
      entries.push_back({path, text->get(), line_of(node)});
    } else if (const auto* number = node.as_integer()) {
      entries.push_back({path, number->get(), line_of(node)});
    } else if (const auto* flag = node.as_boolean()) {
      entries.push_back({path, flag->get(), line_of(node)});
    } else if (const auto* real = node.as_floating_point()) {
      entries.push_back({path, real->get(), line_of(node)});
    } else if (const toml::array* list = node.as_array()) {
      read_list(path, *list, entries);
    } else {
      document_.problems.push_back({line_of(node), path + ": dates and times mean nothing here"});
    }
  }

  void read_list(const std::string& path, const toml::array& list,
                 std::vector<ConfigEntry>& entries) {
    std::vector<std::string> texts;
    for (const toml::node& node : list) {
      const auto* text = node.as_string();
      if (text == nullptr) {
        document_.problems.push_back({line_of(node), path + ": only texts can stand in this list"});
        return;
      }
      texts.push_back(text->get());
    }
    entries.push_back({path, std::move(texts), line_of(list)});
  }

  ConfigDocument& document_;
};

}  // namespace

ConfigDocument parse_config_document(const std::string& toml) {
  ConfigDocument document;
  try {
    const toml::table table = toml::parse(toml);
    Reader(document).read(table);
  } catch (const toml::parse_error& error) {
    document.problems.push_back({error.source().begin.line, std::string(error.description())});
  }
  return document;
}

}  // namespace oncebox::app
