#include "command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>

#include "failure.hpp"
#include "oncebox/error.hpp"
#include "printable.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

/// A command, the parser for it, and what the parser found.
struct Node {
  const Command* command = nullptr;
  CLI::App* parser = nullptr;
  bool asks_for_help = false;
  std::vector<std::vector<std::string>> values = {};  ///< for each option, those that were given
  std::deque<Node> below = {};                        ///< addresses must not change
};

[[noreturn]] void refuse_usage(const std::string& text, std::span<const std::string> path) {
  throw Failure(ExitCode::usage, fmt::format("{}; see {} --help", text, path_text(path)));
}

void describe(Node& node) {
  CLI::App& parser = *node.parser;
  const Command& command = *node.command;
  parser.set_help_flag();
  parser.add_flag("-h,--help", node.asks_for_help);
  // Words that belong to no option are sorted out here: the library would split "[a,b]" in two.
  parser.allow_extras();
  if (command.rest.wanted()) parser.prefix_command();
  if (!command.commands.empty()) parser.require_subcommand(0, 1);

  node.values.resize(command.options.size());
  for (std::size_t i = 0; i < command.options.size(); ++i) {
    const Option& option = command.options[i];
    std::vector<std::string>& values = node.values[i];
    if (option.is_switch()) {
      parser.add_flag_callback(option.names, [&values] { values.assign(1, ""); });
      continue;
    }
    CLI::Option* described = parser.add_option(option.names, values);
    described->type_size(1)->allow_extra_args(false);
    if (option.occurs == Occurs::once) {
      described->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::Throw);
    }
  }
  for (const Command& below : command.commands) {
    node.below.push_back({.command = &below, .parser = parser.add_subcommand(below.name, "")});
    describe(node.below.back());
  }
}

/// The arguments in the library's order, last first. What stands behind "--" is left to us.
struct Words {
  std::vector<std::string> parsed;
  std::vector<std::string> behind_dashes;
};

Words split_words(int argc, const char* const* argv) {
  Words words;
  std::vector<std::string> all(argv + 1, argv + argc);
  // What people try first: "oncebox help list" and "oncebox --version".
  if (!all.empty() && all.front() == "help") {
    all.erase(all.begin());
    all.emplace_back("--help");
  } else if (all.size() == 1 && all.front() == "--version") {
    all.front() = "version";
  }
  const auto dashes = std::find(all.begin(), all.end(), "--");
  for (auto word = all.begin(); word != dashes; ++word) {
    // The library takes the next word for the value of "--data=".
    if (word->starts_with("--") && word->find('=') + 1 == word->size()) {
      words.parsed.push_back(word->substr(0, word->size() - 1));
      words.parsed.emplace_back();
    } else {
      words.parsed.push_back(*word);
    }
  }
  std::reverse(words.parsed.begin(), words.parsed.end());
  if (dashes != all.end()) words.behind_dashes.assign(dashes + 1, all.end());
  return words;
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names{"--help"};
  for (const Option& option : command.options) names.push_back(option.long_name());
  return names;
}

void refuse_unknown_command(const Command& command, const std::string& word,
                            std::span<const std::string> path) {
  std::vector<std::string> names;
  for (const Command& below : command.commands) {
    if (!below.is_hidden()) names.push_back(below.name);
  }
  refuse_usage(
      fmt::format("there is no command \"{}\"{}", printable(word), suggestion(word, names)), path);
}

void refuse_unknown_option(const Command& command, const std::string& word,
                           std::span<const std::string> path) {
  const std::string name = word.substr(0, word.find('='));
  refuse_usage(fmt::format("there is no option {}{}", printable(name),
                           suggestion(name, option_names(command))),
               path);
}

