#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exit_code.hpp"

/// The command line as data. Each command describes itself once; parsing, help, the manual, the
/// reference page and the completion scripts are made from the same description.
namespace oncebox::app {

class Output;

/// Where a command's results and messages go.
struct Console {
  Output& out;
  Output& err;
};

/// Takes a value as it was written; throws `oncebox::Error` when it is not acceptable.
using TakeValue = std::function<void(const std::string&)>;

/// How a shell completes a value.
enum class Completes { nothing, file };
enum class Occurs { once, repeatedly };

struct Option {
  std::string names;          ///< "-t,--topic"
  std::string value = {};     ///< stands for the value in the help; empty: a switch
  std::string text;           ///< one sentence without a full stop
  TakeValue take;             ///< a switch takes an empty text
  std::string initial = {};   ///< the default, for the help
  std::string variable = {};  ///< an environment variable that is used when it is not given
  Occurs occurs = Occurs::once;
  std::vector<std::string> choices = {};  ///< the only values; empty: any
  Completes completes = Completes::nothing;

  [[nodiscard]] bool is_switch() const noexcept { return value.empty(); }
  /// `-t`, or nothing.
  [[nodiscard]] std::string short_name() const;
  /// `--topic`
  [[nodiscard]] std::string long_name() const;
};

enum class Presence { required, optional };

/// A value without a name.
struct Argument {
  std::string value;
  std::string text;
  TakeValue take;
  Presence presence = Presence::required;
  Occurs occurs = Occurs::once;
  std::vector<std::string> choices = {};
  Completes completes = Completes::nothing;
};

/// What it means that another program ended so.
struct ProgramEnd {
  std::string how;
  std::string meaning;
};

/// The rest of the command line, whatever it is: another program and its arguments.
struct Rest {
  std::string value = {};
  std::string text = {};
  TakeValue take = {};
  std::vector<ProgramEnd> ends = {};

  [[nodiscard]] bool wanted() const noexcept { return static_cast<bool>(take); }
  /// "COMMAND" of "COMMAND [ARGUMENT...]".
  [[nodiscard]] std::string program() const { return value.substr(0, value.find(' ')); }
};

struct Example {
  std::string command;
  std::string text;
};

enum class Visibility { shown, hidden };

struct Command {
  std::string name;
  std::string summary;    ///< one line for lists
  std::string text = {};  ///< paragraphs, separated by empty lines
  std::vector<Option> options = {};
  std::vector<Argument> arguments = {};
  Rest rest = {};
  std::vector<Example> examples = {};
  std::vector<Command> commands = {};
  Visibility visibility = Visibility::shown;
  /// Absent for a command that only groups others. What does both does this when none of the others
  /// is named.
  std::function<ExitCode(Console&)> run = {};

  [[nodiscard]] bool is_hidden() const noexcept { return visibility == Visibility::hidden; }
};

/// Appends options to those that a command has of its own.
[[nodiscard]] std::vector<Option> joined(std::vector<Option> first, std::vector<Option> second);

/// "oncebox dead list" for the path {"oncebox", "dead", "list"}.
[[nodiscard]] std::string path_text(std::span<const std::string> path);

/// "oncebox dead list [OPTIONS]"
[[nodiscard]] std::string usage_line(std::span<const std::string> path, const Command& command);

/// Calls `visit(path, command)` for the command and all below it that are not hidden.
void for_each_command(
    const Command& command,
    const std::function<void(std::span<const std::string> path, const Command& command)>& visit);

}  // namespace oncebox::app
