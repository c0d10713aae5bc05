#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "oncebox/message.hpp"

/// What a command that handles a message finds in its environment. A sender chooses ids, topics and
/// headers, so none of them can set a variable that is not its own.
namespace oncebox::app {

/// Whose password the variables of libpq hold.
enum class DatabasePassword { of_the_command, of_the_worker };

/// A worker's environment without the worker's own variables, which hold URLs and tokens.
[[nodiscard]] std::vector<std::string> environment_for_commands(const std::vector<std::string>& own,
                                                                DatabasePassword password);

/// NAME=VALUE for each field of the message. `store` is empty when there is only one.
[[nodiscard]] std::vector<std::string> message_variables(const ClaimedMessage& claimed,
                                                         std::string_view store);

/// A name for a file: the same for the same key, another for another, and nothing but 40 hex
/// digits. The beginning of the SHA-256 of source, NUL and id, after the store's name and a NUL if
/// there are many stores.
[[nodiscard]] std::string message_file_name(const MessageKey& key, std::string_view store);

}  // namespace oncebox::app
