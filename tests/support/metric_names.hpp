#pragma once

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace oncebox {

/// The family of a series: that of a histogram without the suffix.
inline std::string family_of(std::string name, const std::map<std::string, std::string>& types) {
  for (const std::string_view suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string family = name.substr(0, name.size() - suffix.size());
    if (types.contains(family)) return family;
  }
  return name;
}

/// The names of the labels between the braces of a series.
inline std::set<std::string> labels_of(std::string_view series) {
  std::set<std::string> labels;
  std::string name;
  bool quoted = false;
  for (std::size_t i = series.find('{') + 1; i < series.size(); ++i) {
    const char c = series[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      continue;
    } else if (c == '=') {
      if (name != "le") labels.insert(name);
      name.clear();
    } else if (c == '}') {
      break;
    } else if (c != ',') {
      name += c;
    }
  }
  return labels;
}

/// One line for each family of an exposition: its name, its type and the names of its labels.
inline std::string metric_names(const std::string& exposed) {
  std::map<std::string, std::string> types;
  std::map<std::string, std::set<std::string>> labels;
  std::istringstream lines(exposed);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      const std::string rest = line.substr(7);
      types[rest.substr(0, rest.find(' '))] = rest.substr(rest.find(' ') + 1);
    } else if (!line.starts_with('#')) {
      const std::string family = family_of(line.substr(0, line.find_first_of("{ ")), types);
      if (line.find('{') != line.npos) labels[family].merge(labels_of(line));
    }
  }
  std::string all;
  for (const auto& [name, type] : types) {
    all += name + ' ' + type;
    for (const std::string& label : labels[name]) all += ' ' + label;
    all += '\n';
  }
  return all;
}

}  // namespace oncebox
