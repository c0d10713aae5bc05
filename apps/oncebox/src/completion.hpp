#pragma once

#include <string>

#include "command.hpp"

/// Scripts with which shells complete the command line, made from the description of the commands.
namespace oncebox::app {

[[nodiscard]] std::string bash_completion(const Command& program);
[[nodiscard]] std::string zsh_completion(const Command& program);
[[nodiscard]] std::string fish_completion(const Command& program);

}  // namespace oncebox::app
