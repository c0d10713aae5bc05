#include "command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <utility>

namespace oncebox::app {
namespace {

void visit_commands(
    std::vector<std::string>& path, const Command& command,
    const std::function<void(std::span<const std::string>, const Command&)>& visit) {
  if (command.is_hidden()) return;
  path.push_back(command.name);
  visit(path, command);
  for (const Command& below : command.commands) visit_commands(path, below, visit);
  path.pop_back();
}

}  // namespace

std::string Option::short_name() const {
  return names.starts_with("--") ? std::string() : names.substr(0, names.find(','));
}

std::string Option::long_name() const {
  const std::size_t start = names.find("--");
  return start == std::string::npos ? std::string() : names.substr(start);
}

std::vector<Option> joined(std::vector<Option> first, std::vector<Option> second) {
  first.insert(first.end(), std::make_move_iterator(second.begin()),
               std::make_move_iterator(second.end()));
  return first;
}

std::string path_text(std::span<const std::string> path) {
  return fmt::format("{}", fmt::join(path.begin(), path.end(), " "));
}

std::string usage_line(std::span<const std::string> path, const Command& command) {
  std::string line = path_text(path);
  if (!command.commands.empty()) line += command.run ? " [COMMAND]" : " COMMAND";
  if (!command.options.empty()) line += " [OPTIONS]";
  for (const Argument& argument : command.arguments) {
    std::string word = argument.value;
    if (argument.occurs == Occurs::repeatedly) word += "...";
    line += argument.presence == Presence::optional ? fmt::format(" [{}]", word) : " " + word;
  }
  if (command.rest.wanted()) line += " [--] " + command.rest.value;
  return line;
}

void for_each_command(
    const Command& command,
    const std::function<void(std::span<const std::string>, const Command&)>& visit) {
  std::vector<std::string> path;
  visit_commands(path, command, visit);
}

}  // namespace oncebox::app
