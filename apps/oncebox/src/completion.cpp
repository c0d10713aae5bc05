#include "completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

// Each script finds the command that is being written (`at`) by walking over the words, and then
// looks up what may follow it.
namespace oncebox::app {
namespace {

std::vector<std::string> names_of(const Option& option) {
  std::vector<std::string> names{option.long_name()};
  if (const std::string name = option.short_name(); !name.empty()) names.push_back(name);
  return names;
}

std::string all_paths(const Command& program, std::string_view separator) {
  std::vector<std::string> paths;
  for_each_command(program, [&](std::span<const std::string> path, const Command&) {
    if (path.size() > 1) paths.push_back(fmt::format("'{}'", path_text(path)));
  });
  return fmt::format("{}", fmt::join(paths, separator));
}

/// The words that may follow a command; `arguments` are those that are no options.
struct Followers {
  std::vector<std::string> words = {};
  Completes completes = Completes::nothing;
};

Followers followers_of(const Command& command) {
  Followers followers;
  for (const Command& below : command.commands) {
    if (!below.is_hidden()) followers.words.push_back(below.name);
  }
  for (const Argument& argument : command.arguments) {
    followers.words.insert(followers.words.end(), argument.choices.begin(), argument.choices.end());
    if (argument.completes == Completes::file) followers.completes = Completes::file;
  }
  if (command.rest.wanted()) followers.completes = Completes::file;
  return followers;
}

std::vector<std::string> option_words(const Command& command) {
  std::vector<std::string> words{"--help"};
  for (const Option& option : command.options) words.push_back(option.long_name());
  return words;
}

/// For single quotes in a shell.
std::string shell_quoted(std::string_view text) {
  std::string result = "'";
  for (const char character : text) {
    if (character == '\'') {
      result += "'\\''";
    } else {
      result += character;
    }
  }
  return result + "'";
}

}  // namespace

std::string bash_completion(const Command& program) {
  std::string values;
  std::string followers;
  for_each_command(program, [&](std::span<const std::string> path, const Command& command) {
    const std::string at = path_text(path);
    for (const Option& option : command.options) {
      if (option.is_switch()) continue;
      std::vector<std::string> cases;
      for (const std::string& name : names_of(option)) {
        cases.push_back(fmt::format("'{} {}'", at, name));
      }
      values += fmt::format("    {})", fmt::join(cases, " | "));
      if (!option.choices.empty()) {
        values += fmt::format(" words={} ;;\n",
                              shell_quoted(fmt::format("{}", fmt::join(option.choices, " "))));
      } else if (option.completes == Completes::file) {
        values += " files=1 ;;\n";
      } else {
        values += " return ;;\n";
      }
    }
    const Followers after = followers_of(command);
    followers += fmt::format("      '{}')\n        words={}\n", at,
                             shell_quoted(fmt::format("{}", fmt::join(after.words, " "))));
    if (after.completes == Completes::file) followers += "        files=1\n";
    followers +=
        fmt::format("        options={} ;;\n",
                    shell_quoted(fmt::format("{}", fmt::join(option_words(command), " "))));
  });
  return fmt::format(
      R"(# bash completion for oncebox: source <(oncebox completion bash)
_oncebox() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local at=oncebox words='' options='' files='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at ${{COMP_WORDS[i]}}" in
      {}) at="$at ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$at $previous" in
{}    *)
      case "$at" in
{}      esac
      if [[ $current == -* ]]; then
        words=$options
        files=''
      fi
      ;;
  esac
  local IFS=$' \t\n'
  # shellcheck disable=SC2207 # no candidate has a space
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ -n $files ]]; then
    compopt -o filenames 2> /dev/null
    local IFS=$'\n'
    # shellcheck disable=SC2207 # names are split at line ends
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}}
complete -F _oncebox oncebox
)",
      all_paths(program, " | "), values, followers);
}

