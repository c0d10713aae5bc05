#include <fmt/format.h>

#include <memory>

#include "commands/commands.hpp"
#include "completion.hpp"
#include "help.hpp"
#include "json_output.hpp"
#include "output.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

enum class Shell { bash, zsh, fish };

constexpr Choice<Shell> kShells[] = {
    {"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}};

std::string script_for(Shell shell) {
  const Command program = oncebox_command();
  switch (shell) {
    case Shell::bash:
      return bash_completion(program);
    case Shell::zsh:
      return zsh_completion(program);
    case Shell::fish:
      break;
  }
  return fish_completion(program);
}

}  // namespace

Command version_command() {
  const auto json = std::make_shared<bool>(false);
  return {.name = "version",
          .summary = "Print the version",
          .options = {{.names = "--json", .text = "print JSON for programs", .take = into(*json)}},
          .examples = {{"oncebox version", "Which version is this"}},
          .run = [json](Console& console) {
            console.out.line(
                *json ? json_object({{"version", ONCEBOX_VERSION}, {"compiler", __VERSION__}})
                      : fmt::format("oncebox {}", ONCEBOX_VERSION));
            return ExitCode::ok;
          }};
}

Command completion_command() {
  const auto shell = std::make_shared<Shell>();
  return {.name = "completion",
          .summary = "Print a script with which a shell completes oncebox commands",
          .arguments = {{.value = "SHELL",
                         .text = "the shell",
                         .take = into(*shell, kShells),
                         .choices = words_of(kShells)}},
          .examples = {{"source <(oncebox completion bash)", "In ~/.bashrc"},
                       {"oncebox completion fish | source", "In fish's configuration"}},
          .run = [shell](Console& console) {
            console.out.write(script_for(*shell));
            return ExitCode::ok;
          }};
}

Command man_command() {
  const auto markdown = std::make_shared<bool>(false);
  return {.name = "man",
          .summary = "Print the manual page",
          .options = {{.names = "--markdown",
                       .text = "print the reference page of the documentation instead",
                       .take = into(*markdown)}},
          .visibility = Visibility::hidden,
          .run = [markdown](Console& console) {
            console.out.write(*markdown ? reference_page(oncebox_command())
                                        : manual_page(oncebox_command(), ONCEBOX_VERSION));
            return ExitCode::ok;
          }};
}

}  // namespace oncebox::app
