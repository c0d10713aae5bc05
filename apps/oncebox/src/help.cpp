#include "help.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "printable.hpp"

namespace oncebox::app {
namespace {

constexpr std::size_t kTextColumn = 30;

std::vector<std::string_view> words_in_text(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/// "  --name VALUE     text", with the text in its column.
std::string entry(std::string_view name, std::string_view text, std::size_t columns) {
  std::string result = fmt::format("  {}", name);
  std::string body = wrapped(text, kTextColumn, columns);
  if (result.size() + 2 <= kTextColumn) {
    result += body.substr(result.size());
  } else {
    result += "\n" + body;
  }
  return result;
}

std::string option_entries(const Command& command, std::size_t columns) {
  std::string text = "\nOptions:\n";
  for (const Option& option : command.options) {
    text += entry(written(option), full_text(option), columns);
  }
  return text + entry("-h, --help", "show this text", columns);
}

std::string exit_codes(std::size_t columns) {
  std::string text = "\nExit codes:\n";
  for (const ExitCodeMeaning& meaning : exit_code_meanings()) {
    text += fmt::format("  {:>2}  ", static_cast<int>(meaning.code)) +
            wrapped(meaning.text, 6, columns).substr(6);
  }
  return text;
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t indent, std::size_t columns) {
  std::string result;
  std::string line(indent, ' ');
  bool is_empty = true;
  for (const std::string_view word : words_in_text(text)) {
    if (!is_empty && display_width(line) + 1 + display_width(word) > columns) {
      result += line + "\n";
      line.assign(indent, ' ');
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
    is_empty = false;
  }
  return result + line + "\n";
}

std::string written(const Option& option) {
  const std::string short_name = option.short_name();
  std::string text = short_name.empty() ? "    " : short_name + ", ";
  text += option.long_name();
  return option.is_switch() ? text : text + " " + option.value;
}

std::string full_text(const Option& option) {
  std::string text = option.text;
  std::vector<std::string> remarks;
  if (option.occurs == Occurs::repeatedly) remarks.emplace_back("may be repeated");
  if (!option.choices.empty()) {
    remarks.push_back(fmt::format("one of {}", fmt::join(option.choices, ", ")));
  }
  if (!option.initial.empty()) remarks.push_back(fmt::format("default: {}", option.initial));
  if (!option.variable.empty()) remarks.push_back(fmt::format("or {}", option.variable));
  if (!remarks.empty()) text += fmt::format(" ({})", fmt::join(remarks, "; "));
  return text;
}

std::string help_text(std::span<const std::string> path, const Command& command,
                      std::size_t columns) {
  columns = std::clamp<std::size_t>(columns, 60, 100);
  std::string text = fmt::format("usage: {}\n\n", usage_line(path, command));
  text += wrapped(command.summary + ".", 0, columns);
  std::string_view rest = command.text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("\n\n"), rest.size());
    text += "\n" + wrapped(rest.substr(0, end), 0, columns);
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }

  if (!command.commands.empty()) text += "\nCommands:\n";
  for (const Command& below : command.commands) {
    if (!below.is_hidden()) text += entry(below.name, below.summary, columns);
  }
  if (!command.arguments.empty() || command.rest.wanted()) text += "\nArguments:\n";
  for (const Argument& argument : command.arguments) {
    std::string what = argument.text;
    if (!argument.choices.empty()) {
      what += fmt::format(" (one of {})", fmt::join(argument.choices, ", "));
    }
    text += entry(argument.value, what, columns);
  }
  if (command.rest.wanted()) text += entry(command.rest.value, command.rest.text, columns);
  text += option_entries(command, columns);
  if (!command.rest.ends.empty()) {
    text += fmt::format("\nExit codes of {}:\n", command.rest.program());
  }
  for (const ProgramEnd& end : command.rest.ends) text += entry(end.how, end.meaning, columns);

  if (!command.examples.empty()) text += "\nExamples:\n";
  for (const Example& example : command.examples) {
    text += wrapped("# " + example.text, 2, columns) + "  " + example.command + "\n";
  }
  if (path.size() == 1) text += exit_codes(columns);
  return text;
}

}  // namespace oncebox::app
