#include "command_handler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "config/config.hpp"
#include "oncebox/error.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

// What a command's exit code means; every other code means that it failed and is to be tried again.
constexpr int kAck = 0;
constexpr int kPermanentFailure = 65;
constexpr int kTryAgain = 75;
constexpr int kNotNow = 79;  // the first that sysexits.h leaves free

/// Until a message comes again that was not tried, when its command does not say.
constexpr std::chrono::seconds kNotNowDelay{10};

/// How a command failed: a word for it, and what is kept as its error.
struct CommandFailure {
  std::string kind;
  std::string reason;
};

/// An exception of this type that says how the command ended.
template <class Exception>
class OfCommand final : public Exception, public NamesErrorKind {
 public:
  template <class... Arguments>
  explicit OfCommand(std::string kind, const Arguments&... arguments)
      : Exception(arguments...), kind_(std::move(kind)) {}

  [[nodiscard]] std::string error_kind() const override { return kind_; }

 private:
  std::string kind_;
};

std::string with_last_line(const std::string& what, const ChildResult& result) {
  return result.last_error_line.empty() ? what
                                        : fmt::format("{}: {}", what, result.last_error_line);
}

/// `timeout` is how long the command could have taken.
CommandFailure failure_of(const ChildResult& result, Duration timeout) {
  if (result.end == ChildResult::End::timed_out) {
    const std::string what = fmt::format("timed out after {}", format_duration(timeout));
    return {"timeout", with_last_line(what, result)};
  }
  if (result.end == ChildResult::End::killed) {
    const std::string what = fmt::format("killed by signal {}", result.signal);
    return {fmt::format("signal {}", result.signal), with_last_line(what, result)};
  }
  const int code = result.exit_code;
  const bool is_known = code == kPermanentFailure || code == kTryAgain || code == kNotNow;
  const std::string what = fmt::format("exit code {}", code);
  const bool says_enough = is_known && !result.last_error_line.empty();
  return {fmt::format("exit {}", code),
          says_enough ? result.last_error_line : with_last_line(what, result)};
}

}  // namespace

CommandHandler::CommandHandler(CommandHandlerOptions options, CommandGuard& guard, Logger& lines)
    : options_(std::move(options)),
      guard_(guard),
      environment_(environment_for_commands(own_environment(), options_.database_password)),
      lines_(lines) {}

void CommandHandler::handle(const ClaimedMessage& claimed, HandlerContext& context) {
  std::vector<std::string> environment = environment_;
  std::ranges::move(
      message_variables(claimed, options_.tells_store ? context.store() : std::string_view()),
      std::back_inserter(environment));
  environment.push_back(fmt::format("ONCEBOX_REPLY={}", kReplyPath));
  const ChildRequest request{.command = options_.command,
                             .environment = std::move(environment),
                             .input = claimed.message.payload.bytes(),
                             .timeout = options_.timeout,
                             .grace = options_.grace};
  const ChildResult result = run_child(request, guard_, context.stop_token(),
                                       [this](std::string_view line) { pass_on(line); });
  if (!guard_.is_there() && !has_told_of_guard_.exchange(true)) {
    pass_on(
        "oncebox: the process oncebox-guard was killed, so what commands have started would "
        "outlive this worker; restart this worker");
  }
  judge(result);
}

// Whole lines, so that those of several commands do not mix. A warning is written at once.
void CommandHandler::pass_on(std::string_view line) noexcept {
  lines_.log(LogLevel::warning, line, {});
}

// Nothing when it says nothing. A reply that means nothing is told to people; the exit code
// decides.
std::optional<CommandReply> CommandHandler::reply_of(const ChildResult& result) {
  if (result.reply.empty()) return std::nullopt;
  try {
    return parse_reply(result.reply);
  } catch (const Error& error) {
    pass_on(fmt::format("oncebox: ONCEBOX_REPLY: {}", error.what()));
    return std::nullopt;
  }
}

// Throws what the dispatcher takes for this end; returns when the message is done.
void CommandHandler::judge(const ChildResult& result) {
  using End = ChildResult::End;
  if (result.end == End::stopped) throw std::runtime_error("stopped");
  const bool has_exited = result.end == End::exited;
  if (has_exited && result.exit_code == kAck) return;
  const CommandFailure failure = failure_of(result, options_.timeout);
  if (has_exited && result.exit_code == kPermanentFailure) {
    throw OfCommand<PermanentFailure>(failure.kind, failure.reason);
  }
  const std::optional<CommandReply> reply = reply_of(result);
  // One that was killed has tried, whatever it said before.
  if (has_exited && reply && reply->word == CommandReply::Word::not_now) {
    throw OfCommand<NotNow>(failure.kind, reply->delay, failure.reason);
  }
  if (reply && reply->word == CommandReply::Word::retry_after) {
    throw OfCommand<RetryAfter>(failure.kind, reply->delay, failure.reason);
  }
  if (has_exited && result.exit_code == kNotNow) {
    throw OfCommand<NotNow>(failure.kind, kNotNowDelay, failure.reason);
  }
  throw OfCommand<std::runtime_error>(failure.kind, failure.reason);
}

}  // namespace oncebox::app
