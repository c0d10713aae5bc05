#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "help.hpp"

namespace oncebox::app {
namespace {

std::vector<std::string_view> paragraphs_of(std::string_view text) {
  std::vector<std::string_view> paragraphs;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find("\n\n"), text.size());
    paragraphs.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return paragraphs;
}

// roff ------------------------------------------------------------------------------------------

/// Text that means nothing to roff. A hyphen stays what a shell reads when somebody copies it.
std::string roff(std::string_view text) {
  std::string result;
  if (text.starts_with('.') || text.starts_with('\'')) result += "\\&";
  for (const char character : text) {
    switch (character) {
      case '\\':
        result += "\\e";
        break;
      case '-':
        result += "\\-";
        break;
      case '\'':
        result += "\\(aq";
        break;
      case '`':
        result += "\\(ga";
        break;
      case '^':
        result += "\\(ha";
        break;
      case '~':
        result += "\\(ti";
        break;
      case '\n':
        result += ' ';
        break;
      default:
        result += character;
    }
  }
  return result;
}

std::string roff_option(const Option& option) {
  std::string names = option.short_name();
  names = names.empty() ? std::string() : fmt::format("\\fB{}\\fR, ", roff(names));
  names += fmt::format("\\fB{}\\fR", roff(option.long_name()));
  if (!option.is_switch()) names += fmt::format(" \\fI{}\\fR", roff(option.value));
  return fmt::format(".TP\n{}\n{}.\n", names, roff(full_text(option)));
}

std::string roff_command(std::span<const std::string> path, const Command& command) {
  std::string text = fmt::format(".SS \"{}\"\n", roff(path_text(path.subspan(1))));
  text += fmt::format(".B {}\n.PP\n{}.\n", roff(usage_line(path, command)), roff(command.summary));
  for (const std::string_view paragraph : paragraphs_of(command.text)) {
    text += fmt::format(".PP\n{}\n", roff(paragraph));
  }
  for (const Argument& argument : command.arguments) {
    text += fmt::format(".TP\n\\fI{}\\fR\n{}.\n", roff(argument.value), roff(argument.text));
  }
  if (command.rest.wanted()) {
    text +=
        fmt::format(".TP\n\\fI{}\\fR\n{}.\n", roff(command.rest.value), roff(command.rest.text));
  }
  if (!command.rest.ends.empty()) {
    text += fmt::format(".PP\nExit codes of \\fI{}\\fR:\n", roff(command.rest.program()));
  }
  for (const ProgramEnd& end : command.rest.ends) {
    text += fmt::format(".TP\n{}\n{}.\n", roff(end.how), roff(end.meaning));
  }
  for (const Option& option : command.options) text += roff_option(option);
  for (const Example& example : command.examples) {
    text += fmt::format(".PP\n{}:\n.PP\n.RS 4\n.nf\n{}\n.fi\n.RE\n", roff(example.text),
                        roff(example.command));
  }
  return text;
}

// Markdown --------------------------------------------------------------------------------------

/// Text for a cell of a table.
std::string cell(std::string_view text) {
  std::string result;
  for (const char character : text) {
    if (character == '|' || character == '<') result += '\\';
    result += character;
  }
  return result;
}

std::string markdown_command(std::span<const std::string> path, const Command& command) {
  std::string text = fmt::format("\n## {}\n\n```sh\n{}\n```\n\n{}.\n", path_text(path),
                                 usage_line(path, command), command.summary);
  for (const std::string_view paragraph : paragraphs_of(command.text)) {
    text += fmt::format("\n{}\n", paragraph);
  }
  if (!command.arguments.empty() || command.rest.wanted()) {
    text += "\n| argument | meaning |\n|---|---|\n";
  }
  for (const Argument& argument : command.arguments) {
    text += fmt::format("| `{}` | {} |\n", argument.value, cell(argument.text));
  }
  if (command.rest.wanted()) {
    text += fmt::format("| `{}` | {} |\n", command.rest.value, cell(command.rest.text));
  }
  if (!command.rest.ends.empty()) {
    text += fmt::format("\n| exit code of {} | meaning |\n|---|---|\n", command.rest.program());
  }
  for (const ProgramEnd& end : command.rest.ends) {
    text += fmt::format("| {} | {} |\n", end.how, cell(end.meaning));
  }
  if (!command.options.empty()) text += "\n| option | meaning |\n|---|---|\n";
  for (const Option& option : command.options) {
    const std::string names = written(option);
    text += fmt::format("| `{}` | {} |\n", names.substr(names.find('-')), cell(full_text(option)));
  }
  for (const Example& example : command.examples) {
    text += fmt::format("\n{}:\n\n```sh\n{}\n```\n", example.text, example.command);
  }
  return text;
}

}  // namespace

std::string manual_page(const Command& program, std::string_view version) {
  std::string text = fmt::format(
      ".\\\" Made from the descriptions of the commands.\n.TH ONCEBOX 1 \"\" \"oncebox {}\" "
      "\"User Commands\"\n.SH NAME\noncebox \\- {}\n.SH SYNOPSIS\n.B oncebox\n"
      "\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n",
      version, roff(program.summary));
  std::string_view separator;
  for (const std::string_view paragraph : paragraphs_of(program.text)) {
    text += fmt::format("{}{}\n", separator, roff(paragraph));
    separator = ".PP\n";
  }
  text += ".SH COMMANDS\n";
  for_each_command(program, [&](std::span<const std::string> path, const Command& command) {
    if (command.run) text += roff_command(path, command);
  });
  text += ".SH EXIT STATUS\n";
  for (const ExitCodeMeaning& meaning : exit_code_meanings()) {
    text += fmt::format(".TP\n.B {}\n{}.\n", static_cast<int>(meaning.code), roff(meaning.text));
  }
  text += ".SH ENVIRONMENT\n";
  for (const auto& [name, meaning] :
       {std::pair{"ONCEBOX_URL", "the server or store, where --url does not say it"},
        std::pair{"ONCEBOX_TOKEN", "the bearer token for a server"},
        std::pair{"ONCEBOX_CONFIG", "the configuration file of serve and validate"},
        std::pair{"ONCEBOX_TOKENS", "the bearer tokens that a server accepts, one a line"},
        std::pair{"NO_COLOR", "when it is set and not empty: no colours"}}) {
    text += fmt::format(".TP\n.B {}\n{}.\n", name, roff(meaning));
  }
  return text;
}

std::string reference_page(const Command& program) {
  std::string text =
      "# The command-line tool\n\n"
      "Made by `oncebox man --markdown`; a test compares them. How the server is configured is in "
      "[configuration](configuration.md).\n";
  for (const std::string_view paragraph : paragraphs_of(program.text)) {
    text += fmt::format("\n{}\n", paragraph);
  }
  text += "\n| command | what it does |\n|---|---|\n";
  for_each_command(program, [&](std::span<const std::string> path, const Command& command) {
    if (!command.run) return;
    const std::string name = path_text(path.subspan(1));
    std::string anchor = path_text(path);
    std::replace(anchor.begin(), anchor.end(), ' ', '-');
    text += fmt::format("| [{}](#{}) | {} |\n", name, anchor, cell(command.summary));
  });
  text += "\n| exit code | meaning |\n|---|---|\n";
  for (const ExitCodeMeaning& meaning : exit_code_meanings()) {
    text += fmt::format("| {} | {} |\n", static_cast<int>(meaning.code), cell(meaning.text));
  }
  for_each_command(program, [&](std::span<const std::string> path, const Command& command) {
    if (command.run) text += markdown_command(path, command);
  });
  return text;
}

}  // namespace oncebox::app
