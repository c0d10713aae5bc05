#pragma once

#include <span>
#include <string>

#include "command.hpp"

/// The texts that are made from the description of the commands.
namespace oncebox::app {

/// What `--help` prints about one command.
[[nodiscard]] std::string help_text(std::span<const std::string> path, const Command& command,
                                    std::size_t columns);

/// Breaks paragraphs into lines of at most `columns`; each begins with `indent` spaces.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent, std::size_t columns);

/// The option's text with its default, its choices and its variable.
[[nodiscard]] std::string full_text(const Option& option);

/// "-t, --topic TOPIC"
[[nodiscard]] std::string written(const Option& option);

/// A manual page in roff, for man(1).
[[nodiscard]] std::string manual_page(const Command& program, std::string_view version);

/// The reference page of the documentation, in Markdown.
[[nodiscard]] std::string reference_page(const Command& program);

}  // namespace oncebox::app