/// Gives a value away; what is wrong with it is said together with where it stood.
void hand_over(const TakeValue& take, const std::string& value, const std::string& where,
               const std::vector<std::string>& choices, std::span<const std::string> path) {
  if (!choices.empty() && std::find(choices.begin(), choices.end(), value) == choices.end()) {
    refuse_usage(fmt::format("{}: \"{}\" is none of {}{}", where, printable(value),
                             fmt::join(choices, ", "), suggestion(value, choices)),
                 path);
  }
  try {
    take(value);
  } catch (const Error& error) {
    refuse_usage(fmt::format("{}: {}", where, printable(error.what())), path);
  }
}

void take_options(const Node& node, std::span<const std::string> path) {
  for (std::size_t i = 0; i < node.command->options.size(); ++i) {
    const Option& option = node.command->options[i];
    std::vector<std::string> values = node.values[i];
    std::string where = option.long_name();
    if (values.empty() && !option.variable.empty()) {
      const char* value = std::getenv(option.variable.c_str());
      if (value != nullptr && *value != '\0') values.emplace_back(value);
      where = option.variable;
    }
    for (const std::string& value : values) {
      hand_over(option.take, value, where, option.choices, path);
    }
  }
}

void take_arguments(const Command& command, std::vector<std::string> words,
                    std::span<const std::string> path) {
  auto word = words.begin();
  for (const Argument& argument : command.arguments) {
    if (word == words.end() && argument.presence == Presence::required) {
      refuse_usage(fmt::format("{} is missing", argument.value), path);
    }
    const auto end =
        argument.occurs == Occurs::repeatedly || word == words.end() ? words.end() : word + 1;
    for (; word != end; ++word) {
      hand_over(argument.take, *word, argument.value, argument.choices, path);
    }
  }
  if (command.rest.wanted()) {
    if (word == words.end()) refuse_usage(fmt::format("{} is missing", command.rest.value), path);
    for (; word != words.end(); ++word) command.rest.take(*word);
  }
  if (word != words.end()) {
    refuse_usage(fmt::format("\"{}\" is one argument too many", printable(*word)), path);
  }
}

/// In the words of the library, which knows only the shape: a value is missing, or comes twice.
std::string shape_error(const CLI::ParseError& error) {
  std::string text = error.what();
  if (!text.empty() && text.back() == '.') text.pop_back();
  return printable(text);
}

}  // namespace

Invocation parse_command_line(const Command& program, int argc, const char* const* argv) {
  CLI::App parser;
  Node root{.command = &program, .parser = &parser};
  describe(root);
  Words words = split_words(argc, argv);
  std::optional<std::string> wrong_shape;
  try {
    parser.parse(std::move(words.parsed));
  } catch (const CLI::ParseError& error) {
    wrong_shape = shape_error(error);
  }

  Invocation invocation{.path = {program.name}};
  Node* node = &root;
  bool asks_for_help = node->asks_for_help;
  while (!node->parser->get_subcommands().empty()) {
    const CLI::App* chosen = node->parser->get_subcommands().front();
    node = &*std::find_if(node->below.begin(), node->below.end(),
                          [&](const Node& below) { return below.parser == chosen; });
    invocation.path.push_back(node->command->name);
    asks_for_help = asks_for_help || node->asks_for_help;
  }
  invocation.command = node->command;
  if (wrong_shape) refuse_usage(*wrong_shape, invocation.path);
  if (asks_for_help) {
    invocation.kind = Invocation::Kind::help;
    return invocation;
  }

  std::vector<std::string> left = node->parser->remaining();
  // Of "work CMD --flag" the flag is not ours; nothing else may begin like an option.
  for (const std::string& word : left) {
    if (word.size() > 1 && word.front() == '-') {
      refuse_unknown_option(*node->command, word, invocation.path);
    }
    if (node->command->rest.wanted()) break;
  }
  if (!node->command->run) {
    if (!left.empty()) refuse_unknown_command(*node->command, left.front(), invocation.path);
    refuse_usage("a command is missing", invocation.path);
  }
  take_options(*node, invocation.path);
  left.insert(left.end(), words.behind_dashes.begin(), words.behind_dashes.end());
  take_arguments(*node->command, std::move(left), invocation.path);
  return invocation;
}

}  // namespace oncebox::app