std::string zsh_completion(const Command& program) {
  std::string values;
  std::string followers;
  for_each_command(program, [&](std::span<const std::string> path, const Command& command) {
    const std::string at = path_text(path);
    std::vector<std::string> options{shell_quoted("--help:show the help")};
    for (const Option& option : command.options) {
      std::string text = option.text;
      std::replace(text.begin(), text.end(), ':', ' ');
      options.push_back(shell_quoted(option.long_name() + ":" + text));
      if (option.is_switch()) continue;
      std::vector<std::string> cases;
      for (const std::string& name : names_of(option)) {
        cases.push_back(fmt::format("'{} {}'", at, name));
      }
      values += fmt::format("    {})", fmt::join(cases, "|"));
      if (!option.choices.empty()) {
        values += fmt::format(" compadd -- {} ;;\n", fmt::join(option.choices, " "));
      } else {
        values += option.completes == Completes::file ? " _files ;;\n" : " _message value ;;\n";
      }
    }
    const Followers after = followers_of(command);
    followers +=
        fmt::format("        '{}')\n          options=({})\n", at, fmt::join(options, " "));
    if (!after.words.empty()) {
      followers += fmt::format("          plain=({})\n", fmt::join(after.words, " "));
    }
    if (after.completes == Completes::file) followers += "          files=1\n";
    followers += "          ;;\n";
  });
  return fmt::format(
      R"(#compdef oncebox
# zsh completion for oncebox: source <(oncebox completion zsh), or put it into a folder of $fpath
_oncebox() {{
  local at=oncebox files='' i
  local -a options plain
  for ((i = 2; i < CURRENT; i++)); do
    case "$at ${{words[i]}}" in
      {}) at="$at ${{words[i]}}" ;;
    esac
  done
  case "$at ${{words[CURRENT - 1]}}" in
{}    *)
      case "$at" in
{}      esac
      if [[ $PREFIX == -* ]]; then
        _describe option options
      else
        (( $#plain )) && compadd -- $plain
        [[ -n $files ]] && _files
      fi
      ;;
  esac
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _oncebox "$@"
else
  compdef _oncebox oncebox
fi
)",
      all_paths(program, "|"), values, followers);
}

std::string fish_completion(const Command& program) {
  std::string text = fmt::format(
      R"(# fish completion for oncebox: oncebox completion fish | source
function __oncebox_at
    set -l at oncebox
    for word in (commandline -opc)[2..-1]
        switch "$at $word"
            case {}
                set at "$at $word"
        end
    end
    test "$at" = "$argv[1]"
end
complete -c oncebox -f
)",
      all_paths(program, " "));
  for_each_command(program, [&](std::span<const std::string> path, const Command& command) {
    const std::string condition =
        fmt::format("complete -c oncebox -n \"__oncebox_at '{}'\"", path_text(path));
    for (const Command& below : command.commands) {
      if (below.is_hidden()) continue;
      text += fmt::format("{} -a {} -d {}\n", condition, below.name, shell_quoted(below.summary));
    }
    for (const Argument& argument : command.arguments) {
      if (!argument.choices.empty()) {
        text += fmt::format("{} -a {}\n", condition,
                            shell_quoted(fmt::format("{}", fmt::join(argument.choices, " "))));
      }
    }
    if (followers_of(command).completes == Completes::file) text += condition + " -F\n";
    for (const Option& option : command.options) {
      text += fmt::format("{} -l {} -d {}", condition, option.long_name().substr(2),
                          shell_quoted(option.text));
      if (const std::string name = option.short_name(); !name.empty()) {
        text += " -s " + name.substr(1);
      }
      if (!option.is_switch()) text += option.completes == Completes::file ? " -r -F" : " -x";
      if (!option.choices.empty()) {
        text += " -a " + shell_quoted(fmt::format("{}", fmt::join(option.choices, " ")));
      }
      text += '\n';
    }
  });
  return text;
}

}  // namespace oncebox::app
