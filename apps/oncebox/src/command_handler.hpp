#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "child.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/handler.hpp"

namespace oncebox::app {

struct CommandHandlerOptions {
  std::vector<std::string> command;
  Duration timeout{0};  ///< none
  Duration grace = std::chrono::seconds{5};
  bool tells_store = false;  ///< whether the command learns which store a message comes from
};

/// Runs a command for one message after the other, from several threads at once. The command has
/// the payload on its standard input and the fields in its environment; its exit code decides.
class CommandHandler final : public Handler {
 public:
  explicit CommandHandler(CommandHandlerOptions options);

  void handle(const ClaimedMessage& claimed, HandlerContext& context) override;

 private:
  [[nodiscard]] std::vector<std::string> environment_for(const ClaimedMessage& claimed,
                                                         std::string_view store) const;
  void pass_on(std::string_view line);
  void judge(const ChildResult& result) const;

  const CommandHandlerOptions options_;
  const std::vector<std::string> environment_;  ///< our own, without what is a message's
  detail::Mutex mutex_;                         ///< of standard error
};

}  // namespace oncebox::app
