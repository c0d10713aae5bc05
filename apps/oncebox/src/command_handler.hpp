#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "child.hpp"
#include "command_guard.hpp"
#include "command_reply.hpp"
#include "message_variables.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/log.hpp"

namespace oncebox::app {

struct CommandHandlerOptions {
  std::vector<std::string> command;
  Duration timeout{0};  ///< none
  Duration grace = std::chrono::seconds{5};
  bool tells_store = false;  ///< whether the command learns which store a message comes from
  DatabasePassword database_password = DatabasePassword::of_the_command;
};

/// Runs a command for one message after the other, from several threads at once. The command has
/// the payload on its standard input and the fields in its environment; its exit code decides, and
/// its reply, if there is one.
class CommandHandler final : public Handler {
 public:
  /// `lines` gets what commands write to standard error. It and the guard are borrowed and must
  /// outlive the handler.
  CommandHandler(CommandHandlerOptions options, CommandGuard& guard, Logger& lines);

  void handle(const ClaimedMessage& claimed, HandlerContext& context) override;

 private:
  void pass_on(std::string_view line) noexcept;
  [[nodiscard]] std::optional<CommandReply> reply_of(const ChildResult& result);
  void judge(const ChildResult& result);

  const CommandHandlerOptions options_;
  CommandGuard& guard_;
  const std::vector<std::string> environment_;  ///< what every command gets
  Logger& lines_;
  std::atomic<bool> has_told_of_guard_ = false;
};

}  // namespace oncebox::app
